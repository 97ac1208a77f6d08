//! A workload in plain Rust whose every value comes from where a seed should not reach: hash order,
//! the machine's clocks, the system's random numbers. Compiled by the tests as a `cdylib`, against
//! the External-workload ABI written out by hand.
#![allow(non_snake_case)]

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[repr(C)]
#[derive(Clone, Copy)]
struct Promise {
    inner: *mut c_void,
    table: *const PromiseTable,
}
#[repr(C)]
struct PromiseTable {
    free: extern "C" fn(*mut c_void),
    send: extern "C" fn(*mut c_void, bool),
}
#[repr(C)]
struct Pair(*const c_char, *const c_char);
#[repr(C)]
struct ContextTable {
    trace: extern "C" fn(*mut c_void, c_int, *const c_char, *const Pair, c_int),
    rest: [*const c_void; 9],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Context {
    version: c_int,
    inner: *mut c_void,
    table: *const ContextTable,
}
#[repr(C)]
pub struct Workload {
    version: c_int,
    inner: *mut c_void,
    table: *const Table,
}
#[repr(C)]
struct Table {
    free: extern "C" fn(*mut Context),
    phases: [extern "C" fn(*mut Context, *mut c_void, Promise); 3],
    metrics: extern "C" fn(*mut Context, *mut c_void, *const c_void),
    timeout: extern "C" fn(*mut Context) -> f64,
}
static TABLE: Table = Table { free, phases: [phase, start, phase], metrics, timeout };

extern "C" fn free(context: *mut Context) {
    drop(unsafe { Box::from_raw(context) });
}

extern "C" fn phase(_: *mut Context, _: *mut c_void, done: Promise) {
    let table = unsafe { &*done.table };
    (table.send)(done.inner, true);
    (table.free)(done.inner);
}

extern "C" fn start(context: *mut Context, database: *mut c_void, done: Promise) {
    let context = unsafe { *context };
    let began = Instant::now();
    let map: HashMap<u32, ()> = (0..20).map(|n| (n, ())).collect();
    let order: Vec<String> = map.keys().map(u32::to_string).collect();
    trace(context, "Order", &order.join(","));
    trace(context, "Hash", &RandomState::new().hash_one(1).to_string());
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    trace(context, "Calendar", &format!("{since:?}"));
    trace(context, "Elapsed", &format!("{:?}", began.elapsed()));
    trace(context, "Process", &std::process::id().to_string());
    phase(std::ptr::null_mut(), database, done);
}

fn trace(context: Context, key: &str, value: &str) {
    let (key, value) = (CString::new(key).unwrap(), CString::new(value).unwrap());
    let pair = Pair(key.as_ptr(), value.as_ptr());
    let table = unsafe { &*context.table };
    (table.trace)(context.inner, 1, c"Stray".as_ptr(), &pair, 1);
}

extern "C" fn metrics(_: *mut Context, _: *mut c_void, _: *const c_void) {}

extern "C" fn timeout(_: *mut Context) -> f64 {
    10.0
}

#[unsafe(no_mangle)]
pub extern "C" fn workloadCFactory(_: *const c_char, context: Context) -> Workload {
    let context = Box::into_raw(Box::new(context));
    Workload { version: 1, inner: context.cast(), table: &TABLE }
}
