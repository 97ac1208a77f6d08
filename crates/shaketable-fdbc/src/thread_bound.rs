//! A value that belongs to one thread, inside objects that all threads share.
//!
//! Handles of the C API may be used and destroyed on any thread, while the client's objects behind
//! them live on the kernel's thread and must be touched and dropped there. [`ThreadBound`] is that
//! rule as a type: it can be moved and shared freely, and every access checks that it happens on
//! the thread that made the value. Where the last reference goes away on another thread, the value
//! stays undropped; so its owner empties it on the right thread first.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::thread::{self, ThreadId};

/// A value that only the thread that made it can reach.
pub(crate) struct ThreadBound<T> {
    owner: ThreadId,
    value: ManuallyDrop<RefCell<Option<T>>>,
}

// SAFETY: `value` is reached in `with`, `take` and `drop` only, and each first checks that it runs
// on the owner's thread, so the value never meets a second thread. Identities of threads are never
// used twice.
unsafe impl<T> Send for ThreadBound<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for ThreadBound<T> {}

impl<T> ThreadBound<T> {
    /// Binds the value to the calling thread.
    pub(crate) fn new(value: T) -> ThreadBound<T> {
        ThreadBound {
            owner: this_thread(),
            value: ManuallyDrop::new(RefCell::new(Some(value))),
        }
    }

    /// Whether the calling thread is the one the value belongs to.
    pub(crate) fn is_here(&self) -> bool {
        self.owner == this_thread()
    }

    /// Runs `body` on the value, or returns `None` when it has been taken. `body` must not access
    /// the value again.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.check();
        self.value.borrow_mut().as_mut().map(body)
    }

    /// Takes the value away for good.
    pub(crate) fn take(&self) -> Option<T> {
        self.check();
        self.value.borrow_mut().take()
    }

    fn check(&self) {
        assert!(
            self.is_here(),
            "an object of the kernel was reached from a thread that is not the kernel's"
        );
    }
}

impl<T> Drop for ThreadBound<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: this is the only place that drops the value, and it runs once, on the owner's
            // thread.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

/// The identity of the calling thread, without the reference counting of `thread::current`.
fn this_thread() -> ThreadId {
    thread_local!(static ID: ThreadId = thread::current().id());
    ID.with(|id| *id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn the_owner_reads_changes_and_takes_the_value() {
        let bound = ThreadBound::new(1);
        assert_eq!(bound.with(|value| std::mem::replace(value, 2)), Some(1));
        assert_eq!(bound.take(), Some(2));
        assert_eq!(bound.with(|value| *value), None);
    }

    #[test]
    fn another_thread_may_hold_it_but_not_look_inside() {
        let bound = ThreadBound::new(Rc::new(7));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(!bound.is_here());
                let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    bound.with(|value| **value)
                }));
                assert!(looked.is_err());
            });
        });
        assert_eq!(bound.with(|value| **value), Some(7));
    }

    #[test]
    fn a_value_is_dropped_by_its_owner_and_by_nobody_else() {
        let value = Rc::new(());
        drop(ThreadBound::new(value.clone()));
        assert_eq!(Rc::strong_count(&value), 1);
        let elsewhere = ThreadBound::new(value.clone());
        let taken = elsewhere.take();
        std::thread::scope(|scope| {
            scope.spawn(move || drop(elsewhere));
        });
        drop(taken);
        assert_eq!(Rc::strong_count(&value), 1);
    }
}
