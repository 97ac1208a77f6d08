//! Functions that the simulation answers itself: clocks show simulated time, random bytes come from
//! the seed, and a sleep returns at once, because it would stop the only thread there is.
//!
//! While no simulation runs on the calling thread, each makes the system call that the C library
//! would make. A clock is read by the C library itself, which needs no system call for it: a server
//! looks at its clock dozens of times in a transaction.

use crate::hermetic::{ACTIVE, SLEEPS, next_random, simulated};
use std::ffi::{c_int, c_long, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// # Safety
///
/// As the C function: `buffer` has room for `length` bytes.
pub unsafe fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
    if !ACTIVE.get() {
        // SAFETY: the caller's promise is the system call's.
        return unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) as isize };
    }
    // SAFETY: the caller's promise.
    unsafe { fill(buffer, length) };
    length as isize
}

/// # Safety
///
/// As the C function: `buffer` has room for `length` bytes.
pub unsafe fn getentropy(buffer: *mut c_void, length: usize) -> c_int {
    // SAFETY: the caller's promise.
    if unsafe { getrandom(buffer, length, 0) } == length as isize {
        0
    } else {
        -1
    }
}

/// # Safety
///
/// As the C function, which cannot be misused.
pub unsafe fn arc4random() -> u32 {
    let mut bytes = [0; 4];
    // SAFETY: a local of that length.
    unsafe { arc4random_buf(bytes.as_mut_ptr().cast(), bytes.len()) };
    u32::from_ne_bytes(bytes)
}

/// # Safety
///
/// As the C function: `buffer` has room for `length` bytes.
pub unsafe fn arc4random_buf(buffer: *mut c_void, length: usize) {
    // SAFETY: the caller's promise. Once the machine has gathered its entropy the call cannot fail
    // for up to 256 bytes.
    unsafe {
        for offset in (0..length).step_by(256) {
            getrandom(buffer.byte_add(offset), (length - offset).min(256), 0);
        }
    }
}

/// # Safety
///
/// As the C function, which cannot be misused.
pub unsafe fn arc4random_uniform(bound: u32) -> u32 {
    // SAFETY: it cannot be misused.
    let random = unsafe { arc4random() };
    ((u64::from(random) * u64::from(bound)) >> 32) as u32
}

/// # Safety
///
/// `buffer` has room for `length` bytes.
unsafe fn fill(buffer: *mut c_void, length: usize) {
    let mut offset = 0;
    while offset < length {
        let bytes = next_random().to_ne_bytes();
        let count = bytes.len().min(length - offset);
        // SAFETY: `offset + count <= length`, and the caller promised room for `length` bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast::<u8>().add(offset), count);
        }
        offset += count;
    }
}

/// Every clock shows simulated time; those of the calendar start at a fixed date.
///
/// # Safety
///
/// As the C function: `time` is null or valid.
pub unsafe fn clock_gettime(clock: c_int, time: *mut libc::timespec) -> c_int {
    if !ACTIVE.get() {
        return original!(
            c"clock_gettime" as fn(c_int, *mut libc::timespec) -> c_int,
            (clock, time),
            // SAFETY: the caller's promise is the system call's.
            otherwise unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int }
        );
    }
    if !time.is_null() {
        let (seconds, nanos) = simulated(clock);
        // SAFETY: not null, hence valid by the caller's promise.
        unsafe {
            (*time).tv_sec = seconds;
            (*time).tv_nsec = nanos;
        }
    }
    0
}

/// # Safety
///
/// As the C function: both are null or valid.
pub unsafe fn gettimeofday(time: *mut libc::timeval, zone: *mut c_void) -> c_int {
    if !ACTIVE.get() {
        // SAFETY: the caller's promise is the system call's.
        return unsafe { libc::syscall(libc::SYS_gettimeofday, time, zone) as c_int };
    }
    if !time.is_null() {
        let (seconds, nanos) = simulated(libc::CLOCK_REALTIME);
        // SAFETY: not null, hence valid by the caller's promise.
        unsafe {
            (*time).tv_sec = seconds;
            (*time).tv_usec = nanos / 1000;
        }
    }
    0
}

