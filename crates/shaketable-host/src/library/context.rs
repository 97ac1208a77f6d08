//! The context: what a workload may ask its host.
//!
//! Each function of the table checks and copies what C handed over and calls the safe trait
//! [`Host`]. A simulation lives on one thread and cannot serve a call from a thread that the
//! workload started: such a call ends the process, with a message.

use crate::trace::Severity;
use shaketable_abi::v1::{
    FDB_WORKLOAD_API_VERSION, FDBString, FDBStringVt, FDBWorkloadContext, FDBWorkloadContextVt,
    OpaqueWorkloadContext,
};
use shaketable_abi::{FDBFuture, FDBSeverity, FDBStringPair};
use std::ffi::{CStr, CString, c_char, c_double, c_int};
use std::rc::Rc;
use std::thread::ThreadId;

/// What the host does for one workload instance.
pub trait Host {
    /// A trace event.
    fn trace(&self, severity: Severity, name: &str, details: Vec<(String, String)>);
    /// The identity of the simulated process that runs.
    fn process_id(&self) -> u64;
    /// Simulated seconds.
    fn now(&self) -> f64;
    /// A random number of the run.
    fn rnd(&self) -> u32;
    /// Reads an option and thereby empties it.
    fn option(&self, name: &str, default: &str) -> String;
    /// This client's number.
    fn client_id(&self) -> u32;
    /// The number of clients.
    fn client_count(&self) -> u32;
    /// A number all clients of the test share.
    fn shared_random_number(&self) -> i64;
    /// A future that is ready after this many simulated seconds; owned by the workload.
    fn delay(&self, seconds: f64) -> *mut FDBFuture;
    /// The workload did something it must not do.
    fn misuse(&self, what: String);
}

/// What the context's pointer points to.
pub(super) struct ContextState {
    host: Rc<dyn Host>,
    thread: ThreadId,
}

impl ContextState {
    pub(super) fn new(host: Rc<dyn Host>) -> Box<ContextState> {
        Box::new(ContextState {
            host,
            thread: std::thread::current().id(),
        })
    }

    /// The structure a factory receives. It refers to `self`, which must stay where it is while the
    /// workload lives.
    pub(super) fn as_abi(&self) -> FDBWorkloadContext {
        FDBWorkloadContext {
            api_version: FDB_WORKLOAD_API_VERSION,
            inner: (&raw const *self).cast_mut().cast(),
            vt: &raw const TABLE,
        }
    }
}

static TABLE: FDBWorkloadContextVt = FDBWorkloadContextVt {
    trace: Some(trace),
    get_process_id: Some(get_process_id),
    set_process_id: Some(set_process_id),
    now: Some(now),
    rnd: Some(rnd),
    get_option: Some(get_option),
    client_id: Some(client_id),
    client_count: Some(client_count),
    shared_random_number: Some(shared_random_number),
    delay: Some(delay),
};

static STRING_TABLE: FDBStringVt = FDBStringVt {
    free: Some(free_string),
};

/// The host behind a context, on the thread where it may be called.
///
/// # Safety
///
/// `inner` is the pointer of a context whose workload has not been freed.
unsafe fn host<'a>(inner: *mut OpaqueWorkloadContext, call: &str) -> &'a dyn Host {
    // SAFETY: by the caller's promise the pointer is the one `as_abi` gave away, and the box is
    // alive.
    let inner = unsafe { &*inner.cast::<ContextState>() };
    if std::thread::current().id() != inner.thread {
        crate::isolation::beacon::refuse(&format!(
            "`{call}` of the context was called from a thread that the workload started; a simulation has one thread"
        ));
    }
    &*inner.host
}

/// A text that C handed over, or `None` for a null pointer. Bytes that are not UTF-8 are shown as
/// such.
///
/// # Safety
///
/// `text` is null or a NUL-terminated string.
unsafe fn text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, hence NUL-terminated by the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

