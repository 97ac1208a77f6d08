//! The ABI of FoundationDB 7.4.6 and later: `{ inner, vtable }` handles.
//!
//! Rules of ownership, which the types cannot express:
//!
//! * Every vtable a host hands out lives as long as the process. Later versions may append slots at
//!   the end of one, never reorder them.
//! * `FDBWorkloadContext::inner` lives until the workload's `free` has returned.
//! * `FDBPromise::inner` belongs to the workload, which calls `free` exactly once, after `send` or
//!   instead of it (a promise freed without a value is broken).
//! * `FDBString::inner` is allocated by the host and released with its own `free`.
//! * `FDBMetrics` is borrowed while `getMetrics` runs.
//! * The factory's `name` is valid during the call only.

use crate::{FDBDatabase, FDBFuture, FDBMetric, FDBSeverity, FDBStringPair};
use core::ffi::{c_char, c_double, c_int};

/// What a v1 host writes into `api_version`, and what a v1 workload returns.
pub const FDB_WORKLOAD_API_VERSION: c_int = 1;

/// The host's side of a metrics list.
#[repr(C)]
pub struct OpaqueMetrics {
    _opaque: [u8; 0],
}

/// The host's side of a promise.
#[repr(C)]
pub struct OpaquePromise {
    _opaque: [u8; 0],
}

/// The host's side of a context.
#[repr(C)]
pub struct OpaqueWorkloadContext {
    _opaque: [u8; 0],
}

/// The library's side of a workload.
#[repr(C)]
pub struct OpaqueWorkload {
    _opaque: [u8; 0],
}

/// A string the host allocated.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FDBString {
    /// NUL-terminated text.
    pub inner: *const c_char,
    /// How to release it.
    pub vt: *const FDBStringVt,
}

/// Functions of [`FDBString`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FDBStringVt {
    /// Releases the text.
    pub free: Option<unsafe extern "C" fn(inner: *const c_char)>,
}

/// The list into which `getMetrics` pushes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FDBMetrics {
    /// The host's list.
    pub inner: *mut OpaqueMetrics,
    /// How to fill it.
    pub vt: *const FDBMetricsVt,
}

/// Functions of [`FDBMetrics`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FDBMetricsVt {
    /// Announces that `n` more metrics follow.
    pub reserve: Option<unsafe extern "C" fn(inner: *mut OpaqueMetrics, n: c_int)>,
    /// Appends a metric; its strings are copied before the call returns.
    pub push: Option<unsafe extern "C" fn(inner: *mut OpaqueMetrics, metric: FDBMetric)>,
}

/// The end of a phase: the workload sends a verdict and frees the promise.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FDBPromise {
    /// The host's promise.
    pub inner: *mut OpaquePromise,
    /// How to keep it.
    pub vt: *const FDBPromiseVt,
}

/// Functions of [`FDBPromise`]. `free` stands first.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FDBPromiseVt {
    /// Releases the promise; breaks it when nothing was sent.
    pub free: Option<unsafe extern "C" fn(inner: *mut OpaquePromise)>,
    /// Sends the verdict of the phase.
    pub send: Option<unsafe extern "C" fn(inner: *mut OpaquePromise, value: bool)>,
}

/// What a host offers a workload.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FDBWorkloadContext {
    /// A small positive integer; do not compare it for equality.
    pub api_version: c_int,
    /// The host's context.
    pub inner: *mut OpaqueWorkloadContext,
    /// What can be asked of it.
    pub vt: *const FDBWorkloadContextVt,
}

/// Functions of [`FDBWorkloadContext`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FDBWorkloadContextVt {
    /// Writes a trace event with `n` details.
    pub trace: Option<
        unsafe extern "C" fn(
            inner: *mut OpaqueWorkloadContext,
            severity: FDBSeverity,
            name: *const c_char,
            details: *const FDBStringPair,
            n: c_int,
        ),
    >,
    /// The simulated process that is running.
    pub get_process_id: Option<unsafe extern "C" fn(inner: *mut OpaqueWorkloadContext) -> u64>,
    /// Declares which simulated process a thread of the workload belongs to.
    pub set_process_id:
        Option<unsafe extern "C" fn(inner: *mut OpaqueWorkloadContext, process_id: u64)>,
    /// Simulated seconds.
    pub now: Option<unsafe extern "C" fn(inner: *mut OpaqueWorkloadContext) -> c_double>,
    /// The next draw of the run's random generator.
    pub rnd: Option<unsafe extern "C" fn(inner: *mut OpaqueWorkloadContext) -> u32>,
    /// Consumes an option of the test file.
    pub get_option: Option<
        unsafe extern "C" fn(
            inner: *mut OpaqueWorkloadContext,
            name: *const c_char,
            default_value: *const c_char,
        ) -> FDBString,
    >,
    /// This client's number, from 0.
    pub client_id: Option<unsafe extern "C" fn(inner: *mut OpaqueWorkloadContext) -> c_int>,
    /// How many clients run the workload.
    pub client_count: Option<unsafe extern "C" fn(inner: *mut OpaqueWorkloadContext) -> c_int>,
    /// A number that is the same on every client of the test.
    pub shared_random_number:
        Option<unsafe extern "C" fn(inner: *mut OpaqueWorkloadContext) -> i64>,
    /// A future that is ready after that many simulated seconds.
    pub delay: Option<
        unsafe extern "C" fn(
            inner: *mut OpaqueWorkloadContext,
            seconds: c_double,
        ) -> *mut FDBFuture,
    >,
}

