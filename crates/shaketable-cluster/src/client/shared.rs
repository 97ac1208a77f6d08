//! A result that several tasks wait for, and a way to wait for the first of two things.

use crate::error::Error;
use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// A place for one result; clones are the same place.
pub(crate) struct Shared<T>(Rc<RefCell<State<T>>>);

struct State<T> {
    result: Option<Result<T, Error>>,
    wakers: Vec<Waker>,
}

impl<T: Clone> Shared<T> {
    pub(crate) fn new() -> Self {
        Shared(Rc::new(RefCell::new(State {
            result: None,
            wakers: Vec::new(),
        })))
    }

    pub(crate) fn ready(result: Result<T, Error>) -> Self {
        Shared(Rc::new(RefCell::new(State {
            result: Some(result),
            wakers: Vec::new(),
        })))
    }

    /// Delivers the result. Only the first one counts.
    pub(crate) fn set(&self, result: Result<T, Error>) {
        let mut state = self.0.borrow_mut();
        if state.result.is_some() {
            return;
        }
        state.result = Some(result);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
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
            if !state
                .wakers
                .last()
                .is_some_and(|waker| waker.will_wake(context.waker()))
            {
                state.wakers.push(context.waker().clone());
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
pub(crate) async fn first_of<A: Future, B: Future>(
    left: A,
    right: B,
) -> First<A::Output, B::Output> {
    let (mut left, mut right) = (pin!(left), pin!(right));
    poll_fn(|context| {
        if let Poll::Ready(output) = left.as_mut().poll(context) {
            return Poll::Ready(First::Left(output));
        }
        right.as_mut().poll(context).map(First::Right)
    })
    .await
}
