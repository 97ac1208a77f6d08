//! The future that every asynchronous operation of a transaction returns.
//!
//! FoundationDB's client is eager: an operation runs from the moment of the call, whether or not
//! its future is polled, and a read goes on (and adds its conflict range) after the caller has
//! dropped it. So a [`Pending`] is not the operation but the place where its result appears, a
//! [`Completion`]. It can be awaited like any future, or given a callback with [`Pending::then`],
//! which saves a caller that only forwards the result a task of its own.
//!
//! Operations that do stop when their result is no longer wanted (watches, `on_error`) tie their
//! task to the [`Pending`] as a guard, which is dropped together with it.

use crate::error::Error;
use shaketable_kernel::Completion;
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The result of an operation, now or later.
pub struct Pending<T> {
    place: Rc<Place<T>>,
    guard: Option<Box<dyn Any>>,
}

/// Keeps alive an operation whose result goes to a callback. Dropping it drops the callback.
pub struct Subscription {
    place: Rc<dyn Forget>,
    _guard: Option<Box<dyn Any>>,
}

/// Where the operation leaves its result.
pub(crate) struct Promise<T>(Rc<Place<T>>);

/// A result that several operations wait for.
pub(crate) type Shared<T> = shaketable_kernel::Shared<Result<T, Error>>;

type Place<T> = Completion<Result<T, Error>>;

impl<T: 'static> Pending<T> {
    /// A result that is known at once.
    pub(crate) fn ready(result: Result<T, Error>) -> Self {
        Pending {
            place: Rc::new(Completion::ready(result)),
            guard: None,
        }
    }

    /// An empty place and the promise that fills it.
    pub(crate) fn new() -> (Promise<T>, Self) {
        let place = Rc::new(Completion::new());
        let promise = Promise(place.clone());
        (promise, Pending { place, guard: None })
    }

    /// Ties a guard to the lifetime of this future; a task tied to it ends with it.
    pub(crate) fn guarded_by(mut self, guard: impl Any) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }

    /// Whether the result is there.
    pub fn is_ready(&self) -> bool {
        self.place.is_done()
    }

    /// Calls `callback` with the result: at once if it is there, otherwise as soon as it is, on the
    /// kernel's thread. The caller must hold no borrow that the callback could need: the callback
    /// may call into any transaction.
    pub fn then(self, callback: impl FnOnce(Result<T, Error>) + 'static) -> Subscription {
        let Pending { place, guard } = self;
        place.then(callback);
        Subscription {
            place,
            _guard: guard,
        }
    }
}

impl<T: 'static> From<Result<T, Error>> for Pending<T> {
    fn from(result: Result<T, Error>) -> Self {
        Pending::ready(result)
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.place.poll(context)
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.place.forget();
    }
}

/// Something whose result is no longer wanted.
trait Forget {
    fn forget(&self);
}

impl<T> Forget for Place<T> {
    fn forget(&self) {
        self.close();
    }
}

/// Something that can end in an error, whatever its result would have been.
pub(crate) trait Fail {
    /// Delivers an error, unless there is already a result.
    fn fail(&self, error: Error);
}

impl<T> Fail for Place<T> {
    fn fail(&self, error: Error) {
        self.complete(Err(error));
    }
}

impl<T: 'static> Promise<T> {
    /// Returns a handle through which the operation can be ended from outside.
    pub(crate) fn to_fail(&self) -> Rc<dyn Fail> {
        self.0.clone()
    }

    /// Delivers the result. The caller must hold no borrow that a callback could need.
    pub(crate) fn send(self, result: Result<T, Error>) {
        self.0.complete(result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_callback_runs_at_once_when_the_result_is_there() {
        let seen = Rc::new(Cell::new(0));
        let target = seen.clone();
        let _subscription = Pending::ready(Ok(7)).then(move |result| target.set(result.unwrap()));
        assert_eq!(seen.get(), 7);
    }

    #[test]
    fn a_callback_runs_when_the_promise_is_kept() {
        let seen = Rc::new(Cell::new(0));
        let target = seen.clone();
        let (promise, pending) = Pending::new();
        let _subscription =
            pending.then(move |result: Result<i32, Error>| target.set(result.unwrap()));
        assert_eq!(seen.get(), 0);
        promise.send(Ok(9));
        assert_eq!(seen.get(), 9);
    }

    #[test]
    fn a_dropped_subscription_hears_nothing() {
        let seen = Rc::new(Cell::new(0));
        let target = seen.clone();
        let (promise, pending) = Pending::new();
        drop(pending.then(move |result: Result<i32, Error>| target.set(result.unwrap())));
        promise.send(Ok(9));
        assert_eq!(seen.get(), 0);
    }
}
