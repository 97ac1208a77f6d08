//! The functions of the C library that provide time and randomness, or lead out of a simulation.
//!
//! Each has the contract of the C function whose name it has, and is called in its place by every
//! library of a program that calls [`export_hermetic_symbols!`](crate::export_hermetic_symbols).

use super::{
    ACTIVE, FILES, PROGRAMS, SLEEPS, SOCKETS, THREADS, is_for_backtraces, next_random, simulated,
};
use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

#[doc(hidden)]
pub use libc;

/// Defines the functions of the C library that provide time and randomness, for a whole program and
/// everything it loads.
///
/// Call it once, in the root of a binary that is linked with `-rdynamic`.
#[macro_export]
macro_rules! export_hermetic_symbols {
    () => {
        mod hermetic_symbols {
            //! The C library's functions for time and randomness, as this program defines them.

            use ::core::ffi::{c_char, c_int, c_long, c_uint, c_void};
            use $crate::hermetic::symbols::{self, Start, libc};

            $crate::hermetic_symbols! {
                fn arc4random() -> u32;
                fn arc4random_buf(buffer: *mut c_void, length: usize) -> ();
                fn arc4random_uniform(bound: u32) -> u32;
                fn clock_gettime(clock: c_int, time: *mut libc::timespec) -> c_int;
                fn clock_nanosleep(clock: c_int, flags: c_int, wish: *const libc::timespec, rest: *mut libc::timespec) -> c_int;
                fn creat(path: *const c_char, mode: c_uint) -> c_int;
                fn creat64(path: *const c_char, mode: c_uint) -> c_int;
                fn fopen(path: *const c_char, mode: *const c_char) -> *mut c_void;
                fn fopen64(path: *const c_char, mode: *const c_char) -> *mut c_void;
                fn getentropy(buffer: *mut c_void, length: usize) -> c_int;
                fn getpid() -> libc::pid_t;
                fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize;
                fn gettimeofday(time: *mut libc::timeval, zone: *mut c_void) -> c_int;
                fn nanosleep(wish: *const libc::timespec, rest: *mut libc::timespec) -> c_int;
                fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
                fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
                fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
                fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
                fn opendir(path: *const c_char) -> *mut c_void;
                fn popen(command: *const c_char, mode: *const c_char) -> *mut c_void;
                fn posix_spawn(pid: *mut libc::pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int;
                fn posix_spawnp(pid: *mut libc::pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int;
                fn pthread_create(thread: *mut libc::pthread_t, attributes: *const libc::pthread_attr_t, start: Start, argument: *mut c_void) -> c_int;
                fn shaketable_hermetic() -> ();
                fn sleep(seconds: c_uint) -> c_uint;
                fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
                fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long;
                fn system(command: *const c_char) -> c_int;
                fn time(out: *mut libc::time_t) -> libc::time_t;
                fn usleep(micros: c_uint) -> c_int;
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! hermetic_symbols {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                // SAFETY: the caller keeps to the C function's contract, which is the same.
                unsafe { symbols::$name($($argument),*) }
            }
        )*
    };
}

/// The function a thread begins with.
pub type Start = extern "C" fn(*mut c_void) -> *mut c_void;

/// The C library's own function of a name that this program defines as well; returns `$otherwise`
/// where there is none.
macro_rules! original {
    ($name:literal as fn($($type:ty),*) -> $result:ty, ($($argument:expr),*), otherwise $otherwise:expr) => {{
        static CACHE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
        let mut found = CACHE.load(Ordering::Acquire);
        if found.is_null() {
            // SAFETY: a NUL-terminated name; the address is only stored here.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, $name.as_ptr()) };
            CACHE.store(found, Ordering::Release);
        }
        if found.is_null() {
            $otherwise
        } else {
            // SAFETY: the C library's function of that name has this type.
            let function: unsafe extern "C" fn($($type),*) -> $result = unsafe { std::mem::transmute(found) };
            // SAFETY: the caller keeps to the C function's contract.
            unsafe { function($($argument),*) }
        }
    }};
}

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

/// Not of the C library: a library that can answer for itself finds this name, and leaves it to us.
///
/// # Safety
///
/// It cannot be misused.
pub unsafe fn shaketable_hermetic() {}

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

/// # Safety
///
/// As the C function, which cannot be misused.
pub unsafe fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    SOCKETS.note(None);
    // SAFETY: the system call takes numbers.
    unsafe { libc::syscall(libc::SYS_socket, domain, kind, protocol) as c_int }
}

/// # Safety
///
/// As the C function.
pub unsafe fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    THREADS.note(None);
    original!(
        c"pthread_create" as fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Start, *mut c_void) -> c_int,
        (thread, attributes, start, argument),
        otherwise libc::EAGAIN
    )
}

