//! A deterministic, single-threaded kernel: virtual time, tasks, random streams, network, machines.
//!
//! One [`Kernel`] is one universe. Given a seed it does the same things in the same order, to the
//! nanosecond, on every machine: there is one thread, one clock, one order of events, and every
//! random draw comes from a named [`Stream`] that was split from the seed. Universes share nothing,
//! so any number of them may run side by side, on one thread or on several.
//!
//! The kernel knows nothing about databases. What runs on it is made of [processes](ProcessId) that
//! have addresses on machines, send each other [requests](Request), sleep, die and come back.
//!
//! # A tour
//!
//! * **A universe.** [`Kernel::simulation`] has a virtual clock that jumps to the next timer,
//!   [`Kernel::real`] the clock of the machine. A [`Kernel`] is a cheap handle for one thread;
//!   [`Kernel::shutdown`] ends it.
//! * **Time.** [`Kernel::now`], [`Kernel::sleep`], [`Kernel::timeout`], [`Kernel::call_at`]. A
//!   [`Time`] is whole nanoseconds; durations are seconds.
//! * **Tasks.** [`Kernel::spawn`] starts a [`Task`] of a process at a [`Priority`]; dropping it
//!   cancels. One that nothing waits for is a [`Job`]: [`Kernel::start`]. Tasks wait for one
//!   another with [`Completion`], [`Shared`], [`channel`], [`Notify`], [`AsyncVar`] and
//!   [`first_of`].
//! * **Chance.** [`Kernel::stream`] returns the random [`Stream`] of a name.
//! * **Processes.** [`Kernel::add_process`], [`Kernel::set_boot`], [`Kernel::boot`],
//!   [`Kernel::kill`], [`Kernel::reboot`]; what survives is on [`Kernel::disk`].
//! * **Messages.** [`Kernel::listen`] and [`Kernel::listen_well_known`] open a [`RequestStream`];
//!   an [`Endpoint`] leads there; each [`Request`] ends with its [`Reply`] or [`Disconnected`].
//! * **Failures.** [`Kernel::on_failed`] and [`Kernel::on_available`] report what one process knows
//!   about another.
//! * **Faults.** [`Kernel::clog_pair`], [`Kernel::clog_interface`], [`Kernel::partition`],
//!   [`Kernel::close_connection`], [`Kernel::set_connection_failures`],
//!   [`Kernel::set_faults_enabled`].
//! * **The loop.** [`Kernel::run_ready`], [`Kernel::advance`] and [`Kernel::run_until`] for hosts,
//!   [`Kernel::block_on`] for tests, [`Kernel::run_real`] for a network thread. Other threads enter
//!   through an [`Inbox`], and what comes from other programs through an [`Outside`].
//! * **Decisions.** What chance decides has a name: [`Kernel::decide`], [`Kernel::list_decisions`],
//!   [`Kernel::set_overrides`].
//! * **Observing.** [`Kernel::record`] and [`Recorder`]; [`Kernel::fingerprint`] distinguishes
//!   runs.
//!
//! ```
//! use shaketable_kernel::{Address, Kernel, Priority, ProcessSpec, Reply, Request};
//!
//! struct Double(u32);
//! impl Request for Double {
//!     type Reply = u32;
//! }
//!
//! let kernel = Kernel::simulation(42);
//! let process = |last, name: &str| {
//!     kernel.add_process(ProcessSpec {
//!         name: name.into(),
//!         address: Address::v4(10, 0, 0, last, 4500),
//!         ..ProcessSpec::default()
//!     })
//! };
//! let (client, server) = (process(1, "client"), process(2, "server"));
//! let (endpoint, requests) = kernel.listen::<Double>(server);
//! let double = |Double(n), reply: Reply<u32>| reply.send(2 * n);
//! let _serving = requests.serve(Priority::DefaultEndpoint, double);
//!
//! let reply = kernel.block_on(endpoint.request(client, Double(21)));
//! assert_eq!(reply, Ok(Ok(42)));
//! assert!(kernel.now().as_secs() > 0.0, "messages take their time");
//! kernel.shutdown();
//! ```
#![forbid(unsafe_code)]

mod clog;
mod crowd;
mod decision;
mod disk;
mod failure;
mod inbox;
mod kernel;
mod network;
mod outside;
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
pub use crowd::look_for;
pub use decision::{Decision, DecisionName, Forced, Overrides, Reseed};
pub use disk::Disk;
pub use inbox::Inbox;
pub use kernel::{Deadlock, Kernel, Spinning};
pub use network::NetworkConfig;
pub use outside::Outside;
pub use priority::Priority;
pub use process::{Address, Boot, KillKind, ProcessId, ProcessSpec};
pub use random::{Digest, Sample, Stream};
pub use record::{Event, FaultCounts, Fingerprint, LastEvents, Recorder};
pub use request::{Disconnected, Endpoint, Reply, Request, RequestStream, Requesting, Serving};
pub use sleep::Sleep;
pub use sync::{
    AsyncVar, Completion, First, FirstOf, Notified, Notify, Receiver, Sender, Shared, Waiters,
    channel, first_of,
};
pub use task::{Job, Task};
pub use time::Time;
