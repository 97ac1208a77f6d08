//! The functions of the process: API version, network and its options.

use super::{code, option_value};
use crate::network::{self, CompletionHook};
use crate::options;
use crate::types::fdb_error_t;
use crate::version;
use shaketable_cluster::release::Release;
use std::ffi::{c_char, c_int, c_void};

/// Selects the API version; first the behaviour wanted, then the version of the header in use.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_select_api_version_impl(
    runtime_version: c_int,
    header_version: c_int,
) -> fdb_error_t {
    code(version::select(runtime_version, header_version))
}

/// The newest API version the library knows.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_get_max_api_version() -> c_int {
    version::API_VERSION_MAX
}

/// Version, source id and protocol of the library, which are those of the FoundationDB that the
/// program sees; there is no source id.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_get_client_version() -> *const c_char {
    match version::release() {
        Release::V7_4 => c"7.4.6,0000000000000000000000000000000000000000,fdb00b074000000",
        Release::V8_0 => c"8.0.0,0000000000000000000000000000000000000000,fdb00b080000000",
    }
    .as_ptr()
}

/// Asks for a protocol newer than the library's. There is none.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_use_future_protocol_version() {}

/// Sets an option of the network.
///
/// # Safety
/// The contract of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_network_set_option(
    option: c_int,
    value: *const u8,
    value_length: c_int,
) -> fdb_error_t {
    // SAFETY: the contract of the header.
    let value = unsafe { option_value(value, value_length) };
    code(options::set(option, value))
}

/// Prepares the network, once.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_setup_network() -> fdb_error_t {
    code(network::setup())
}

/// Runs the network on the calling thread until it is stopped.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_run_network() -> fdb_error_t {
    code(network::run())
}

/// Asks the network to stop; returns at once.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_stop_network() -> fdb_error_t {
    code(network::stop())
}

/// Registers a function to be called on the network's thread when the network has ended.
///
/// # Safety
/// The hook may be called on the network's thread with that parameter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_add_network_thread_completion_hook(
    hook: Option<unsafe extern "C" fn(*mut c_void)>,
    hook_parameter: *mut c_void,
) -> fdb_error_t {
    let Some(function) = hook else { return 0 };
    code(network::add_completion_hook(CompletionHook {
        function,
        parameter: hook_parameter,
    }))
}
