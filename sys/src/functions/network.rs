//! Errors, the choice of the API version, and the network: what belongs to the process and not to a
//! database.

use crate::{FDBNetworkOption, fdb_bool_t, fdb_error_t};
use std::os::raw::{c_char, c_int, c_void};

unsafe extern "C" {
    /// The text of an error code, as a static string.
    pub fn fdb_get_error(code: fdb_error_t) -> *const c_char;
    /// Returns whether one of the `FDBErrorPredicate` predicates holds for an error code.
    pub fn fdb_error_predicate(predicate: c_int, code: fdb_error_t) -> fdb_bool_t;
    /// Sets an option of the network; a null value means the option takes none.
    pub fn fdb_network_set_option(
        option: FDBNetworkOption,
        value: *const u8,
        value_length: c_int,
    ) -> fdb_error_t;
    /// Prepares the network. Once per process, before any database is opened.
    pub fn fdb_setup_network() -> fdb_error_t;
    /// Runs the network on the calling thread until it is stopped.
    pub fn fdb_run_network() -> fdb_error_t;
    /// Asks the network to stop; returns at once.
    pub fn fdb_stop_network() -> fdb_error_t;
    /// Registers a function to be called on the network's thread when it ends.
    pub fn fdb_add_network_thread_completion_hook(
        hook: Option<unsafe extern "C" fn(arg1: *mut c_void)>,
        hook_parameter: *mut c_void,
    ) -> fdb_error_t;
    /// Selects the API version; first the version wanted, then that of the declarations in use.
    pub fn fdb_select_api_version_impl(
        runtime_version: c_int,
        header_version: c_int,
    ) -> fdb_error_t;
    /// The newest API version the library knows.
    pub fn fdb_get_max_api_version() -> c_int;
    /// Version, source id and protocol of the library, separated by commas.
    pub fn fdb_get_client_version() -> *const c_char;
}
