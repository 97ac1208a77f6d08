//! A request under way, as its two sides see it: [`Requesting`] waits for the outcome, [`Reply`]
//! produces it. The first outcome counts, because a broken connection or a death may come before
//! the reply.
//!
//! Both sides share a [`Pending`], and the answer travels in it: nothing is allocated for it, and
//! nothing moves when it arrives. What happens to a request is the same whatever its answer is, so
//! it is written for a [`Course`], which does not depend on the type. A simulation runs through so
//! much code that it waits for it; each message between two types would otherwise bring its own
//! copy.

use super::Disconnected;
use crate::kernel::{Kernel, WeakKernel};
use crate::network::{Delivery, LinkId, Parcel};
use crate::process::ProcessId;
use crate::wakeup::{self, Wakeup};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The pending side of [`crate::Endpoint::request`].
#[must_use = "dropping this forgets the request"]
pub struct Requesting<R>(pub(super) Rc<Pending<Answer<R>>>);

impl<R> Future for Requesting<R> {
    type Output = Result<R, Disconnected>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = std::task::ready!(self.0.course.poll(cx));
        Poll::Ready(outcome.map(|()| {
            let answer = self.0.answer.take();
            answer.expect("an answer that has arrived is there")
        }))
    }
}

impl<R> Drop for Requesting<R> {
    fn drop(&mut self) {
        if self.0.course.close() {
            drop(self.0.answer.take());
        }
    }
}

impl<R> fmt::Debug for Requesting<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LinkId { from, to } = self.0.course.link;
        write!(f, "Requesting({from:?} -> {to:?})")
    }
}

/// Answers one request. If it is dropped unused, the request ends with `MaybeDelivered`.
#[must_use = "dropping a reply unused tells the requester that its request may have been processed"]
pub struct Reply<R: 'static> {
    link: LinkId,
    /// None once it is answered, or if nothing waits for the answer.
    pending: Option<Rc<Pending<Answer<R>>>>,
}

impl<R: 'static> Reply<R> {
    pub(super) fn new(pending: Rc<Pending<Answer<R>>>) -> Reply<R> {
        Reply {
            link: pending.course.link,
            pending: Some(pending),
        }
    }

    /// For a request whose outcome does not matter.
    pub(super) fn unwanted(link: LinkId) -> Reply<R> {
        Reply {
            link,
            pending: None,
        }
    }

    /// Sends the answer, unless the process that took the request has died since.
    pub fn send(mut self, value: R) {
        if let Some(pending) = self.pending.take()
            && let Some(kernel) = pending.course.kernel_to_answer()
        {
            pending.answer.replace(Some(value));
            answer(pending, &kernel, std::any::type_name::<R>(), Ok(()));
        }
    }

    /// The process that asks.
    pub fn from(&self) -> ProcessId {
        self.link.from
    }

    /// Whether the answer is no longer wanted.
    pub fn is_closed(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.is_none_or(|pending| !pending.course.is_awaited())
    }

    /// Ends the request with `Refused`: it was certainly not processed.
    pub(super) fn refuse(mut self) {
        if let Some(pending) = self.pending.take()
            && pending.course.is_awaited()
            && let Some(kernel) = pending.course.kernel.upgrade()
        {
            let refused = Err(Disconnected::Refused);
            answer(pending, &kernel, std::any::type_name::<R>(), refused);
        }
    }

    /// Records that the request has reached a stream of this incarnation of its receiver.
    #[inline]
    pub(super) fn received_by(&self, incarnation: u32) {
        if let Some(pending) = &self.pending {
            pending.course.incarnation.set(incarnation);
        }
    }
}

impl<R: 'static> Drop for Reply<R> {
    #[inline]
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            give_up(pending, std::any::type_name::<R>());
        }
    }
}

impl<R: 'static> fmt::Debug for Reply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LinkId { from, to } = self.link;
        write!(f, "Reply({to:?} -> {from:?})")
    }
}

/// The end of a request that was not answered. The death of a process ends the requests to it by
/// itself.
fn give_up(pending: Rc<Pending>, name: &'static str) {
    if let Some(kernel) = pending.course.kernel_to_answer() {
        let lost = Err(Disconnected::MaybeDelivered);
        answer(pending, &kernel, name, lost);
    }
}

/// Sends how a request ends; if it ends well, its answer is in its place.
fn answer(
    pending: Rc<Pending>,
    kernel: &Kernel,
    name: &'static str,
    outcome: Result<(), Disconnected>,
) {
    let course = &pending.course;
    let before = course.under_way.replace(Some(outcome));
    assert!(before.is_none(), "a request is answered at most once");
    let (way, delivery) = (course.link.back(), course.delivery);
    kernel.ship(way, name, Parcel::Answer(pending), delivery);
}

/// A request until it has its outcome, and its answer, which may still be under way.
pub(crate) struct Pending<A: ?Sized = dyn Forget> {
    course: Course,
    answer: A,
}

