//! What Shaketable costs: time, instructions and memory.
//!
//! ```text
//! cargo bench -p shaketable-bench --bench paths             times of every path (divan)
//! cargo bench -p shaketable-bench --bench targets           figures beside their targets
//! cargo bench -p shaketable-bench --bench targets -- help   the parts of `targets`
//! ```
//!
//! An argument chooses rows of `paths`, or a part of `targets`.
//!
//! The library holds what both benchmarks measure, one file for each subject:
//! [`executor`], [`kernel`], [`transactions`], [`storage`], [`scale`], [`copies`], and [`programs`]
//! for what is measured from outside. Each is a world that is built once and a body that does a
//! given number of operations, so that a clock, a counter of events or callgrind can stand around
//! the body alone. [`gauge`] holds the instruments.
//!
//! A benchmark decides nothing: what must hold is in the tests, and no test looks at a clock.
//! `docs/performance.md` keeps the figures of one machine and one commit.

pub mod copies;
pub mod executor;
pub mod gauge;
pub mod kernel;
pub mod programs;
pub mod scale;
pub mod storage;
pub mod transactions;
