//! The join handle's hold on its task.

use super::cell::take_output;
use super::references::retain;
use super::{DONE, Failure, Header, JOINABLE, JoinError, TaskRef, queue};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// The join handle's side: not counted, home thread only, gone before the task.
pub(in crate::executor) struct Joint<T> {
    header: NonNull<Header>,
    take: unsafe fn(NonNull<Header>) -> Option<Result<T, JoinError>>,
}

impl<T> Joint<T> {
    /// The one joint of a task made with `join`.
    pub(in crate::executor) fn new<F>(task: &TaskRef) -> Self
    where
        F: Future<Output = T> + 'static,
    {
        debug_assert!(task.header().flags.get() & JOINABLE != 0);
        Joint {
            header: task.0,
            take: take_output::<F>,
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: JOINABLE keeps the allocation alive until this joint is dropped.
        unsafe { self.header.as_ref() }
    }

    pub(in crate::executor) fn is_done(&self) -> bool {
        self.header().flags.get() & DONE != 0
    }

    /// The output, once; `None` while the task runs.
    pub(in crate::executor) fn poll(&self, context: &Context<'_>) -> Poll<Result<T, JoinError>> {
        if self.is_done() {
            // SAFETY: done, so nothing else uses the content; `take` fits the future by
            // construction.
            let output = unsafe { (self.take)(self.header) };
            return Poll::Ready(output.unwrap_or_else(|| Err(JoinError::taken())));
        }
        let joiner = self.header().joiner.get();
        // SAFETY: home thread; the reference does not outlive the statement.
        let is_known = unsafe { (*joiner).as_ref() }.is_some_and(|w| w.will_wake(context.waker()));
        if !is_known {
            let waker = context.waker().clone();
            // SAFETY: as above. The old waker is dropped afterwards, because that may run user
            // code.
            let old = unsafe { (*joiner).replace(waker) };
            drop(old);
        }
        Poll::Pending
    }

    pub(in crate::executor) fn abort(&self) {
        // The reference keeps the task whole while its future is dropped.
        retain(self.header);
        queue::with(|queue| TaskRef(self.header).stop(queue, JoinError::aborted()));
    }
}

impl<T> Drop for Joint<T> {
    fn drop(&mut self) {
        retain(self.header);
        let task = TaskRef(self.header);
        let header = task.header();
        if task.is_done() {
            // SAFETY: done, so nothing else uses the content; `take` fits the future by
            // construction.
            let output = AssertUnwindSafe(|| drop(unsafe { (self.take)(self.header) }));
            if let Err(payload) = catch_unwind(output) {
                task.report(&Failure::panic(payload));
            }
        }
        header.flags.set(header.flags.get() & !JOINABLE);
        // SAFETY: home thread; a detached task has no joiner.
        drop(unsafe { (*header.joiner.get()).take() });
    }
}
