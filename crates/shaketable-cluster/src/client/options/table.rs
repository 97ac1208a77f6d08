//! Every option of FoundationDB 7.4 and 8.0, scope by scope: code, name, kind of value, whether it
//! outlives a retry, for a database option the transaction option whose default it sets, and the
//! release if only one of them has it. The source is `conformance/facts/options.csv`.

use super::Parameter::{self, *};
use crate::release::Release;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// The number that applications pass.
    pub code: i32,
    /// FoundationDB's name, in snake case.
    pub name: &'static str,
    /// What kind of value it takes.
    pub parameter: Parameter,
    /// Whether `on_error` keeps it.
    pub persistent: bool,
    /// The transaction option whose default this database option sets.
    pub default_for: Option<i32>,
    /// The one release that has it, if the other does not.
    pub only_in: Option<Release>,
}

const fn option(code: i32, name: &'static str, parameter: Parameter) -> OptionInfo {
    OptionInfo {
        code,
        name,
        parameter,
        persistent: false,
        default_for: None,
        only_in: None,
    }
}

const fn only_in(release: Release, option: OptionInfo) -> OptionInfo {
    OptionInfo {
        only_in: Some(release),
        ..option
    }
}

const fn persistent(code: i32, name: &'static str, parameter: Parameter) -> OptionInfo {
    OptionInfo {
        persistent: true,
        ..option(code, name, parameter)
    }
}

const fn default(code: i32, name: &'static str, parameter: Parameter, of: i32) -> OptionInfo {
    OptionInfo {
        default_for: Some(of),
        ..option(code, name, parameter)
    }
}

/// Options of the network, in ascending order of codes.
#[rustfmt::skip]
pub const NETWORK: &[OptionInfo] = &[
    option(10, "local_address", String),
    option(20, "cluster_file", String),
    option(30, "trace_enable", String),
    option(31, "trace_roll_size", Int),
    option(32, "trace_max_logs_size", Int),
    option(33, "trace_log_group", String),
    option(34, "trace_format", String),
    option(35, "trace_clock_source", String),
    option(36, "trace_file_identifier", String),
    option(37, "trace_share_among_client_threads", Flag),
    option(38, "trace_initialize_on_setup", Flag),
    option(39, "trace_partial_file_suffix", String),
    option(40, "knob", String),
    option(41, "tls_plugin", String),
    option(42, "tls_cert_bytes", Bytes),
    option(43, "tls_cert_path", String),
    option(45, "tls_key_bytes", Bytes),
    option(46, "tls_key_path", String),
    option(47, "tls_verify_peers", Bytes),
    option(48, "buggify_enable", Flag),
    option(49, "buggify_disable", Flag),
    option(50, "buggify_section_activated_probability", Int),
    option(51, "buggify_section_fired_probability", Int),
    option(52, "tls_ca_bytes", Bytes),
    option(53, "tls_ca_path", String),
    option(54, "tls_password", String),
    option(55, "tls_disable_plaintext_connection", Flag),
    option(60, "disable_multi_version_client_api", Flag),
    option(61, "callbacks_on_external_threads", Flag),
    option(62, "external_client_library", String),
    option(63, "external_client_directory", String),
    option(64, "disable_local_client", Flag),
    option(65, "client_threads_per_version", Int),
    option(66, "future_version_client_library", String),
    option(67, "retain_client_library_copies", Flag),
    option(68, "ignore_external_client_failures", Flag),
    option(69, "fail_incompatible_client", Flag),
    option(70, "disable_client_statistics_logging", Flag),
    option(71, "enable_run_loop_profiling", Flag),
    option(72, "disable_client_bypass", Flag),
    option(80, "client_buggify_enable", Flag),
    option(81, "client_buggify_disable", Flag),
    option(82, "client_buggify_section_activated_probability", Int),
    option(83, "client_buggify_section_fired_probability", Int),
    only_in(Release::V8_0, option(84, "trace_ip", String)),
    option(90, "distributed_client_tracer", String),
    option(91, "client_tmp_dir", String),
    option(1000, "supported_client_versions", String),
    option(1001, "external_client", Flag),
    option(1002, "external_client_transport_id", Int),
];

