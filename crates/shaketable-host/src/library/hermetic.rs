//! Time and chance for code that asks the operating system instead of the context.
//!
//! Somewhere in a workload's dependencies is a `HashMap`, an `Instant::now()`, a `Uuid::new_v4()`. In fdbserver each of them
//! makes a seed irreproducible. Here they are answered from the seed and the simulated clock: a program that says
//! [`export_hermetic_symbols!`](crate::export_hermetic_symbols) defines the functions of the C library that all of these end in, and the loader binds
//! every library's calls to them. While no simulation runs on the calling thread they do what the C library does.
//!
//! What cannot be made reproducible is allowed and remembered: a thread, a socket. A `sleep` would stop the only thread there
//! is; it returns at once and is remembered too. Files are neither controlled nor noticed.

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The seed while a library is loaded: its constructors run before there is a run.
pub(super) const LOADING_SEED: u64 = 0;

thread_local! {
    /// Whether a simulation runs on this thread. All three are plain words without destructors, because a thread may ask for the time
    /// at any moment of its life.
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
    static NOW_NANOS: Cell<u64> = const { Cell::new(0) };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

static THREADS: AtomicU32 = AtomicU32::new(0);
static SOCKETS: AtomicU32 = AtomicU32::new(0);
static SLEEPS: AtomicU32 = AtomicU32::new(0);

/// While this lives, the calling thread's questions are answered from a seed.
pub struct Guard {
    outer: (bool, u64, u64),
}

impl Guard {
    /// Starts answering.
    pub fn enter(seed: u64) -> Guard {
        let outer = (
            ACTIVE.replace(true),
            NOW_NANOS.replace(0),
            RANDOM.replace(seed ^ 0x5348_414b_4554_4142),
        );
        Guard { outer }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let (active, now, random) = self.outer;
        ACTIVE.set(active);
        NOW_NANOS.set(now);
        RANDOM.set(random);
    }
}

/// Sets the simulated time, in nanoseconds since the start of the run.
pub fn set_now(nanos: u64) {
    NOW_NANOS.set(nanos);
}

/// What the code under test did that no seed controls, since the last call.
pub fn take_uncontrolled() -> Vec<String> {
    let mut list = Vec::new();
    let mut note =
        |counter: &AtomicU32, one: &str, many: &str| match counter.swap(0, Ordering::Relaxed) {
            0 => {}
            1 => list.push(one.to_owned()),
            count => list.push(format!("{many} ({count} times)")),
        };
    note(&THREADS, "started a thread", "started threads");
    note(&SOCKETS, "opened a socket", "opened sockets");
    note(
        &SLEEPS,
        "slept in real time, which returned at once",
        "slept in real time, which returned at once",
    );
    list
}

/// The next eight bytes of the thread's random stream (splitmix64).
fn next_random() -> u64 {
    let state = RANDOM.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    RANDOM.set(state);
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `getrandom(2)`.
///
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

/// `getentropy(3)`.
///
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

/// `clock_gettime(2)`. Every clock shows simulated time; those of the calendar start at a fixed date.
///
/// # Safety
///
/// As the C function: `time` is null or valid.
pub unsafe fn clock_gettime(clock: c_int, time: *mut libc::timespec) -> c_int {
    if !ACTIVE.get() {
        // SAFETY: the caller's promise is the system call's.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int };
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

/// `gettimeofday(2)`.
///
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

/// `time(2)`.
///
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

/// Seconds and nanoseconds on a clock.
fn simulated(clock: c_int) -> (i64, c_long) {
    let now = NOW_NANOS.get();
    let calendar = matches!(
        clock,
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI
    );
    let epoch = if calendar {
        crate::clock::EPOCH_UNIX_SECONDS
    } else {
        0
    };
    // A monotonic clock that reads zero invites underflow in code that subtracts.
    let offset = if calendar { 0 } else { 1_000 };
    (
        (epoch + offset + now / 1_000_000_000) as i64,
        (now % 1_000_000_000) as c_long,
    )
}

/// `nanosleep(2)` and `clock_nanosleep(2)`: whether the sleep is swallowed.
pub fn swallow_sleep() -> bool {
    let active = ACTIVE.get();
    if active {
        SLEEPS.fetch_add(1, Ordering::Relaxed);
    }
    active
}

/// `getpid(2)`.
pub fn getpid() -> libc::pid_t {
    if ACTIVE.get() {
        1
    } else {
        // SAFETY: the system call has no arguments and cannot fail.
        unsafe { libc::syscall(libc::SYS_getpid) as libc::pid_t }
    }
}

/// Remembers that a thread is being started.
pub fn note_thread() {
    if ACTIVE.get() {
        THREADS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Remembers that a socket is being opened.
pub fn note_socket() {
    if ACTIVE.get() {
        SOCKETS.fetch_add(1, Ordering::Relaxed);
    }
}

/// The C library's own definition of a function that this program defines as well.
///
/// # Safety
///
/// `cache` belongs to this `name` alone.
pub unsafe fn original(name: &std::ffi::CStr, cache: &AtomicPtr<c_void>) -> *mut c_void {
    let known = cache.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    // SAFETY: a NUL-terminated name; the answer is only remembered here.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    cache.store(found, Ordering::Release);
    found
}

/// Defines the functions of the C library that decide about time and chance, for a whole program and all it loads.
///
/// To be said once, in the root of a binary that is linked with `-rdynamic`.
#[macro_export]
macro_rules! export_hermetic_symbols {
    () => {
        mod hermetic_symbols {
            //! The C library's functions for time and chance, as this program defines them.

            use ::core::ffi::{c_int, c_uint, c_void};
            use ::core::sync::atomic::AtomicPtr;
            use $crate::library::hermetic::{self, libc};

            #[unsafe(no_mangle)]
            unsafe extern "C" fn getrandom(
                buffer: *mut c_void,
                length: usize,
                flags: c_uint,
            ) -> isize {
                // SAFETY: the caller keeps to the C function's contract, which is the same.
                unsafe { hermetic::getrandom(buffer, length, flags) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn getentropy(buffer: *mut c_void, length: usize) -> c_int {
                // SAFETY: as above.
                unsafe { hermetic::getentropy(buffer, length) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut libc::timespec) -> c_int {
                // SAFETY: as above.
                unsafe { hermetic::clock_gettime(clock, time) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn gettimeofday(
                time: *mut libc::timeval,
                zone: *mut c_void,
            ) -> c_int {
                // SAFETY: as above.
                unsafe { hermetic::gettimeofday(time, zone) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn time(out: *mut libc::time_t) -> libc::time_t {
                // SAFETY: as above.
                unsafe { hermetic::time(out) }
            }

            #[unsafe(no_mangle)]
            extern "C" fn getpid() -> libc::pid_t {
                hermetic::getpid()
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn nanosleep(
                wish: *const libc::timespec,
                rest: *mut libc::timespec,
            ) -> c_int {
                if hermetic::swallow_sleep() {
                    return 0;
                }
                // SAFETY: as above; this is the system call behind the function.
                unsafe { libc::syscall(libc::SYS_nanosleep, wish, rest) as c_int }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn sleep(seconds: c_uint) -> c_uint {
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

            #[unsafe(no_mangle)]
            unsafe extern "C" fn usleep(micros: c_uint) -> c_int {
                let wish = libc::timespec {
                    tv_sec: (micros / 1_000_000).into(),
                    tv_nsec: (micros % 1_000_000 * 1000).into(),
                };
                // SAFETY: a local, and nobody who wants the rest.
                unsafe { nanosleep(&raw const wish, ::core::ptr::null_mut()) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn clock_nanosleep(
                clock: c_int,
                flags: c_int,
                wish: *const libc::timespec,
                rest: *mut libc::timespec,
            ) -> c_int {
                if hermetic::swallow_sleep() {
                    return 0;
                }
                // SAFETY: as above. Unlike the system call, the function returns the error.
                match unsafe { libc::syscall(libc::SYS_clock_nanosleep, clock, flags, wish, rest) }
                {
                    0 => 0,
                    // SAFETY: the pointer is always valid.
                    _ => unsafe { *libc::__errno_location() },
                }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
                hermetic::note_socket();
                // SAFETY: as above.
                unsafe { libc::syscall(libc::SYS_socket, domain, kind, protocol) as c_int }
            }

            type Start = extern "C" fn(*mut c_void) -> *mut c_void;
            type PthreadCreate = unsafe extern "C" fn(
                *mut libc::pthread_t,
                *const libc::pthread_attr_t,
                Start,
                *mut c_void,
            ) -> c_int;

            #[unsafe(no_mangle)]
            unsafe extern "C" fn pthread_create(
                thread: *mut libc::pthread_t,
                attributes: *const libc::pthread_attr_t,
                start: Start,
                argument: *mut c_void,
            ) -> c_int {
                static ORIGINAL: AtomicPtr<c_void> = AtomicPtr::new(::core::ptr::null_mut());
                hermetic::note_thread();
                // SAFETY: the cache is this function's own.
                let original = unsafe { hermetic::original(c"pthread_create", &ORIGINAL) };
                if original.is_null() {
                    return libc::EAGAIN;
                }
                // SAFETY: the C library's function of that name has this type.
                let original: PthreadCreate = unsafe { ::core::mem::transmute(original) };
                // SAFETY: the caller keeps to the C function's contract.
                unsafe { original(thread, attributes, start, argument) }
            }
        }
    };
}

#[doc(hidden)]
pub use libc;

#[cfg(test)]
mod tests {
    use super::*;

    fn draw() -> [u8; 13] {
        let mut bytes = [0; 13];
        // SAFETY: a local of that length.
        let count = unsafe { getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        assert_eq!(count, 13);
        bytes
    }

    fn read(clock: c_int) -> (i64, i64) {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: a local.
        unsafe { clock_gettime(clock, &raw mut now) };
        (now.tv_sec, now.tv_nsec)
    }

    #[test]
    fn inside_a_simulation_chance_comes_from_the_seed() {
        let first = {
            let _guard = Guard::enter(7);
            (draw(), draw())
        };
        let again = {
            let _guard = Guard::enter(7);
            (draw(), draw())
        };
        let other = {
            let _guard = Guard::enter(8);
            (draw(), draw())
        };
        assert_eq!(first, again);
        assert_ne!(first, other);
        assert_ne!(first.0, first.1);
    }

    #[test]
    fn inside_a_simulation_time_is_simulated() {
        let _guard = Guard::enter(7);
        set_now(2_500_000_000);
        assert_eq!(read(libc::CLOCK_REALTIME), (1_767_225_602, 500_000_000));
        let before = read(libc::CLOCK_MONOTONIC);
        set_now(3_500_000_001);
        let after = read(libc::CLOCK_MONOTONIC);
        assert_eq!((after.0 - before.0, after.1 - before.1), (1, 1));
    }

    #[test]
    fn outside_a_simulation_the_machine_answers() {
        assert_ne!(draw(), draw());
        assert!(read(libc::CLOCK_REALTIME).0 > 1_767_225_600);
    }
}
