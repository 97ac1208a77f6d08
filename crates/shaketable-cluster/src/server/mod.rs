//! The servers of a cluster, one file per role.
//!
//! Each role is a handful of tasks on a process; roles communicate through the messages of
//! `messages` and in no other way. A generation of the transaction system is a `sequencer`,
//! `grv_proxy`s, `commit_proxy`s, `resolver`s and `log`s that began together and end together;
//! `storage` servers outlive it. The `controller` watches over the generation and begins the next
//! one with a `recovery`; the `coordinator`s remember which one counts. The data distributor, which
//! keeps every shard whole, is also a client of the database and has its own module outside this
//! one.
//!
//! An idle cluster does nothing: there are no heartbeats and no polling loops. Everything is driven
//! by a request, by a timer that a request has set, or by the kernel's notice that a process has
//! failed.

pub(crate) mod commit_proxy;
pub(crate) mod config;
pub(crate) mod conflict_set;
pub(crate) mod controller;
pub(crate) mod coordinator;
pub(crate) mod disk_queue;
pub(crate) mod distribution;
pub(crate) mod election;
pub(crate) mod env;
pub(crate) mod grv_proxy;
mod key_map;
pub mod layout;
pub(crate) mod log;
pub(crate) mod messages;
pub(crate) mod metadata;
mod range_map;
pub(crate) mod recovery;
pub(crate) mod resolver;
pub(crate) mod role;
pub(crate) mod sequencer;
mod small_key;
pub(crate) mod storage;
pub mod versioned_map;
pub(crate) mod worker;
