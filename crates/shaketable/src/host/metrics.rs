//! The list of metrics a host collects.

use shaketable_abi::FDBMetric;
use shaketable_abi::v1::{FDBMetrics, OpaqueMetrics};
use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::rc::Rc;

/// The list, as long as the host keeps it open.
#[derive(Clone)]
pub(crate) struct HostMetrics(Rc<Cell<Option<Open>>>);

#[derive(Clone, Copy)]
struct Open {
    inner: *mut OpaqueMetrics,
    reserve: unsafe extern "C" fn(*mut OpaqueMetrics, c_int),
    push: unsafe extern "C" fn(*mut OpaqueMetrics, FDBMetric),
}

impl HostMetrics {
    /// Checks what the host handed over.
    ///
    /// # Safety
    ///
    /// `raw` is the list of a v1 host, or holds null pointers, and stays valid until
    /// [`close`](HostMetrics::close).
    pub(crate) unsafe fn new(raw: FDBMetrics) -> Result<Self, &'static str> {
        // SAFETY: by the caller's promise the table is readable or null.
        let table = unsafe { raw.vt.as_ref() }.ok_or("its table is null")?;
        Ok(HostMetrics(Rc::new(Cell::new(Some(Open {
            inner: raw.inner,
            reserve: table.reserve.ok_or("its table has no `reserve`")?,
            push: table.push.ok_or("its table has no `push`")?,
        })))))
    }

    /// The host takes its list back; copies that are still held do nothing from now on.
    pub(crate) fn close(&self) {
        self.0.set(None);
    }

    /// Announces `count` more metrics. Returns whether the list is still open.
    pub(crate) fn reserve(&self, count: usize) -> bool {
        let Some(open) = self.0.get() else {
            return false;
        };
        let count = c_int::try_from(count).unwrap_or(c_int::MAX);
        // SAFETY: open, so the list is valid.
        unsafe { (open.reserve)(open.inner, count) };
        true
    }

    /// Appends a metric. Returns whether the list is still open.
    pub(crate) fn push(&self, key: &CStr, format: &CStr, value: f64, average: bool) -> bool {
        let Some(open) = self.0.get() else {
            return false;
        };
        let metric = FDBMetric {
            key: key.as_ptr(),
            fmt: format.as_ptr(),
            val: value,
            avg: average,
        };
        // SAFETY: open, so the list is valid; the host copies both texts before it returns.
        unsafe { (open.push)(open.inner, metric) };
        true
    }
}
