//! The subcommands that do more than list.

pub mod bugs;
pub mod check_determinism;
pub mod compare;
pub mod decisions;
pub mod doctor;
pub mod explain;
pub mod explore;
pub mod init;
pub mod joshua;
pub mod lint;
pub mod log;
pub mod minimise;
pub mod new;
pub mod page;
pub mod report;
pub mod run;
pub mod serve;
pub mod shell;
mod trace;
pub mod when;