/// Remembers that a file is opened.
///
/// # Safety
///
/// `path` is null or NUL-terminated.
unsafe fn note_file(path: *const c_char) {
    if !ACTIVE.get() || path.is_null() {
        return;
    }
    // SAFETY: not null, hence NUL-terminated.
    let path = unsafe { CStr::from_ptr(path) };
    if !is_for_backtraces(path.to_bytes()) {
        FILES.note(Some(path));
    }
}

/// The mode counts only where the flags say that a file may be made; elsewhere it is whatever
/// stands in its place.
///
/// # Safety
///
/// As the C function: `path` is NUL-terminated.
pub unsafe fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the caller's promise, also that of the system call.
    unsafe {
        note_file(path);
        libc::syscall(libc::SYS_openat, folder, path, flags, mode) as c_int
    }
}

/// # Safety
///
/// As the C function: `path` is NUL-terminated.
pub unsafe fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { openat(folder, path, flags | libc::O_LARGEFILE, mode) }
}

/// # Safety
///
/// As the C function: `path` is NUL-terminated.
pub unsafe fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { openat(libc::AT_FDCWD, path, flags, mode) }
}

/// # Safety
///
/// As the C function: `path` is NUL-terminated.
pub unsafe fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { open(path, flags | libc::O_LARGEFILE, mode) }
}

/// # Safety
///
/// As the C function: `path` is NUL-terminated.
pub unsafe fn creat(path: *const c_char, mode: c_uint) -> c_int {
    let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
    // SAFETY: the caller's promise.
    unsafe { open(path, flags, mode) }
}

/// # Safety
///
/// As the C function: `path` is NUL-terminated.
pub unsafe fn creat64(path: *const c_char, mode: c_uint) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { creat(path, mode) }
}

/// # Safety
///
/// As the C function: both are NUL-terminated.
pub unsafe fn fopen(path: *const c_char, mode: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { note_file(path) };
    original!(
        c"fopen" as fn(*const c_char, *const c_char) -> *mut c_void,
        (path, mode),
        otherwise null_mut()
    )
}

/// # Safety
///
/// As the C function: both are NUL-terminated.
pub unsafe fn fopen64(path: *const c_char, mode: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { fopen(path, mode) }
}

/// # Safety
///
/// As the C function: `path` is NUL-terminated.
pub unsafe fn opendir(path: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { note_file(path) };
    original!(
        c"opendir" as fn(*const c_char) -> *mut c_void,
        (path),
        otherwise null_mut()
    )
}

/// Remembers that a program is started.
///
/// # Safety
///
/// `name` is null or NUL-terminated.
unsafe fn note_program(name: *const c_char) {
    if !name.is_null() {
        // SAFETY: not null, hence NUL-terminated.
        PROGRAMS.note(Some(unsafe { CStr::from_ptr(name) }));
    }
}

/// # Safety
///
/// As the C function: `command` is null or NUL-terminated.
pub unsafe fn system(command: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { note_program(command) };
    original!(
        c"system" as fn(*const c_char) -> c_int,
        (command),
        otherwise - 1
    )
}

/// # Safety
///
/// As the C function: both are NUL-terminated.
pub unsafe fn popen(command: *const c_char, mode: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { note_program(command) };
    original!(
        c"popen" as fn(*const c_char, *const c_char) -> *mut c_void,
        (command, mode),
        otherwise null_mut()
    )
}

/// # Safety
///
/// As the C function.
pub unsafe fn posix_spawn(
    pid: *mut libc::pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { note_program(path) };
    original!(
        c"posix_spawn" as fn(*mut libc::pid_t, *const c_char, *const c_void, *const c_void, *const *mut c_char, *const *mut c_char) -> c_int,
        (pid, path, actions, attributes, arguments, environment),
        otherwise libc::ENOSYS
    )
}

/// # Safety
///
/// As the C function.
pub unsafe fn posix_spawnp(
    pid: *mut libc::pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { note_program(path) };
    original!(
        c"posix_spawnp" as fn(*mut libc::pid_t, *const c_char, *const c_void, *const c_void, *const *mut c_char, *const *mut c_char) -> c_int,
        (pid, path, actions, attributes, arguments, environment),
        otherwise libc::ENOSYS
    )
}
