//! Plays the tester of `fdbserver -r simulation`.
//!
//! A run starts with a test file ([`testfile`]) and ends with a verdict. In between stand the things that
//! FoundationDB's tester does for a workload: options are handed over ([`options`]), numbers are written as
//! C writes them ([`printf`]).

pub mod clock;
pub mod options;
pub mod printf;
pub mod testfile;
pub mod trace;
