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
pub mod printf;
pub mod testfile;
pub mod trace;
pub mod verdict;
