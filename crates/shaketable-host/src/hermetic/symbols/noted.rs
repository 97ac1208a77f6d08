//! Functions that lead out of a simulation: threads, sockets, files, other programs.
//!
//! No seed decides what comes back from there. They do what the C library does, and the report says
//! that they were called.

use crate::hermetic::{ACTIVE, FILES, PROGRAMS, SOCKETS, THREADS, is_for_backtraces, output};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// # Safety
///
/// As the C function, which cannot be misused.
pub unsafe fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    SOCKETS.note(None);
    // SAFETY: the system call takes numbers.
    unsafe { libc::syscall(libc::SYS_socket, domain, kind, protocol) as c_int }
}

/// The function a thread begins with.
pub type Start = extern "C" fn(*mut c_void) -> *mut c_void;

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
    let (start, argument) = output::inherited(start, argument);
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
