//! What client and servers both know about data, and know in the same words.
//!
//! A client predicts what a server will do: it applies atomic operations to what it has read, places
//! versionstamps, and says which key comes after another. The two must never disagree, so each of
//! these rules stands here once, and neither side imports the other.
//!
//! * [`key`] has the edges of the key space, the limits of keys and values, and the key just after
//!   another.
//! * [`atomic`] folds atomic operations over values; [`versionstamp`] places versionstamps and says
//!   what they make unreadable.
//! * [`mapper`] makes of the row of an index the range of a record, with [`mod@tuple`] for the
//!   encoding.
//! * [`idempotency`] has the rows by which a client learns the fate of a commit.
//!
//! Nothing here waits, draws or sends: these are functions of their arguments.

pub(crate) mod atomic;
pub(crate) mod idempotency;
pub(crate) mod key;
pub(crate) mod mapper;
pub(crate) mod tuple;
pub(crate) mod versionstamp;