/// Options of a database handle, in ascending order of codes.
#[rustfmt::skip]
pub const DATABASE: &[OptionInfo] = &[
    option(10, "location_cache_size", Int),
    option(20, "max_watches", Int),
    option(21, "machine_id", String),
    option(22, "datacenter_id", String),
    option(26, "snapshot_ryw_enable", Flag),
    option(27, "snapshot_ryw_disable", Flag),
    default(405, "transaction_logging_max_field_length", Int, 405),
    default(500, "transaction_timeout", Int, 500),
    default(501, "transaction_retry_limit", Int, 501),
    default(502, "transaction_max_retry_delay", Int, 502),
    default(503, "transaction_size_limit", Int, 503),
    default(504, "transaction_causal_read_risky", Flag, 20),
    default(505, "transaction_include_port_in_address", Flag, 23),
    default(506, "transaction_automatic_idempotency", Flag, 505),
    default(700, "transaction_bypass_unreadable", Flag, 1100),
    default(701, "transaction_used_during_commit_protection_disable", Flag, 701),
    default(702, "transaction_report_conflicting_keys", Flag, 712),
    only_in(Release::V7_4, option(800, "use_config_database", Flag)),
    option(900, "test_causal_read_risky", Int),
];

/// Options of a transaction, in ascending order of codes.
#[rustfmt::skip]
pub const TRANSACTION: &[OptionInfo] = &[
    option(10, "causal_write_risky", Flag),
    option(20, "causal_read_risky", Flag),
    option(21, "causal_read_disable", Flag),
    option(23, "include_port_in_address", Flag),
    option(30, "next_write_no_write_conflict_range", Flag),
    option(40, "commit_on_first_proxy", Flag),
    option(50, "check_writes_enable", Flag),
    option(51, "read_your_writes_disable", Flag),
    option(52, "read_ahead_disable", Flag),
    option(110, "durability_datacenter", Flag),
    option(120, "durability_risky", Flag),
    option(130, "durability_dev_null_is_web_scale", Flag),
    option(200, "priority_system_immediate", Flag),
    option(201, "priority_batch", Flag),
    option(300, "initialize_new_database", Flag),
    option(301, "access_system_keys", Flag),
    option(302, "read_system_keys", Flag),
    option(303, "raw_access", Flag),
    option(304, "bypass_storage_quota", Flag),
    option(400, "debug_dump", Flag),
    option(401, "debug_retry_logging", String),
    option(402, "transaction_logging_enable", String),
    option(403, "debug_transaction_identifier", String),
    option(404, "log_transaction", Flag),
    option(405, "transaction_logging_max_field_length", Int),
    option(406, "server_request_tracing", Flag),
    persistent(500, "timeout", Int),
    persistent(501, "retry_limit", Int),
    persistent(502, "max_retry_delay", Int),
    option(503, "size_limit", Int),
    option(504, "idempotency_id", String),
    option(505, "automatic_idempotency", Flag),
    option(507, "read_server_side_cache_enable", Flag),
    option(508, "read_server_side_cache_disable", Flag),
    option(509, "read_priority_normal", Flag),
    option(510, "read_priority_low", Flag),
    option(511, "read_priority_high", Flag),
    option(600, "snapshot_ryw_enable", Flag),
    option(601, "snapshot_ryw_disable", Flag),
    option(700, "lock_aware", Flag),
    option(701, "used_during_commit_protection_disable", Flag),
    option(702, "read_lock_aware", Flag),
    option(710, "first_in_batch", Flag),
    option(711, "use_provisional_proxies", Flag),
    option(712, "report_conflicting_keys", Flag),
    option(713, "special_key_space_relaxed", Flag),
    option(714, "special_key_space_enable_writes", Flag),
    option(800, "tag", String),
    option(801, "auto_throttle_tag", String),
    option(900, "span_parent", Bytes),
    option(1000, "expensive_clear_cost_estimation_enable", Flag),
    option(1100, "bypass_unreadable", Flag),
    option(1101, "use_grv_cache", Flag),
    option(1102, "skip_grv_cache", Flag),
    only_in(Release::V8_0, option(1103, "max_grv_queue_delay", Int)),
    persistent(2000, "authorization_token", String),
    option(4000, "enable_replica_consistency_check", Flag),
    option(4001, "consistency_check_required_replicas", Int),
];
