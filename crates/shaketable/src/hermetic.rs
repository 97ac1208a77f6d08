//! Time and randomness of a workload library whose host does not provide them: the feature
//! `hermetic`.
//!
//! Somewhere in a workload's dependencies is a `HashMap`, an `Instant::now()`, a `Uuid::new_v4()`.
//! `shaketable run` and a test program answer all of them from the seed, for everything they load.
//! fdbserver does not; there the library answers for itself: clocks show the time of the
//! simulation, random bytes come from the random number that its clients share, the process has
//! the number 1. What no seed controls is done, and noted in the trace as `WorkloadUncontrolled`: a
//! thread, a socket. These functions are [hidden](crate::hidden): the server and other libraries
//! keep their own.
//!
//! On a thread without a workload, and before the first one exists, they are the C library's.

use crate::clock::EPOCH;
use crate::context::{Severity, WorkloadContext};
use crate::details;
use crate::hidden::{hidden, original};
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::mem::transmute;
use std::ptr::{null, null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

hidden!(
    shaketable_hidden_machine,
    clock_gettime,
    gettimeofday,
    time,
    getpid,
    getrandom,
    getentropy,
    arc4random,
    arc4random_buf,
    arc4random_uniform,
    syscall,
    pthread_create,
    socket,
    dlsym
);

thread_local! {
    /// The workloads of this thread, oldest first.
    static CONTEXTS: RefCell<Vec<WorkloadContext>> = const { RefCell::new(Vec::new()) };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

/// From now on the library's code on this thread has the time of this workload.
pub(crate) fn enter(context: &WorkloadContext) {
    std::hint::black_box(shaketable_hidden_machine as *const ());
    CONTEXTS.with_borrow_mut(|contexts| {
        if contexts.is_empty() {
            RANDOM.set(context.shared_random_number() as u64);
        }
        contexts.push(context.clone());
    });
}

/// The host is about to free the workload.
pub(crate) fn leave(context: &WorkloadContext) {
    CONTEXTS.with_borrow_mut(|contexts| contexts.retain(|other| !other.is_same(context)));
}

/// A workload of this thread, if there is one and its host leaves time and randomness to us.
fn workload() -> Option<WorkloadContext> {
    if is_host_hermetic() {
        return None;
    }
    // Borrowed only while a context comes or goes; after the thread's variables are gone there is
    // no workload either.
    let context = CONTEXTS.try_with(|contexts| contexts.try_borrow().ok()?.first().cloned());
    context.ok()?
}

/// What a clock shows in simulated time, if there is any.
fn simulated(clock: c_int) -> Option<Duration> {
    let seconds = workload()?.now();
    let now = Duration::from_nanos((seconds.max(0.0) * 1e9).round() as u64);
    let is_calendar = matches!(
        clock,
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI
    );
    // A monotonic clock that reads zero invites underflow in code that subtracts.
    let start = match is_calendar {
        true => EPOCH,
        false => Duration::from_secs(1000),
    };
    Some(now + start)
}

/// Calls the function of that name that the rest of the process uses.
macro_rules! forward {
    ($name:literal as fn($($type:ty),*) -> $returned:ty, ($($argument:expr),*)) => {{
        static KNOWN: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
        let function: unsafe extern "C" fn($($type),*) -> $returned =
            // SAFETY: the C library's function of that name has this type; on every platform that
            // Shaketable knows `syscall` can be called so.
            unsafe { transmute(original($name, &KNOWN)) };
        // SAFETY: the caller's promise is that of the C function.
        unsafe { function($($argument),*) }
    }};
}

/// # Safety
///
/// As the C function: `time` is null or valid.
unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut libc::timespec) -> c_int {
    let Some(now) = simulated(clock) else {
        return forward!(
            c"clock_gettime" as fn(c_int, *mut libc::timespec) -> c_int,
            (clock, time)
        );
    };
    if !time.is_null() {
        // SAFETY: not null, hence valid by the caller's promise.
        unsafe {
            (*time).tv_sec = now.as_secs() as libc::time_t;
            (*time).tv_nsec = now.subsec_nanos().into();
        }
    }
    0
}

/// # Safety
///
/// As the C function: both are null or valid.
unsafe extern "C" fn gettimeofday(time: *mut libc::timeval, zone: *mut c_void) -> c_int {
    let Some(now) = simulated(libc::CLOCK_REALTIME) else {
        return forward!(
            c"gettimeofday" as fn(*mut libc::timeval, *mut c_void) -> c_int,
            (time, zone)
        );
    };
    if !time.is_null() {
        // SAFETY: not null, hence valid by the caller's promise.
        unsafe {
            (*time).tv_sec = now.as_secs() as libc::time_t;
            (*time).tv_usec = now.subsec_micros().into();
        }
    }
    0
}

/// # Safety
///
/// As the C function: `out` is null or valid.
unsafe extern "C" fn time(out: *mut libc::time_t) -> libc::time_t {
    let Some(now) = simulated(libc::CLOCK_REALTIME) else {
        return forward!(c"time" as fn(*mut libc::time_t) -> libc::time_t, (out));
    };
    let now = now.as_secs() as libc::time_t;
    if !out.is_null() {
        // SAFETY: not null, hence valid by the caller's promise.
        unsafe { *out = now };
    }
    now
}

/// Code that wants to be unlike other processes mixes its number into what it draws.
///
/// # Safety
///
/// As the C function, which cannot be misused.
unsafe extern "C" fn getpid() -> libc::pid_t {
    match workload() {
        Some(_) => 1,
        None => forward!(c"getpid" as fn() -> libc::pid_t, ()),
    }
}

/// # Safety
///
/// As the C function: `buffer` has room for `length` bytes.
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
    if workload().is_none() {
        return forward!(
            c"getrandom" as fn(*mut c_void, usize, c_uint) -> isize,
            (buffer, length, flags)
        );
    }
    for offset in 0..length {
        // SAFETY: the caller promised room for `length` bytes.
        unsafe { *buffer.cast::<u8>().add(offset) = next_random() as u8 };
    }
    length as isize
}