/// The place for an answer.
pub(super) type Answer<R> = RefCell<Option<R>>;

/// What can be done with an answer of any type.
pub(crate) trait Forget {
    fn forget(&self);
}

impl<R> Forget for Answer<R> {
    fn forget(&self) {
        drop(self.take());
    }
}

/// What the network and both sides know about a request, whatever its answer is.
pub(super) struct Course {
    kernel: WeakKernel,
    link: LinkId,
    delivery: Delivery,
    /// The incarnation of the receiver, as far as known.
    incarnation: Cell<u32>,
    /// Its place among the requests pending over the link.
    slot: Cell<Option<u32>>,
    /// How the reply ends the request that is under way.
    under_way: Cell<Option<Result<(), Disconnected>>>,
    state: RefCell<State>,
}

enum State {
    Awaited(Option<Wakeup>),
    /// If it ended well, the answer is in its place.
    Done(Result<(), Disconnected>),
    /// The outcome was handed out, or is not wanted.
    Over,
}

impl<R> Pending<Answer<R>> {
    pub(super) fn new(course: Course) -> Rc<Pending<Answer<R>>> {
        Rc::new(Pending {
            course,
            answer: RefCell::new(None),
        })
    }
}

impl Pending {
    /// The incarnation of the receiver, as far as known.
    pub(crate) fn incarnation(&self) -> u32 {
        self.course.incarnation.get()
    }

    pub(crate) fn is_reliable(&self) -> bool {
        self.course.delivery == Delivery::Reliable
    }

    /// Records its place among the requests pending over its link.
    #[inline]
    pub(crate) fn registered(&self, slot: u32) {
        self.course.slot.set(Some(slot));
    }

    /// The connection was lost.
    pub(crate) fn disconnect(&self, kernel: &Kernel) {
        self.course
            .complete(kernel, Err(Disconnected::MaybeDelivered));
    }

    /// The reply has arrived.
    pub(crate) fn arrive(&self, kernel: &Kernel) {
        let outcome = self.course.under_way.take();
        let outcome = outcome.expect("a reply arrives at most once");
        if !self.course.complete(kernel, outcome) {
            self.answer.forget();
        }
    }
}

impl Course {
    pub(super) fn new(
        kernel: WeakKernel,
        link: LinkId,
        delivery: Delivery,
        incarnation: u32,
    ) -> Course {
        Course {
            kernel,
            link,
            delivery,
            incarnation: Cell::new(incarnation),
            slot: Cell::new(None),
            under_way: Cell::new(None),
            state: RefCell::new(State::Awaited(None)),
        }
    }

    /// One that is over before it began.
    pub(super) fn refused(mut self) -> Course {
        *self.state.get_mut() = State::Done(Err(Disconnected::Refused));
        self
    }

    fn is_awaited(&self) -> bool {
        matches!(*self.state.borrow(), State::Awaited(_))
    }

    /// The kernel, if an answer is awaited and the process that took the request is still in the
    /// same incarnation.
    fn kernel_to_answer(&self) -> Option<Kernel> {
        let kernel = self.kernel.upgrade()?;
        let lives = kernel.lives(self.link.to, self.incarnation.get());
        (lives && self.is_awaited()).then_some(kernel)
    }

    /// Takes the outcome, or remembers which task to wake when it is there.
    fn poll(&self, cx: &Context<'_>) -> Poll<Result<(), Disconnected>> {
        let mut state = self.state.borrow_mut();
        match &mut *state {
            State::Awaited(wakeup) => {
                wakeup::remember(wakeup, cx);
                Poll::Pending
            }
            State::Done(outcome) => {
                let outcome = *outcome;
                *state = State::Over;
                Poll::Ready(outcome)
            }
            State::Over => panic!("polled after its result was given away"),
        }
    }

    /// Completes the request. The first outcome counts; returns whether this is it.
    fn complete(&self, kernel: &Kernel, outcome: Result<(), Disconnected>) -> bool {
        let wakeup = {
            let mut state = self.state.borrow_mut();
            let State::Awaited(wakeup) = &mut *state else {
                return false;
            };
            let wakeup = wakeup.take();
            *state = State::Done(outcome);
            wakeup
        };
        if let Some(wakeup) = wakeup {
            kernel.0.ready.wake_up(wakeup);
        }
        if let Some(slot) = self.slot.take() {
            self.unregister(kernel, slot);
        }
        true
    }

    /// The outcome is no longer wanted. Returns whether an answer is left, which is then dropped.
    fn close(&self) -> bool {
        // Usually it was complete before.
        if let Some(slot) = self.slot.take()
            && let Some(kernel) = self.kernel.upgrade()
        {
            self.unregister(&kernel, slot);
        }
        let before = self.state.replace(State::Over);
        matches!(before, State::Done(Ok(())))
    }

    fn unregister(&self, kernel: &Kernel, slot: u32) {
        let request = kernel.0.network.borrow_mut().unregister(self.link, slot);
        drop(request);
    }
}
