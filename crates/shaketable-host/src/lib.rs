//! Plays the tester of `fdbserver -r simulation`.
//!
//! A run starts with a test file ([`testfile`]) and ends with an [`verdict::Outcome`]. In between stand the things that
//! FoundationDB's tester does for a workload: its library is loaded and called ([`library`]), options are handed
//! over ([`options`]), events are traced ([`trace`]), numbers are written as C writes them ([`printf`]).

#![deny(unsafe_code)]

pub mod clock;
#[allow(unsafe_code, reason = "the border to code under test; see the module")]
pub mod library;
pub mod options;
pub mod plan;
pub mod printf;
mod tester;
pub mod testfile;
pub mod trace;
pub mod verdict;

pub use tester::{current_client, simulate};

/// The name of one of FoundationDB's error codes.
pub fn error_name(code: i32) -> &'static str {
    shaketable_cluster::error::Error(code).name()
}
