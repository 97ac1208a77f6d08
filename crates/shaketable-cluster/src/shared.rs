//! A result that several tasks wait for, and a way to wait for the first of two things.

use crate::error::Error;
use pin_project_lite::pin_project;
use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A place for one result; clones are the same place.
pub(crate) struct Shared<T>(Rc<RefCell<State<T>>>);

struct State<T> {
    result: Option<Result<T, Error>>,
    /// Most results are waited for by one task, which therefore needs no allocation.
    first_waker: Option<Waker>,
    more_wakers: Vec<Waker>,
}

impl<T> State<T> {
    fn new(result: Option<Result<T, Error>>) -> Self {
        State {
            result,
            first_waker: None,
            more_wakers: Vec::new(),
        }
    }
}

impl<T: Clone> Shared<T> {
    pub(crate) fn new() -> Self {
        Shared(Rc::new(RefCell::new(State::new(None))))
    }

    pub(crate) fn ready(result: Result<T, Error>) -> Self {
        Shared(Rc::new(RefCell::new(State::new(Some(result)))))
    }

    /// Delivers the result. Only the first one counts.
    pub(crate) fn set(&self, result: Result<T, Error>) {
        let mut state = self.0.borrow_mut();
        if state.result.is_some() {
            return;
        }
        state.result = Some(result);
        let first = state.first_waker.take();
        let more = std::mem::take(&mut state.more_wakers);
        drop(state);
        first.into_iter().chain(more).for_each(Waker::wake);
    }

    pub(crate) fn peek(&self) -> Option<Result<T, Error>> {
        self.0.borrow().result.clone()
    }

    pub(crate) async fn wait(&self) -> Result<T, Error> {
        poll_fn(|context| {
            let mut state = self.0.borrow_mut();
            if let Some(result) = &state.result {
                return Poll::Ready(result.clone());
            }
            let newest = state.more_wakers.last().or(state.first_waker.as_ref());
            match newest {
                Some(waker) if waker.will_wake(context.waker()) => {}
                Some(_) => state.more_wakers.push(context.waker().clone()),
                None => state.first_waker = Some(context.waker().clone()),
            }
            Poll::Pending
        })
        .await
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// Which of two futures ended first.
pub(crate) enum First<A, B> {
    Left(A),
    Right(B),
}

/// Waits for the first of two futures and drops the other. If both are ready the left one wins.
pub(crate) fn first_of<A: Future, B: Future>(left: A, right: B) -> FirstOf<A, B> {
    FirstOf { left, right }
}

pin_project! {
    /// See [`first_of`]. No `async` block, which would keep room for both futures twice.
    #[must_use = "nothing is waited for until this is awaited"]
    pub(crate) struct FirstOf<A, B> {
        #[pin]
        left: A,
        #[pin]
        right: B,
    }
}

impl<A: Future, B: Future> Future for FirstOf<A, B> {
    type Output = First<A::Output, B::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.left.poll(context) {
            Poll::Ready(output) => Poll::Ready(First::Left(output)),
            Poll::Pending => this.right.poll(context).map(First::Right),
        }
    }
}
