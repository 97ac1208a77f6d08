//! The functions of the C library that provide time and randomness, or lead out of a simulation.
//!
//! Each has the contract of the C function whose name it has, and is called in its place by every
//! library of a program that calls [`export_hermetic_symbols!`](crate::export_hermetic_symbols).
//!
//! Here is the list of them. `answered` has those that the simulation answers itself, `noted` those
//! that are let through and remembered. `held` has those that print; only test programs define
//! them, because they alone run several seeds in one process.

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

mod answered;
mod held;
mod noted;

pub use answered::{
    arc4random, arc4random_buf, arc4random_uniform, clock_gettime, clock_nanosleep, getentropy,
    getpid, getrandom, gettimeofday, nanosleep, sleep, syscall, time, usleep,
};
pub use held::{write, writev};
#[doc(hidden)]
pub use libc;
pub use noted::{
    Start, creat, creat64, fopen, fopen64, open, open64, openat, openat64, opendir, popen,
    posix_spawn, posix_spawnp, pthread_create, socket, system,
};

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

/// Not of the C library: a library that can answer for itself finds this name, and leaves it to us.
///
/// # Safety
///
/// It cannot be misused.
pub unsafe fn shaketable_hermetic() {}
