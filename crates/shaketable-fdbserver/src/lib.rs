//! The second host: a real `fdbserver -r simulation`, started once for each seed.
//!
//! A [`Server`] is a program with the client library that belongs to it; finding one says why the
//! ones that were seen do not fit. [`Server::run`] gives a seed a folder of its own, hands the test
//! file over as that server understands it ([`test_file`]), starts the server, and reads its trace
//! ([`trace`]) while it is being written. What the trace, the console and the exit status say
//! together becomes an [`Outcome`](shaketable_host::verdict::Outcome) of the same form that the
//! embedded host returns ([`verdict`]), so that whatever reports, groups or compares runs need not
//! know where they were made.
//!
//! What it promises: the server's process never outlives the run, its folder is gone afterwards,
//! memory does not grow with the length of a trace, and every run has a verdict and a reason, also
//! one that was killed, hangs, or crashes.

#![deny(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "another program is watched here, in the machine's time; nothing is simulated"
)]

mod folder;
mod run;
mod server;
pub mod test_file;
pub mod trace;
pub mod verdict;

pub use folder::memory_for;
pub use run::{Keep, Request, RunError};
pub use server::{Find, SeedTooWide, Server, ServerError, Version};
