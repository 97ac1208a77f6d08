//! A request under way, as its two sides see it: [`Requesting`] waits for the outcome, [`Reply`]
//! produces it. The first outcome counts, because a broken connection or a death may come before
//! the reply.

use super::Disconnected;
use crate::kernel::{Kernel, WeakKernel};
use crate::network::{Delivery, LinkId, Parcel};
use crate::process::ProcessId;
use crate::sync::Completion;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The pending side of [`crate::Endpoint::request`].
#[must_use = "dropping this forgets the request"]
pub struct Requesting<R>(pub(super) Rc<Pending<R>>);

impl<R> Future for Requesting<R> {
    type Output = Result<R, Disconnected>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.outcome.poll(cx)
    }
}

impl<R> Drop for Requesting<R> {
    fn drop(&mut self) {
        self.0.unregister();
        self.0.outcome.close();
    }
}

impl<R> fmt::Debug for Requesting<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LinkId { from, to } = self.0.link;
        write!(f, "Requesting({from:?} -> {to:?})")
    }
}

/// Answers one request. If it is dropped unused, the request ends with `MaybeDelivered`.
#[must_use = "dropping a reply unused tells the requester that its request may have been processed"]
pub struct Reply<R: 'static> {
    link: LinkId,
    /// None if nothing waits for the answer.
    pending: Option<Rc<Pending<R>>>,
    answered: bool,
}

impl<R: 'static> Reply<R> {
    pub(super) fn new(pending: Rc<Pending<R>>) -> Reply<R> {
        Reply {
            link: pending.link,
            pending: Some(pending),
            answered: false,
        }
    }

    /// For a request whose outcome does not matter.
    pub(super) fn unwanted(link: LinkId) -> Reply<R> {
        Reply {
            link,
            pending: None,
            answered: false,
        }
    }

    /// Sends the answer, unless the process that took the request has died since.
    pub fn send(mut self, value: R) {
        if self.receiver_lives() {
            self.answer(Ok(value));
        }
    }

    /// The process that asks.
    pub fn from(&self) -> ProcessId {
        self.link.from
    }

    pub(super) fn link(&self) -> LinkId {
        self.link
    }

    /// Whether the answer is no longer wanted.
    pub fn is_closed(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.is_none_or(|pending| !pending.outcome.is_awaited())
    }

    /// Ends the request with `Refused`: it was certainly not processed.
    pub(super) fn refuse(mut self) {
        self.answer(Err(Disconnected::Refused));
    }

    fn answer(&mut self, result: Result<R, Disconnected>) {
        let before = std::mem::replace(&mut self.answered, true);
        assert!(!before, "a request is answered at most once");
        let awaited = self.pending.take();
        let Some(pending) = awaited.filter(|pending| pending.outcome.is_awaited()) else {
            return;
        };
        let Some(kernel) = pending.kernel.upgrade() else {
            return;
        };
        let LinkId { from, to } = self.link;
        let parcel = ReplyParcel { pending, result };
        kernel.ship(to, from, std::any::type_name::<R>(), Box::new(parcel));
    }

    /// Records that the request has reached a stream of this incarnation of its receiver.
    pub(super) fn received_by(&self, incarnation: u32) {
        if let Some(pending) = &self.pending {
            pending.incarnation.set(incarnation);
        }
    }

    /// Whether the process that took the request is still in the same incarnation; nobody wants to
    /// know if nothing waits for the answer.
    fn receiver_lives(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| {
            let kernel = pending.kernel.upgrade();
            kernel.is_some_and(|kernel| kernel.lives(self.link.to, pending.incarnation.get()))
        })
    }

    /// What becomes of the request when its connection breaks.
    pub(super) fn delivery(&self) -> Delivery {
        let pending = self.pending.as_ref();
        pending.map_or(Delivery::AtMostOnce, |pending| pending.delivery())
    }
}

impl<R: 'static> Drop for Reply<R> {
    fn drop(&mut self) {
        // The death of a process ends the requests to it by itself.
        if !self.answered && self.receiver_lives() {
            self.answer(Err(Disconnected::MaybeDelivered));
        }
    }
}

impl<R: 'static> fmt::Debug for Reply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LinkId { from, to } = self.link;
        write!(f, "Reply({to:?} -> {from:?})")
    }
}

/// A request that can be notified that its connection is lost.
pub(crate) trait PendingRequest {
    fn incarnation(&self) -> u32;
    fn is_reliable(&self) -> bool;
    fn disconnect(&self);
}

/// A request until it has its outcome.
pub(super) struct Pending<R> {
    kernel: WeakKernel,
    link: LinkId,
    reliable: bool,
    /// The incarnation of the receiver, as far as known.
    incarnation: Cell<u32>,
    /// Its place among the requests pending over the link.
    slot: Cell<Option<u32>>,
    /// Whether the reply has arrived.
    replied: Cell<bool>,
    outcome: Completion<Result<R, Disconnected>>,
}

impl<R: 'static> Pending<R> {
    /// Registers a request with its link, so that it learns when its connection is lost. There is
    /// no connection between a process and itself.
    pub(super) fn register(self: &Rc<Self>, kernel: &Kernel) {
        if self.link.from != self.link.to {
            let mut network = kernel.0.network.borrow_mut();
            let slot = network.register(self.link, self.clone());
            self.slot.set(Some(slot));
        }
    }
}

impl<R> Pending<R> {
    pub(super) fn new(
        kernel: WeakKernel,
        link: LinkId,
        reliable: bool,
        incarnation: u32,
    ) -> Rc<Pending<R>> {
        Rc::new(Pending {
            kernel,
            link,
            reliable,
            incarnation: Cell::new(incarnation),
            slot: Cell::new(None),
            replied: Cell::new(false),
            outcome: Completion::new(),
        })
    }

    pub(super) fn link(&self) -> LinkId {
        self.link
    }

    fn delivery(&self) -> Delivery {
        if self.reliable {
            Delivery::Reliable
        } else {
            Delivery::AtMostOnce
        }
    }

    /// Completes the request. The first outcome counts; later ones are dropped.
    pub(super) fn complete(&self, result: Result<R, Disconnected>) {
        if self.outcome.complete(result) {
            self.unregister();
        }
    }

    fn unregister(&self) {
        if let Some(slot) = self.slot.take()
            && let Some(kernel) = self.kernel.upgrade()
        {
            let request = kernel.0.network.borrow_mut().unregister(self.link, slot);
            drop(request);
        }
    }
}

impl<R> PendingRequest for Pending<R> {
    fn incarnation(&self) -> u32 {
        self.incarnation.get()
    }

    fn is_reliable(&self) -> bool {
        self.reliable
    }

    fn disconnect(&self) {
        self.complete(Err(Disconnected::MaybeDelivered));
    }
}

struct ReplyParcel<R> {
    pending: Rc<Pending<R>>,
    result: Result<R, Disconnected>,
}

impl<R: 'static> Parcel for ReplyParcel<R> {
    fn arrive(self: Box<Self>, _: &Kernel, _: bool) {
        let before = self.pending.replied.replace(true);
        assert!(!before, "a reply arrives at most once");
        self.pending.complete(self.result);
    }

    fn delivery(&self) -> Delivery {
        self.pending.delivery()
    }
}
