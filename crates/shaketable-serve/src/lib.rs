//! One embedded FoundationDB for several processes, over a Unix socket.
//!
//! The *server* is a process that runs a cluster on the machine's clock. A *program* has the same
//! client inside as always, on a kernel of its own; where its servers would be there is a [`Gate`],
//! which forwards exactly the requests of `shaketable_cluster::proto` and brings the answers back.
//! So a shared database behaves like one inside the program, and a connection that breaks is what
//! it is in life: a commit on its way ends with 1021, everything else waits for the server's
//! return. A client that dies loses its own transactions and nothing else.
#![forbid(unsafe_code)]

mod connection;
#[cfg(feature = "server")]
mod durable;
pub mod embedded;
mod faults;
mod gate;
pub mod messages;
pub mod place;
mod poller;
#[cfg(feature = "server")]
mod server;
pub mod wire;

#[cfg(feature = "server")]
pub use durable::StoreError;
pub use faults::{BadVariable, Faults, Level};
pub use gate::{Gate, NoServer, probe};
pub use place::Place;
pub use poller::Poller;
#[cfg(feature = "server")]
pub use server::{ServeError, Settings, Stop, run};
