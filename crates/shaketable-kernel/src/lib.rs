//! A deterministic, single-threaded kernel: virtual time, tasks, random streams, network, machines.
#![forbid(unsafe_code)]

use std::marker::PhantomData;

/// A message that wants an answer.
pub trait Request: 'static {
    /// The answer.
    type Reply: 'static;
}

/// Where requests of one kind can be sent.
#[derive(Debug)]
pub struct Endpoint<Q>(PhantomData<fn(Q)>);

impl<Q> Clone for Endpoint<Q> {
    fn clone(&self) -> Self {
        Endpoint(PhantomData)
    }
}
