//! The subcommands that simulate.

pub mod check_determinism;
pub mod new;
pub mod run;
