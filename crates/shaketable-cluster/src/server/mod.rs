//! The servers of a cluster, one file per role.
//!
//! Each role is a handful of tasks on a process; roles talk by the messages of [`messages`] and in no
//! other way. A generation of the transaction system is a [`sequencer`], [`grv_proxy`]s, [`commit_proxy`]s,
//! [`resolver`]s and [`log`]s that began together and end together; [`storage`] servers live on. The
//! [`controller`] watches over the generation and, by a [`recovery`], begins the next one; the
//! [`coordinator`]s remember which one counts. The data distributor, which keeps every shard whole, is a client
//! of the database as well and lives in a room of its own.
//!
//! An idle cluster does nothing: there are no heartbeats and no polling loops. Everything is driven by a
//! request, by a timer that a request has set, or by the kernel's word that a process has failed.

pub mod commit_proxy;
pub(crate) mod config;
pub mod conflict_set;
pub mod controller;
pub mod coordinator;
pub mod disk_queue;
pub(crate) mod distribution;
pub mod election;
pub mod env;
pub mod grv_proxy;
pub mod layout;
pub mod log;
pub mod messages;
pub mod metadata;
mod range_map;
pub mod recovery;
#[cfg(test)]
mod recovery_tests;
pub mod resolver;
pub mod role;
pub mod sequencer;
mod small_key;
pub mod storage;
#[cfg(test)]
mod tests;
pub mod versioned_map;
pub mod worker;