/// # Safety
///
/// As the C function: `buffer` has room for `length` bytes.
unsafe extern "C" fn getentropy(buffer: *mut c_void, length: usize) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { getrandom(buffer, length, 0) } {
        filled if filled == length as isize => 0,
        _ => -1,
    }
}

/// # Safety
///
/// As the C function, which cannot be misused.
unsafe extern "C" fn arc4random() -> u32 {
    let mut bytes = [0; 4];
    // SAFETY: a local of that length.
    unsafe { arc4random_buf(bytes.as_mut_ptr().cast(), bytes.len()) };
    u32::from_ne_bytes(bytes)
}

/// # Safety
///
/// As the C function: `buffer` has room for `length` bytes.
unsafe extern "C" fn arc4random_buf(buffer: *mut c_void, length: usize) {
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
unsafe extern "C" fn arc4random_uniform(bound: u32) -> u32 {
    // SAFETY: it cannot be misused.
    let random = unsafe { arc4random() };
    ((u64::from(random) * u64::from(bound)) >> 32) as u32
}

/// Some crates make system calls by number.
///
/// # Safety
///
/// As the C function: the arguments are what the system call of that number takes.
unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    let pointer = |argument: c_long| with_exposed_provenance_mut::<c_void>(argument as usize);
    match number {
        // SAFETY: the caller's promise is that of the function.
        libc::SYS_getrandom => unsafe {
            return getrandom(pointer(a), b as usize, c as c_uint) as c_long;
        },
        // SAFETY: the caller's promise is that of the function.
        libc::SYS_clock_gettime => unsafe {
            return clock_gettime(a as c_int, pointer(b).cast()).into();
        },
        // SAFETY: it has no arguments.
        libc::SYS_getpid => unsafe { return getpid().into() },
        _ => {}
    }
    forward!(
        c"syscall" as fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long,
        (number, a, b, c, d, e, f)
    )
}

/// The function a thread begins with.
type Start = extern "C" fn(*mut c_void) -> *mut c_void;

/// # Safety
///
/// As the C function.
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    note("started a thread");
    forward!(
        c"pthread_create"
            as fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Start, *mut c_void) -> c_int,
        (thread, attributes, start, argument)
    )
}

/// # Safety
///
/// As the C function, which cannot be misused.
unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    note("opened a socket");
    forward!(
        c"socket" as fn(c_int, c_int, c_int) -> c_int,
        (domain, kind, protocol)
    )
}

/// Some crates look `getrandom` up by its name, because old systems have none.
///
/// # Safety
///
/// As the C function: `name` is NUL-terminated.
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(name) };
    let ours = match text.to_bytes() {
        b"clock_gettime" => clock_gettime as *const (),
        b"gettimeofday" => gettimeofday as *const (),
        b"getrandom" => getrandom as *const (),
        b"getentropy" => getentropy as *const (),
        b"getpid" => getpid as *const (),
        _ => null(),
    };
    if handle == libc::RTLD_DEFAULT && !ours.is_null() {
        return ours.cast_mut().cast();
    }
    // SAFETY: the caller's promise.
    unsafe { search(handle, name) }
}

/// The C library's own `dlsym`, which ours hides from this library.
///
/// # Safety
///
/// As the C function: `name` is NUL-terminated.
pub(crate) unsafe fn search(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    static KNOWN: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    let mut real = KNOWN.load(Ordering::Relaxed);
    for version in VERSIONS {
        if real.is_null() {
            // SAFETY: NUL-terminated names.
            real = unsafe { dlvsym(libc::RTLD_DEFAULT, c"dlsym".as_ptr(), version.as_ptr()) };
        }
    }
    if real.is_null() {
        return null_mut();
    }
    KNOWN.store(real, Ordering::Relaxed);
    // SAFETY: the C library's function of that name has this type.
    let real: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void =
        unsafe { transmute(real) };
    // SAFETY: the caller's promise.
    unsafe { real(handle, name) }
}

/// The versions under which the C library has had `dlsym`: the newest, and the first of each
/// processor.
const VERSIONS: [&CStr; 3] = [c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17"];

/// Traces that the workload did something that no seed controls.
fn note(act: &'static str) {
    if let Some(context) = workload() {
        context.trace(
            Severity::Warn,
            "WorkloadUncontrolled",
            details!["Act" => act],
        );
    }
}

/// The next number of the thread's random stream (splitmix64).
fn next_random() -> u64 {
    let state = RANDOM.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    RANDOM.set(state);
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

static HERMETIC: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Whether the host provides time and randomness itself.
fn is_host_hermetic() -> bool {
    static ABSENT: u8 = 0;
    let absent = (&raw const ABSENT).cast_mut().cast::<c_void>();
    let mut marker = HERMETIC.load(Ordering::Relaxed);
    if marker.is_null() {
        // SAFETY: a NUL-terminated name.
        marker = unsafe { search(libc::RTLD_DEFAULT, c"shaketable_hermetic".as_ptr()) };
        if marker.is_null() {
            marker = absent;
        }
        HERMETIC.store(marker, Ordering::Relaxed);
    }
    marker != absent
}

unsafe extern "C" {
    fn shaketable_hidden_machine();
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}
