//! How a result of the client becomes the result of an `FDBFuture`.
//!
//! The client's operations are eager and deliver to a callback, so that nothing needs a task of its
//! own here: the callback completes the future. What must be kept is the subscription, because
//! dropping it is how an operation is given up: it is one of the universe's objects, under the
//! number that the future knows.

use crate::coverage::Counted;
use crate::future::FDBFuture;
use crate::outstanding::{Kept, Outstanding};
use crate::recorder::Asked;
use crate::universe::Slot;
use crate::value::Value;
use shaketable_cluster::client::{Pending, Subscription};
use shaketable_cluster::error::Error;
use shaketable_kernel::Task;
use std::sync::Arc;

/// What works for a future and ends when it is dropped.
pub(crate) enum Operation {
    /// An operation of the client.
    Client(#[expect(dead_code, reason = "dropping it ends the operation")] Subscription),
    /// A task of the host.
    Task(#[expect(dead_code, reason = "dropping it ends the task")] Task<()>),
}

/// Completes `future` with the result of `pending`, now or later. Runs on the kernel's thread.
pub(crate) fn follow<T: 'static>(
    future: Arc<FDBFuture>,
    outstanding: Outstanding,
    (asked, counted): (Option<Asked>, Option<Counted>),
    pending: Pending<T>,
    wrap: impl FnOnce(T) -> Value + 'static,
) {
    let (promise, answered) = (future.clone(), asked.clone());
    let ended = counted.clone();
    let subscription = pending.then(move |result| {
        let outcome = result.map(wrap);
        if let Some(asked) = answered {
            asked.answer(&outcome, promise.universe.as_deref());
        }
        if let (Some(counted), Some(universe)) = (ended, &promise.universe) {
            universe.objects(|objects| objects.coverage.end(counted, &outcome));
        }
        finish(&promise, outcome);
    });
    let seen = (asked, counted);
    keep(&future, outstanding, seen, Operation::Client(subscription));
}

/// Remembers what works for `future`, unless it is ready already. Runs on the kernel's thread.
pub(crate) fn keep(
    future: &FDBFuture,
    outstanding: Outstanding,
    (asked, counted): (Option<Asked>, Option<Counted>),
    operation: Operation,
) {
    if future.is_ready() {
        return;
    }
    if let Some(universe) = &future.universe {
        let kept = Box::new(Kept {
            outstanding,
            operation,
            asked,
            counted,
        });
        if let Some(number) = universe.add_operation(kept) {
            future.operation.set(number);
        }
    }
}

/// Completes `future` and forgets what worked for it. Runs on the kernel's thread.
pub(crate) fn finish(future: &Arc<FDBFuture>, outcome: Result<Value, Error>) {
    let done = take(future);
    if let (Ok(_), Some(done), Some(universe)) = (&outcome, &done, &future.universe) {
        universe.objects(|objects| objects.progress.note(&done.outstanding));
    }
    if let (Err(error), Some(universe)) = (&outcome, &future.universe) {
        let observer = universe.objects(|objects| {
            *objects.errors.entry(error.0).or_default() += 1;
            objects.error_observer.clone()
        });
        if let Some(observer) = observer.flatten() {
            observer(*error);
        }
    }
    future.complete(outcome);
    drop(done);
}

/// Gives up what works for `future`, which then fails with 1101. Runs on the kernel's thread.
pub(crate) fn cancel(future: &Arc<FDBFuture>) {
    if future.is_ready() {
        return;
    }
    let given_up = take(future);
    if let Some(asked) = given_up.as_ref().and_then(|kept| kept.asked.as_ref()) {
        asked.drop_future();
    }
    let counted = given_up.as_ref().and_then(|kept| kept.counted.clone());
    if let (Some(counted), Some(universe)) = (counted, &future.universe) {
        let outcome = Err(Error::OPERATION_CANCELLED);
        universe.objects(|objects| objects.coverage.end(counted, &outcome));
    }
    drop(given_up);
    future.complete(Err(Error::OPERATION_CANCELLED));
}

fn take(future: &FDBFuture) -> Option<Box<Kept>> {
    let number = future.operation.take();
    if number == Slot::EMPTY {
        return None;
    }
    future.universe.as_ref()?.take_operation(number)
}
