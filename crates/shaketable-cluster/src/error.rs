//! FoundationDB's error codes, as values.
//!
//! An [`Error`] is one of FoundationDB's numbers and nothing more: what a client can be told is exactly
//! what `fdb_error_t` can carry. Internal failures (a connection that breaks, a shard that moved) are
//! retried inside the client and never become one of these.

use std::fmt;

/// One of FoundationDB's error codes. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Error(pub i32);

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({})", self.0)
    }
}
