//! Time and chance of a workload library whose host does not provide them.
//!
//! Tokio asks the operating system for the time, and takes the order in which `select!` looks at
//! its branches from a random number. `shaketable run` and a test program answer both from the
//! seed, for everything they load. fdbserver does not; there the library answers for itself, from
//! the context of its workloads. These functions are [hidden](crate::hidden): the server keeps its own
//! clock.

use crate::clock::EPOCH;
use crate::context::WorkloadContext;
use crate::hidden::{hidden, original};
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_long, c_uint, c_void};
use std::mem::transmute;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

hidden!(shaketable_hidden_machine, clock_gettime, getrandom, syscall);

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

/// The simulated time, if a workload lives on this thread and its host leaves the clock to us.
fn now() -> Option<Duration> {
    if is_host_hermetic() {
        return None;
    }
    // Borrowed only while a context comes or goes; after the thread's variables are gone there is
    // no workload either.
    let context = CONTEXTS.try_with(|contexts| contexts.try_borrow().ok()?.first().cloned());
    let seconds = context.ok()??.now();
    Some(Duration::from_nanos((seconds.max(0.0) * 1e9).round() as u64))
}

/// # Safety
///
/// As the C function: `time` is null or valid.
unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut libc::timespec) -> c_int {
    let Some(now) = now() else {
        let original = original(c"clock_gettime", &CLOCK_GETTIME);
        // SAFETY: the C library's function of that name has this type.
        let original: unsafe extern "C" fn(c_int, *mut libc::timespec) -> c_int =
            unsafe { transmute(original) };
        // SAFETY: the caller's promise.
        return unsafe { original(clock, time) };
    };
    let is_calendar = matches!(
        clock,
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI
    );
    // A monotonic clock that reads zero invites underflow in code that subtracts.
    let now = now
        + if is_calendar {
            EPOCH
        } else {
            Duration::from_secs(1000)
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
/// As the C function: `buffer` has room for `length` bytes.
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
    if now().is_none() {
        let original = original(c"getrandom", &GETRANDOM);
        // SAFETY: the C library's function of that name has this type.
        let original: unsafe extern "C" fn(*mut c_void, usize, c_uint) -> isize =
            unsafe { transmute(original) };
        // SAFETY: the caller's promise.
        return unsafe { original(buffer, length, flags) };
    }
    for offset in 0..length {
        // SAFETY: the caller promised room for `length` bytes.
        unsafe { *buffer.cast::<u8>().add(offset) = next_random() as u8 };
    }
    length as isize
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
        _ => {}
    }
    let original = original(c"syscall", &SYSCALL);
    type Syscall =
        unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;
    // SAFETY: on every platform that Shaketable knows the C library's function can be called so.
    let original: Syscall = unsafe { transmute(original) };
    // SAFETY: the caller's promise.
    unsafe { original(number, a, b, c, d, e, f) }
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

static CLOCK_GETTIME: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static GETRANDOM: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static SYSCALL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static HERMETIC: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Whether the host provides time and chance itself.
fn is_host_hermetic() -> bool {
    static ABSENT: u8 = 0;
    let absent = (&raw const ABSENT).cast_mut().cast::<c_void>();
    let mut marker = HERMETIC.load(Ordering::Relaxed);
    if marker.is_null() {
        // SAFETY: a NUL-terminated name.
        marker = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"shaketable_hermetic".as_ptr()) };
        if marker.is_null() {
            marker = absent;
        }
        HERMETIC.store(marker, Ordering::Relaxed);
    }
    marker != absent
}

unsafe extern "C" {
    fn shaketable_hidden_machine();
}
