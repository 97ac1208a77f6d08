//! What the program's exit status means.
//!
//! The numbers follow nextest where the meaning is the same, so that scripts need not learn new
//! ones.

/// Every seed passed.
pub const PASSED: u8 = 0;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// There was nothing to run: no test file, or no seed.
pub const NOTHING_RUN: u8 = 4;
/// Something that is needed before the first seed is missing or wrong: a test file, a library.
pub const SETUP_FAILED: u8 = 96;
/// At least one seed failed.
pub const TESTS_FAILED: u8 = 100;
/// The workload library does not build.
pub const BUILD_FAILED: u8 = 101;
/// A seed gave two different runs.
pub const NOT_DETERMINISTIC: u8 = 103;
/// Two hosts behave differently, beyond chance.
pub const HOSTS_DIFFER: u8 = 104;
/// Interrupted before a seed failed.
pub const INTERRUPTED: u8 = 130;
/// What the output went to was closed, as by `| head`: the status a shell shows for SIGPIPE.
pub const UNREAD: u8 = 141;
