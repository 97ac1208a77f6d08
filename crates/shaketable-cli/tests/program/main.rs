//! The program, run as a user runs it, on workloads that behave and misbehave.
//!
//! Most of the workloads use no database, so that what is tested here is the border between host
//! and code under test and nothing else.

mod bench;
mod hermetic;
mod libraries;
mod sweeps;
mod verdicts;
