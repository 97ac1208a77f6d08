//! Simulations inside a test program, as a workload's author writes them.
//!
//! In one program, so that they share what is compiled for each. What counts the places of
//! assertions has a program of its own, because all places in a program belong together
//! (`assertions.rs`, `cases.rs`, `coverage.rs`, `glob.rs`); so have `deaths.rs` and `output.rs`,
//! which are compiled with the feature `tokio` too.

mod conveniences;
mod crashes;
mod embedded;
mod guide;
mod histories;
mod liveness;
mod record;
