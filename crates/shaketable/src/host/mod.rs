//! The host's side of the ABI, behind safe functions.
//!
//! Every call from the library into the host goes through this module, and all the `unsafe` of
//! those calls is here. A handle is checked once, when the host hands it over: a null table or a
//! null function is refused there with a message, so the code further inside can rely on it.
//!
//! No safe function of this crate can crash its host. What each hands to the real one, and why that
//! is sound there:
//!
//! | function | what the server does with it | why it cannot end the server |
//! |---|---|---|
//! | every method of `WorkloadContext` | the context is a pointer to an object that `free` deletes, and no lock guards it | dead after `free` and silent on other threads: `WorkloadContext::host` |
//! | `trace` | C strings, an array of pairs; an empty name is a failed assertion, more than 4000 bytes an error event | `trace_event` makes names, cuts values, splits events; NUL is escaped |
//! | `get_process_id`, `set_process_id` | the number is the address of a process; returning as another one is a failed assertion | `ProcessId` cannot be made up, and only the client's own is passed on |
//! | `get_option`, `try_get_option` | C strings; the text is the server's until it is freed | copied and freed once, here |
//! | `delay`, `sleep`, `timeout` | seconds as a double; a future that the caller destroys | made from a `Duration`, so neither negative nor NaN; the future is destroyed by its owner |
//! | `now`, `rnd`, `rng`, `clock`, `client_id`, `client_count`, `shared_random_number`, `swarm` | numbers | nothing points anywhere |
//! | `Metrics::push`, `extend` | C strings, of which one is a format for printf with one double | only formats that print one double, and not too wide; NUL is escaped; nothing after `get_metrics` |
//! | `Metrics::reserve`, `extend` | makes room for as many, and ends if there is not as much | announced is at most a thousand |
//! | the result of a phase | a promise: sent twice is a failed assertion, freed unsent breaks the run | `HostPromise` sends once, and every end of a phase sends |
//! | `get_check_timeout` | a double | NaN and negative ones are replaced and reported: `instance` |
//! | `SimDatabase` and what is made of it | freed by the server after the phase | taken back before the promise is kept; a kept handle leaks one reference and breaks its client: `phase` |
//! | `spawn`, `JoinHandle`, wakers | callbacks of the server's futures | tasks are run on the simulation's thread only, and nothing unwinds past the library: `executor`, `instance` |
//! | `History`, `Metric`, the macros for assertions | nothing of their own | they trace |
//!
//! `tests/hosts` plays a server that says `BUG` where the real one would end.

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
