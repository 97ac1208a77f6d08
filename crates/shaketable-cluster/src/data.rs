//! What client and servers both know about data.
//!
//! A client predicts what a server will do: it applies atomic operations to what it has read,
//! places versionstamps, and computes which key comes after another. The two must never disagree,
//! so each of these rules is written here once, and neither side imports the other.
//!
//! * [`key`] has the edges of the key space, the limits of keys and values, and the key just after
//!   another.
//! * [`atomic`] folds atomic operations over values; [`versionstamp`] places versionstamps and
//!   works out what they make unreadable.
//! * [`mapper`] turns the row of an index into the range of a record, with [`mod@tuple`] for the
//!   encoding.
//! * [`idempotency`] has the rows from which a client learns the fate of a commit.
//!
//! Nothing here waits, draws random numbers or sends: these are functions of their arguments.

pub(crate) mod atomic;
pub(crate) mod idempotency;
pub(crate) mod key;
pub(crate) mod mapper;
pub(crate) mod tuple;
pub(crate) mod versionstamp;
