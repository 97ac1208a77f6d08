//! The subcommands that simulate.

pub mod check_determinism;
pub mod log;
pub mod new;
pub mod run;
