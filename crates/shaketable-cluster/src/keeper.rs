//! A disk outside of the simulation, for a cluster whose data must survive the program.
//!
//! What a cluster calls its disk is memory: it survives the death of a simulated process and ends
//! with the program. A cluster of one process may be given a [`Keeper`]. Its log waits for the
//! keeper before it answers, so that neither the client that committed nor any other sees a change
//! that could still be lost. The next program begins with a cluster whose versions are higher
//! ([`crate::cluster::ClusterConfig::begins_after`]) and commits what the keeper has.

use crate::data::atomic;
use crate::proto::{Mutation, MutationKind, Value, Version};
use bytes::Bytes;
use std::fmt;
use std::pin::Pin;

/// Keeps changes for good.
pub trait Keeper: fmt::Debug {
    /// Keeps the changes up to a version, after all that were given before; the future ends when
    /// they cannot be lost any more. No operation with a versionstamp is among them.
    fn keep(&self, version: Version, changes: Vec<Mutation>) -> Kept;
}

/// See [`Keeper::keep`].
pub type Kept = Pin<Box<dyn Future<Output = ()>>>;

/// The value of a key after a change of it that does not clear a range; `None` if it has none.
///
/// # Panics
/// If the change clears a range.
pub fn value_after(kind: MutationKind, before: Option<&[u8]>, operand: &Bytes) -> Option<Value> {
    let before = before.map(Bytes::copy_from_slice);
    atomic::apply(kind, before.as_ref(), operand)
}
