//! The subcommands that simulate.

pub mod check_determinism;
pub mod explain;
pub mod lint;
pub mod log;
pub mod new;
pub mod run;
