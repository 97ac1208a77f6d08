//! What a host offers a workload, as plain calls.

use super::text_from_host;
use shaketable_abi::v1::{FDBWorkloadContext, FDBWorkloadContextVt, OpaqueWorkloadContext};
use shaketable_abi::{FDBFuture, FDBSeverity, FDBStringPair};
use std::ffi::{CStr, CString, c_int};

/// The host's context, checked. Its owner makes sure that the host still holds it, too: see
/// `WorkloadContext`, the only user.
#[derive(Clone, Copy)]
pub(crate) struct HostContext {
    api_version: c_int,
    inner: *mut OpaqueWorkloadContext,
    table: &'static FDBWorkloadContextVt,
}

/// Calls a slot that `HostContext::new` found filled.
macro_rules! call {
    ($context:expr, $slot:ident ( $($argument:expr),* )) => {
        match $context.table.$slot {
            // SAFETY: the context is alive by the promise of `HostContext::new`, and the arguments
            // live during the call.
            Some(function) => unsafe { function($context.inner, $($argument),*) },
            None => unreachable!("checked when the host handed the context over"),
        }
    };
}

impl HostContext {
    /// Checks what the host handed over.
    ///
    /// # Safety
    ///
    /// `raw` is the context of a v1 host, or holds null pointers. Its table lives as long as the
    /// process, and no method is called after the host freed the workload.
    pub(crate) unsafe fn new(raw: FDBWorkloadContext) -> Result<Self, String> {
        // SAFETY: by the caller's promise the table is readable or null.
        let Some(table) = (unsafe { raw.vt.as_ref() }) else {
            return Err("its table is null".to_owned());
        };
        let slots = [
            ("trace", table.trace.is_some()),
            ("getProcessID", table.get_process_id.is_some()),
            ("setProcessID", table.set_process_id.is_some()),
            ("now", table.now.is_some()),
            ("rnd", table.rnd.is_some()),
            ("getOption", table.get_option.is_some()),
            ("clientId", table.client_id.is_some()),
            ("clientCount", table.client_count.is_some()),
            ("sharedRandomNumber", table.shared_random_number.is_some()),
        ];
        match slots.iter().find(|(_, filled)| !filled) {
            Some((slot, _)) => Err(format!("its table has no `{slot}`")),
            None => Ok(HostContext {
                api_version: raw.api_version,
                inner: raw.inner,
                table,
            }),
        }
    }

    pub(crate) fn api_version(&self) -> c_int {
        self.api_version
    }

    pub(crate) fn trace(&self, severity: FDBSeverity, name: &CStr, details: &[(CString, CString)]) {
        let details: Vec<FDBStringPair> = details
            .iter()
            .map(|(key, value)| FDBStringPair {
                key: key.as_ptr(),
                val: value.as_ptr(),
            })
            .collect();
        let count = c_int::try_from(details.len()).unwrap_or(c_int::MAX);
        call!(
            self,
            trace(severity, name.as_ptr(), details.as_ptr(), count)
        );
    }

    pub(crate) fn get_process_id(&self) -> u64 {
        call!(self, get_process_id())
    }

    pub(crate) fn set_process_id(&self, process_id: u64) {
        call!(self, set_process_id(process_id));
    }

    pub(crate) fn now(&self) -> f64 {
        call!(self, now())
    }

    pub(crate) fn rnd(&self) -> u32 {
        call!(self, rnd())
    }

    /// The option's text; empty when the test file does not have it, or when it was read before.
    pub(crate) fn get_option(&self, name: &CStr) -> String {
        self.get_option_or(name, c"")
    }

    pub(crate) fn get_option_or(&self, name: &CStr, default: &CStr) -> String {
        let option = call!(self, get_option(name.as_ptr(), default.as_ptr()));
        // SAFETY: the host's string is NUL-terminated and lives until it is freed below.
        let text = unsafe { text_from_host(option.inner) }.unwrap_or_default();
        // SAFETY: the host's table lives as long as the process.
        if let Some(free) = unsafe { option.vt.as_ref() }.and_then(|table| table.free) {
            // SAFETY: the string is ours, and freed once.
            unsafe { free(option.inner) };
        }
        text
    }

    pub(crate) fn client_id(&self) -> i32 {
        call!(self, client_id())
    }

    pub(crate) fn client_count(&self) -> i32 {
        call!(self, client_count())
    }

    pub(crate) fn shared_random_number(&self) -> i64 {
        call!(self, shared_random_number())
    }

    /// A future that is ready after this many simulated seconds; `None` on a host without `delay`
    /// (the C++ ABI before 7.4.6).
    pub(crate) fn delay(&self, seconds: f64) -> Option<*mut FDBFuture> {
        let delay = self.table.delay?;
        // SAFETY: as for `call!`.
        let future = unsafe { delay(self.inner, seconds) };
        (!future.is_null()).then_some(future)
    }
}
