//! The host's side of the ABI, behind safe functions.
//!
//! Every call from the library into the host goes through this module, and all the `unsafe` of
//! those calls is here. A handle is checked once, when the host hands it over: a null table or a
//! null function is refused there with a message, so the code further inside can rely on it.

mod context;
mod metrics;
mod promise;

pub(crate) use context::HostContext;
pub(crate) use metrics::HostMetrics;
pub(crate) use promise::HostPromise;

use std::ffi::{CStr, c_char};

/// The text of a C string of the host, whatever bytes it holds; `None` for a null pointer.
///
/// # Safety
///
/// `text` is null or points to a NUL-terminated string that lives during the call.
pub(crate) unsafe fn text_from_host(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: by the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}
