//! The program, run as a user runs it, on workloads that behave and misbehave.
//!
//! Most of the workloads use no database, so that only the calls between host and code under test
//! are tested here.

mod bench;
mod cases;
mod explanations;
mod explore;
mod guided;
mod hermetic;
mod libraries;
mod records;
mod seeds;
mod servers;
mod sweeps;
mod under_server;
mod verdicts;
