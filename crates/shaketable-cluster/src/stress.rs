//! Stress: a cluster that is worse than any production, and still legal.
//!
//! What a client sees once in a thousand transactions under faults, and never on an ordinary
//! working day, it sees all the time here: commits of unknown fate, landed or not; versions that
//! are too old; short range reads; late watches; lagging storage servers. No error is simply
//! injected into the client at random. Instead the causes are made frequent, at the moments that
//! matter:
//!
//! * a commit proxy loses the connection to a client when its commit has just arrived, or when it
//!   has just become durable;
//! * now and then a commit proxy dies at such a moment, and a recovery decides what it left behind;
//! * versions live for a second, and commit batches are rejected as too old;
//! * storage servers cut their replies to ranges, answer watches late, and lose contact with their
//!   log for a moment;
//! * the client forgets where shards are, and returns fewer rows than it has.
//!
//! All of it stops when faults stop.

use crate::knobs::Knobs;

/// How often a commit that has just arrived is lost with its connection.
pub(crate) const LOSE_COMMIT: f64 = 0.03;
/// How often the answer to a commit that is durable is lost with its connection.
pub(crate) const LOSE_COMMIT_REPLY: f64 = 0.03;
/// How often a commit proxy dies before it writes a batch to the logs, and after.
pub(crate) const KILL_PROXY: f64 = 0.001;
/// How often a batch is rejected as too old.
pub(crate) const BATCH_TOO_OLD: f64 = 0.03;
/// How often a commit that depends on reads meets a rival; only where a program is the only client.
pub(crate) const RIVAL: f64 = 0.03;
/// How often a storage server loses contact with its log after an update, and for how many seconds
/// at most.
pub(crate) const STORAGE_LAGS: (f64, f64) = (0.003, 2.5);
/// How often a watch that fires is answered late, and by how many seconds at most.
pub(crate) const WATCH_LATE: (f64, f64) = (0.5, 5.0);

/// The buggify sites that are active in every run.
pub(crate) const SITES: &[&str] = &[
    "client shortens a range read",
    "commit proxy rejects a batch as too old",
    "storage server limits the bytes of a range read",
];

/// Knobs as buggify might draw them, all at once.
pub(crate) fn set_knobs(knobs: &mut Knobs) {
    knobs.max_read_transaction_life_versions = 1_000_000;
    knobs.max_write_transaction_life_versions = 1_000_000;
    knobs.location_cache_eviction_size_sim = 3;
    knobs.watch_timeout = 20.0;
    knobs.buggify_limit_bytes = 200;
}
