//! FoundationDB's client, as a binding sees it.
//!
//! The layers of the real client, one file each:
//!
//! * [`Transaction`] is the surface. It checks arguments and does its bookkeeping at the moment of
//!   the call, in the order of the calls, and returns a [`Pending`] for everything that takes time.
//!   An error in a call that returns nothing is *deferred*: it sticks to the transaction, later
//!   calls of that kind are skipped, and every later future ends with it until `on_error` succeeds
//!   or `reset` is called.
//! * [`Database`] is what the transactions of one handle share: read-version batching, the location
//!   cache, the count of watches, default options.
//! * `reads` and `shards` read from the database at a version, `grv` obtains that version, and
//!   `locations` finds the servers to ask.
//! * `write_map` holds the transaction's writes with the `operations` on each key, `snapshot_cache`
//!   what it has read; `overlay` lays one over the other, and `range_read` walks over both.
//!   `conflicts` works out what a read depends on.
//! * `watches` wait for changes from the commit on.
//! * `fate` is what the override of a decision makes of a single operation.
//! * [`options`] knows every option, its values and its errors.
//! * `special_keys` serves the keys behind `\xff\xff`.
//!
//! Everything here runs on the kernel's thread. Internal failures (a lost connection, a shard that
//! moved) are retried indefinitely and never surface; an outage is a wait.

mod chunks;
mod conflicts;
mod database;
mod fate;
mod grv;
mod limits;
mod load_balance;
mod locations;
mod operations;
pub mod options;
mod overlay;
mod pending;
mod range_read;
mod range_set;
mod reads;
mod shards;
mod snapshot_cache;
mod special_keys;
mod transaction;
mod watches;
mod write_map;

pub use database::{Buggify, Connection, Database};
pub use fate::is_an_outcome;
pub use limits::RangeLimits;
pub use load_balance::Question;
pub use pending::{Pending, Subscription};
pub use transaction::{ConflictRangeKind, Transaction};