unsafe extern "C" fn trace(
    inner: *mut OpaqueWorkloadContext,
    severity: FDBSeverity,
    name: *const c_char,
    details: *const FDBStringPair,
    n: c_int,
) {
    // SAFETY: the ABI: a live context.
    let host = unsafe { host(inner, "trace") };
    // SAFETY: the ABI: a NUL-terminated name.
    let name = unsafe { text(name) }.unwrap_or_default();
    let mut pairs = Vec::new();
    if !details.is_null() && n > 0 {
        // SAFETY: the ABI: `n` pairs stand there.
        let details = unsafe { std::slice::from_raw_parts(details, n as usize) };
        for pair in details {
            // SAFETY: the ABI: both are NUL-terminated.
            let (key, value) = unsafe { (text(pair.key), text(pair.val)) };
            match (key, value) {
                (Some(key), Some(value)) => pairs.push((key, value)),
                _ => host.misuse(format!(
                    "traced `{name}` with a detail that is a null pointer"
                )),
            }
        }
    }
    if name.is_empty() {
        host.misuse("traced an event without a name".to_owned());
        return;
    }
    match Severity::from_abi(severity) {
        Some(severity) => host.trace(severity, &name, pairs),
        None => host.misuse(format!(
            "traced `{name}` with severity {severity}, which does not exist"
        )),
    }
}

unsafe extern "C" fn get_process_id(inner: *mut OpaqueWorkloadContext) -> u64 {
    // SAFETY: the ABI: a live context.
    unsafe { host(inner, "getProcessID") }.process_id()
}

unsafe extern "C" fn set_process_id(inner: *mut OpaqueWorkloadContext, process_id: u64) {
    // SAFETY: the ABI: a live context.
    let host = unsafe { host(inner, "setProcessID") };
    // On the simulator's thread only the identity it has already is allowed.
    if process_id != host.process_id() {
        host.misuse(format!(
            "set the process id to {process_id} on the simulator's thread"
        ));
    }
}

unsafe extern "C" fn now(inner: *mut OpaqueWorkloadContext) -> c_double {
    // SAFETY: the ABI: a live context.
    unsafe { host(inner, "now") }.now()
}

unsafe extern "C" fn rnd(inner: *mut OpaqueWorkloadContext) -> u32 {
    // SAFETY: the ABI: a live context.
    unsafe { host(inner, "rnd") }.rnd()
}

unsafe extern "C" fn get_option(
    inner: *mut OpaqueWorkloadContext,
    name: *const c_char,
    default_value: *const c_char,
) -> FDBString {
    // SAFETY: the ABI: a live context.
    let host = unsafe { host(inner, "getOption") };
    // SAFETY: the ABI: both are NUL-terminated.
    let (name, default) = unsafe { (text(name), text(default_value)) };
    let value = match (name, default) {
        (Some(name), Some(default)) => host.option(&name, &default),
        _ => {
            host.misuse("asked for an option with a null pointer as name or default".to_owned());
            String::new()
        }
    };
    // A reader of a C string sees the text up to the first NUL.
    let visible = value.split('\0').next().unwrap_or_default();
    let value = CString::new(visible).expect("no NUL is left");
    FDBString {
        inner: value.into_raw(),
        vt: &raw const STRING_TABLE,
    }
}

unsafe extern "C" fn free_string(inner: *const c_char) {
    if !inner.is_null() {
        // SAFETY: the ABI: a string of `get_option`, freed once; that is where `into_raw` was
        // called.
        drop(unsafe { CString::from_raw(inner.cast_mut()) });
    }
}

unsafe extern "C" fn client_id(inner: *mut OpaqueWorkloadContext) -> c_int {
    // SAFETY: the ABI: a live context.
    unsafe { host(inner, "clientId") }.client_id() as c_int
}

unsafe extern "C" fn client_count(inner: *mut OpaqueWorkloadContext) -> c_int {
    // SAFETY: the ABI: a live context.
    unsafe { host(inner, "clientCount") }.client_count() as c_int
}

unsafe extern "C" fn shared_random_number(inner: *mut OpaqueWorkloadContext) -> i64 {
    // SAFETY: the ABI: a live context.
    unsafe { host(inner, "sharedRandomNumber") }.shared_random_number()
}

unsafe extern "C" fn delay(inner: *mut OpaqueWorkloadContext, seconds: c_double) -> *mut FDBFuture {
    // SAFETY: the ABI: a live context.
    unsafe { host(inner, "delay") }.delay(seconds)
}
