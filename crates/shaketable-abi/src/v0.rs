//! The ABI of FoundationDB 7.4.0 to 7.4.5: function pointers inline, no version, no `delay`.
//!
//! Shaketable does not speak it. The types exist so that both sides can recognise it and say so:
//! a v1 library in a v0 host jumps into the machine code of a function, and the other way round is
//! no better.

use crate::{FDBDatabase, FDBMetric, FDBSeverity, FDBStringPair};
use core::ffi::{c_char, c_double, c_int};

pub use crate::v1::{OpaqueMetrics, OpaquePromise, OpaqueWorkload, OpaqueWorkloadContext};

/// A string the host allocated.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FDBString {
    /// NUL-terminated text.
    pub inner: *const c_char,
    /// Releases the text.
    pub free: Option<unsafe extern "C" fn(inner: *const c_char)>,
}

/// The list into which `getMetrics` pushes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FDBMetrics {
    /// The host's list.
    pub inner: *mut OpaqueMetrics,
    /// Announces that `n` more metrics follow.
    pub reserve: Option<unsafe extern "C" fn(inner: *mut OpaqueMetrics, n: c_int)>,
    /// Appends a metric.
    pub push: Option<unsafe extern "C" fn(inner: *mut OpaqueMetrics, metric: FDBMetric)>,
}

/// The end of a phase. `send` stands before `free`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FDBPromise {
    /// The host's promise.
    pub inner: *mut OpaquePromise,
    /// Sends the verdict of the phase.
    pub send: Option<unsafe extern "C" fn(inner: *mut OpaquePromise, value: bool)>,
    /// Releases the promise.
    pub free: Option<unsafe extern "C" fn(inner: *mut OpaquePromise)>,
}

/// What a host offers a workload.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FDBWorkloadContext {
    /// The host's context.
    pub inner: *mut OpaqueWorkloadContext,
    /// Writes a trace event.
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
}

/// One phase of a workload.
pub type Phase =
    unsafe extern "C" fn(inner: *mut OpaqueWorkload, db: *mut FDBDatabase, done: FDBPromise);

/// What a factory returns. `free` stands last.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FDBWorkload {
    /// The library's workload.
    pub inner: *mut OpaqueWorkload,
    /// First phase.
    pub setup: Option<Phase>,
    /// Second phase.
    pub start: Option<Phase>,
    /// Third phase.
    pub check: Option<Phase>,
    /// Reports numbers after the check.
    pub get_metrics: Option<unsafe extern "C" fn(inner: *mut OpaqueWorkload, out: FDBMetrics)>,
    /// How many simulated seconds the check may take.
    pub get_check_timeout: Option<unsafe extern "C" fn(inner: *mut OpaqueWorkload) -> c_double>,
    /// Releases the workload.
    pub free: Option<unsafe extern "C" fn(inner: *mut OpaqueWorkload)>,
}

/// The type of [`FACTORY_SYMBOL`](crate::FACTORY_SYMBOL).
pub type Factory =
    unsafe extern "C" fn(name: *const c_char, context: FDBWorkloadContext) -> FDBWorkload;

#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::{offset_of, size_of};

    assert!(size_of::<FDBString>() == 16);
    assert!(offset_of!(FDBString, free) == 8);

    assert!(size_of::<FDBMetrics>() == 24);
    assert!(offset_of!(FDBMetrics, reserve) == 8);
    assert!(offset_of!(FDBMetrics, push) == 16);

    assert!(size_of::<FDBPromise>() == 24);
    assert!(offset_of!(FDBPromise, send) == 8);
    assert!(offset_of!(FDBPromise, free) == 16);

    assert!(size_of::<FDBWorkloadContext>() == 80);
    assert!(offset_of!(FDBWorkloadContext, inner) == 0);
    assert!(offset_of!(FDBWorkloadContext, trace) == 8);
    assert!(offset_of!(FDBWorkloadContext, get_process_id) == 16);
    assert!(offset_of!(FDBWorkloadContext, set_process_id) == 24);
    assert!(offset_of!(FDBWorkloadContext, now) == 32);
    assert!(offset_of!(FDBWorkloadContext, rnd) == 40);
    assert!(offset_of!(FDBWorkloadContext, get_option) == 48);
    assert!(offset_of!(FDBWorkloadContext, client_id) == 56);
    assert!(offset_of!(FDBWorkloadContext, client_count) == 64);
    assert!(offset_of!(FDBWorkloadContext, shared_random_number) == 72);

    assert!(size_of::<FDBWorkload>() == 56);
    assert!(offset_of!(FDBWorkload, setup) == 8);
    assert!(offset_of!(FDBWorkload, start) == 16);
    assert!(offset_of!(FDBWorkload, check) == 24);
    assert!(offset_of!(FDBWorkload, get_metrics) == 32);
    assert!(offset_of!(FDBWorkload, get_check_timeout) == 40);
    assert!(offset_of!(FDBWorkload, free) == 48);
};
