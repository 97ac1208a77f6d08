//! FoundationDB in miniature: enough of its architecture that every behaviour a client can see
//! *emerges* from processes and messages.
//!
//! * [`proto`] is the border: the messages that client and servers exchange, and nothing else.
//! * `data` is what client and servers both know about keys, values and mutations.
//! * [`checker`] proves from the true commit order that a run was strictly serializable.
//! * [`client`] is what a binding sees of a transaction.
//! * [`cluster`] builds and starts a cluster; [`server`] holds its roles, [`knobs`] its numbers;
//!   [`kill`] destroys parts of it, but never what it could not survive; [`faults`] are the
//!   workloads that do so, and [`saboteur`] is the power they have.
//! * [`process`] is what all of these see of the simulation: their own process.
//! * [`keeper`] is a disk outside of the simulation.
//! * [`time_keeper`] maps time to versions for clients that look there.
//! * [`truth`] says what really became of a commit.
//! * [`short`] copies keys and values; [`error`] holds FoundationDB's error codes.
//!
//! The crate knows nothing of C, of files, or of the operating system, and contains no `unsafe`
//! code.
#![forbid(unsafe_code)]

pub mod checker;
pub mod client;
pub mod cluster;
mod data;
mod distributor;
pub mod error;
pub mod faults;
mod history;
pub mod keeper;
pub mod knobs;
pub mod process;
pub mod proto;
pub mod release;
pub mod saboteur;
pub mod server;
pub mod short;
mod stress;
pub mod time_keeper;
pub mod truth;

pub use cluster::kill;
