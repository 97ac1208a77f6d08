//! A deterministic, single-threaded kernel: virtual time, tasks, random streams, network, machines.
//!
//! One [`Kernel`] is one universe. Given a seed it does the same things in the same order, to the
//! nanosecond, on every machine: there is one thread, one clock, one order of events, and every
//! random draw comes from a named [`Stream`] that was split from the seed. Universes share nothing,
//! so any number of them may run side by side, on one thread or on several.
//!
//! The kernel knows nothing of databases. What runs on it is made of [processes](ProcessId) that
//! have addresses on machines, send one another [requests](Request), sleep, die and come back.
#![forbid(unsafe_code)]

mod clog;
mod disk;
mod failure;
mod inbox;
mod kernel;
mod network;
mod priority;
mod process;
mod random;
mod ready;
mod record;
mod request;
mod sleep;
mod sync;
mod task;
mod time;
mod timer;
mod wakeup;
mod wheel;

pub use clog::ClogMode;
pub use disk::Disk;
pub use inbox::{Inbox, spin_until};
pub use kernel::{Deadlock, Kernel, Spinning};
pub use network::NetworkConfig;
pub use priority::Priority;
pub use process::{Address, Boot, KillKind, ProcessId, ProcessSpec};
pub use random::{Digest, Sample, Stream};
pub use record::{Event, Fingerprint, LastEvents, Recorder};
pub use request::{Disconnected, Endpoint, Reply, Request, RequestStream, Requesting};
pub use sleep::Sleep;
pub use sync::{
    AsyncVar, Completion, First, FirstOf, Notified, Notify, Receiver, Sender, Shared, Waiters,
    channel, first_of,
};
pub use task::Task;
pub use time::Time;
