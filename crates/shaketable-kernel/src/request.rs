//! Requests and replies: the only way processes talk to one another.
//!
//! A message is a plain Rust value and may carry endpoints. A request is sent when
//! [`Endpoint::request`] is called, not when its future is first polled, and ends in exactly one
//! way: with its reply, `Refused`, or `MaybeDelivered`. Dropping the future forgets the request on
//! this side; the receiver may still serve it.
//!
//! Most servers answer each request by itself, in the order they arrive: [`RequestStream::serve`].
//! A message from another process is then handled as soon as it is due, without waking a task for
//! it, which saves half of what a message costs. A message that a process sends to itself, or over
//! a network without latency, arrives while its sender is still running; it waits its turn in the
//! queue.
//!
//! The three parts have a file each: [`endpoint`] sends, [`stream`] receives, and [`pending`] is
//! what both share about a request until it has its outcome.

mod endpoint;
mod pending;
mod stream;

pub use endpoint::Endpoint;
pub(crate) use endpoint::Place;
pub(crate) use pending::Pending;
pub use pending::{Reply, Requesting};
pub(crate) use stream::{Contents, Core};
pub use stream::{RequestStream, Serving};

/// A message that wants an answer.
pub trait Request: 'static {
    /// The answer.
    type Reply: 'static;
}

/// Why a request has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disconnected {
    /// The receiver was dead or had stopped listening: it has certainly not processed the request.
    #[error("the receiver is dead or does not listen; the request was not processed")]
    Refused,
    /// The connection broke, the receiver died, or it dropped the reply: it may have processed the
    /// request.
    #[error("the connection to the receiver was lost; the request may have been processed")]
    MaybeDelivered,
}