/// # Safety
///
/// As the C function: `out` is null or valid.
pub unsafe fn time(out: *mut libc::time_t) -> libc::time_t {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local.
    unsafe { clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    if !out.is_null() {
        // SAFETY: not null, hence valid by the caller's promise.
        unsafe { *out = now.tv_sec };
    }
    now.tv_sec
}

/// # Safety
///
/// As the C function, which cannot be misused.
pub unsafe fn getpid() -> libc::pid_t {
    if ACTIVE.get() {
        1
    } else {
        // SAFETY: the system call has no arguments and cannot fail.
        unsafe { libc::syscall(libc::SYS_getpid) as libc::pid_t }
    }
}

/// Some crates make system calls by number; those that are known here are handled.
///
/// # Safety
///
/// As the C function: the arguments are what the system call of that number takes.
pub unsafe fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    if ACTIVE.get() {
        let pointer = |argument: c_long| std::ptr::with_exposed_provenance_mut(argument as usize);
        // SAFETY: the caller's promise is that of the functions.
        unsafe {
            match number {
                libc::SYS_getrandom => {
                    return getrandom(pointer(a), b as usize, c as c_uint) as c_long;
                }
                libc::SYS_clock_gettime => {
                    return clock_gettime(a as c_int, pointer(b).cast()).into();
                }
                libc::SYS_gettimeofday => {
                    return gettimeofday(pointer(a).cast(), pointer(b)).into();
                }
                _ => {}
            }
        }
    }
    original!(
        c"syscall" as fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long,
        (number, a, b, c, d, e, f),
        otherwise - 1
    )
}

fn swallow_sleep() -> bool {
    SLEEPS.note(None);
    ACTIVE.get()
}

/// # Safety
///
/// As the C function: `wish` is valid, `rest` is null or valid.
pub unsafe fn nanosleep(wish: *const libc::timespec, rest: *mut libc::timespec) -> c_int {
    if swallow_sleep() {
        return 0;
    }
    // SAFETY: the caller's promise; this is the system call behind the function.
    unsafe { libc::syscall(libc::SYS_nanosleep, wish, rest) as c_int }
}

/// # Safety
///
/// As the C function, which cannot be misused.
pub unsafe fn sleep(seconds: c_uint) -> c_uint {
    let wish = libc::timespec {
        tv_sec: seconds.into(),
        tv_nsec: 0,
    };
    let mut rest = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both are locals.
    match unsafe { nanosleep(&raw const wish, &raw mut rest) } {
        0 => 0,
        _ => rest.tv_sec as c_uint,
    }
}

/// # Safety
///
/// As the C function, which cannot be misused.
pub unsafe fn usleep(micros: c_uint) -> c_int {
    let wish = libc::timespec {
        tv_sec: (micros / 1_000_000).into(),
        tv_nsec: (micros % 1_000_000 * 1000).into(),
    };
    // SAFETY: a local, and a null pointer for the rest.
    unsafe { nanosleep(&raw const wish, null_mut()) }
}

/// # Safety
///
/// As the C function: `wish` is valid, `rest` is null or valid.
pub unsafe fn clock_nanosleep(
    clock: c_int,
    flags: c_int,
    wish: *const libc::timespec,
    rest: *mut libc::timespec,
) -> c_int {
    if swallow_sleep() {
        return 0;
    }
    // SAFETY: the caller's promise. Unlike the system call, the function returns the error.
    match unsafe { libc::syscall(libc::SYS_clock_nanosleep, clock, flags, wish, rest) } {
        0 => 0,
        // SAFETY: the pointer is always valid.
        _ => unsafe { *libc::__errno_location() },
    }
}
