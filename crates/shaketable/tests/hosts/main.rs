//! Plays the host against a real workload library.
//!
//! The hosts are C and C++ programs, compiled here with the machine's own compiler, because real
//! hosts are C++. The library is `tests/workloads/probe`, whose workloads each do one thing; the
//! hosts write one line per call, and the tests check which lines are there.
//!
//! With `SHAKETABLE_VALGRIND=1` every host runs under valgrind, and a leak or a bad access fails
//! the test.

mod bench;
mod cpp;
mod hermetic;
mod on_tokio;
mod recorded;
mod v0;
mod v1;
