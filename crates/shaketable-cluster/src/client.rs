//! FoundationDB's client: what a binding sees of a transaction.
//!
//! * [`atomic`] folds atomic operations over values.
//! * [`versionstamp`] places versionstamps and tells what they make unreadable.

pub mod atomic;
pub mod versionstamp;
