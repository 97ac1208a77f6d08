//! The embedded simulation as a library: `cargo test` is enough.
//!
//! A test of a layer runs a workload, or just an async closure with a database, in the same
//! simulation as `shaketable run`: nothing to install, no shared library, no other process, so that
//! a debugger and a profiler work as in any test.
//!
//! * Every seed runs on a thread of its own, and as many at once as there are processors. A
//!   simulation has one thread and no global state; and a fresh thread is what makes a seed mean
//!   the same whether it is the first or the thousandth: a thread remembers things, such as the
//!   keys of its `HashMap`s.
//! * Time and chance that code under test takes from the operating system come from the seed, as
//!   they do under `shaketable run`: see [`hermetic`].
//! * A failure is a panic with the seed, the reason and the line to paste. It is kept as a case
//!   among the [regressions](Simulation::regressions), made small, and run first from then on.
//!
//! * A seed that takes longer than the [limit](Simulation::hang_limit) fails, and other tests
//!   continue.
//!
//! What it does not do: give each seed a process of its own. If the code under test crashes or
//! exits, so does the test program; `shaketable run` survives such a crash. But before the program
//! dies it says which seed it dies of, keeps that seed, and starts itself again to leave the same
//! folder and the same report as any other failure.

mod body;
mod builder;
mod determinism;
mod explore;
mod faults;
mod hermetic;
mod jobs;
mod minimise;
mod progress;
mod regressions;
mod report;
mod run;
mod seeds;
mod test_file;

pub use builder::Simulation;
pub use faults::Faults;
pub use report::{Failed, Passed};
pub use seeds::Seeds;
