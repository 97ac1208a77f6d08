//! Plays the tester of `fdbserver -r simulation`.
//!
//! A run starts with a test file ([`testfile`]) and ends with a [`verdict::Outcome`]. In between
//! come the things that FoundationDB's tester does for a workload: its library is loaded and called
//! ([`library`]), options are handed over ([`options`]), events are traced ([`trace`]), numbers are
//! written as C writes them ([`printf`]).
//!
//! Three modules keep code under test from harming more than its own seed: [`isolation`] gives each
//! seed a process, [`hermetic`] replaces the operating system's time and randomness, [`heap`] is
//! where the program's own objects live. Together with [`library`] and [`coverage`], which looks at
//! the stack, they hold all unsafe code of the host.

#![deny(unsafe_code)]

pub mod bugs;
mod call_site;
pub mod case;
mod clock;
#[allow(unsafe_code, reason = "reads return addresses off the stack")]
pub mod coverage;
pub mod failure_folder;
#[allow(unsafe_code, reason = "an allocator; see the module")]
pub mod heap;
#[allow(
    unsafe_code,
    reason = "functions of the C library, under their own names"
)]
pub mod hermetic;
#[allow(unsafe_code, reason = "fork, signals and memory that processes share")]
pub mod isolation;
#[allow(unsafe_code, reason = "calls into code under test; see the module")]
pub mod library;
pub mod minimise;
pub mod options;
pub mod plan;
pub mod printf;
mod shared_text;
pub mod story;
mod tester;
pub mod testfile;
pub mod trace;
pub mod verdict;

pub use shaketable_record::{Seed, SeedError};
pub use tester::simulate;

/// The name of a transaction option, by its code.
pub fn transaction_option_name(code: i32) -> Option<&'static str> {
    use shaketable_cluster::client::options::Scope;
    let mut options = Scope::Transaction.options().iter();
    Some(options.find(|option| option.code == code)?.name)
}

/// The name of one of FoundationDB's error codes.
pub fn error_name(code: i32) -> &'static str {
    shaketable_cluster::error::Error(code).name()
}