/// What a factory returns.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FDBWorkload {
    /// [`FDB_WORKLOAD_API_VERSION`]; no known host reads it.
    pub api_version: c_int,
    /// The library's workload.
    pub inner: *mut OpaqueWorkload,
    /// Its phases.
    pub vt: *const FDBWorkloadVt,
}

/// One phase of a workload: setup, start or check.
pub type Phase =
    unsafe extern "C" fn(inner: *mut OpaqueWorkload, db: *mut FDBDatabase, done: FDBPromise);

/// Functions of [`FDBWorkload`]. `free` stands first.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FDBWorkloadVt {
    /// Releases the workload; nothing is called after it.
    pub free: Option<unsafe extern "C" fn(inner: *mut OpaqueWorkload)>,
    /// First phase.
    pub setup: Option<Phase>,
    /// Second phase, after every client finished the first.
    pub start: Option<Phase>,
    /// Third phase, after every client finished the second.
    pub check: Option<Phase>,
    /// Reports numbers after the check.
    pub get_metrics: Option<unsafe extern "C" fn(inner: *mut OpaqueWorkload, out: FDBMetrics)>,
    /// How many simulated seconds the check may take.
    pub get_check_timeout: Option<unsafe extern "C" fn(inner: *mut OpaqueWorkload) -> c_double>,
}

/// The type of [`FACTORY_SYMBOL`](crate::FACTORY_SYMBOL).
pub type Factory =
    unsafe extern "C" fn(name: *const c_char, context: FDBWorkloadContext) -> FDBWorkload;

#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::{offset_of, size_of};

    assert!(size_of::<FDBString>() == 16);
    assert!(offset_of!(FDBString, vt) == 8);
    assert!(size_of::<FDBStringVt>() == 8);

    assert!(size_of::<FDBMetrics>() == 16);
    assert!(offset_of!(FDBMetrics, vt) == 8);
    assert!(size_of::<FDBMetricsVt>() == 16);
    assert!(offset_of!(FDBMetricsVt, reserve) == 0);
    assert!(offset_of!(FDBMetricsVt, push) == 8);

    assert!(size_of::<FDBPromise>() == 16);
    assert!(offset_of!(FDBPromise, vt) == 8);
    assert!(size_of::<FDBPromiseVt>() == 16);
    assert!(offset_of!(FDBPromiseVt, free) == 0);
    assert!(offset_of!(FDBPromiseVt, send) == 8);

    assert!(size_of::<FDBWorkloadContext>() == 24);
    assert!(offset_of!(FDBWorkloadContext, api_version) == 0);
    assert!(offset_of!(FDBWorkloadContext, inner) == 8);
    assert!(offset_of!(FDBWorkloadContext, vt) == 16);

    assert!(size_of::<FDBWorkloadContextVt>() == 80);
    assert!(offset_of!(FDBWorkloadContextVt, trace) == 0);
    assert!(offset_of!(FDBWorkloadContextVt, get_process_id) == 8);
    assert!(offset_of!(FDBWorkloadContextVt, set_process_id) == 16);
    assert!(offset_of!(FDBWorkloadContextVt, now) == 24);
    assert!(offset_of!(FDBWorkloadContextVt, rnd) == 32);
    assert!(offset_of!(FDBWorkloadContextVt, get_option) == 40);
    assert!(offset_of!(FDBWorkloadContextVt, client_id) == 48);
    assert!(offset_of!(FDBWorkloadContextVt, client_count) == 56);
    assert!(offset_of!(FDBWorkloadContextVt, shared_random_number) == 64);
    assert!(offset_of!(FDBWorkloadContextVt, delay) == 72);

    assert!(size_of::<FDBWorkload>() == 24);
    assert!(offset_of!(FDBWorkload, api_version) == 0);
    assert!(offset_of!(FDBWorkload, inner) == 8);
    assert!(offset_of!(FDBWorkload, vt) == 16);

    assert!(size_of::<FDBWorkloadVt>() == 48);
    assert!(offset_of!(FDBWorkloadVt, free) == 0);
    assert!(offset_of!(FDBWorkloadVt, setup) == 8);
    assert!(offset_of!(FDBWorkloadVt, start) == 16);
    assert!(offset_of!(FDBWorkloadVt, check) == 24);
    assert!(offset_of!(FDBWorkloadVt, get_metrics) == 32);
    assert!(offset_of!(FDBWorkloadVt, get_check_timeout) == 40);
};
