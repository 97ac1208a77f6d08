//! A value that appears once, for one consumer.
//!
//! This is the place itself, with no rule about what may fill it: an `Rc` around it makes a promise
//! and a future, a client adds a guard. (The outcome of a request keeps the same rules, but apart
//! from the type of its answer: `request/pending.rs`.) These rules hold for all of them: the first
//! value counts and later ones are dropped; the value is handed out once, to a poll or to a
//! callback; after that, and after [`Completion::close`], nothing more happens.
//!
//! No destructor, callback or waker runs while the place is borrowed: any of them may call back
//! into it.

use crate::wakeup::{self, Wakeup};
use std::cell::RefCell;
use std::fmt;
use std::task::{Context, Poll};

/// A place for one value, for one consumer. See [`crate::Shared`] for several consumers.
///
/// ```
/// use shaketable_kernel::{Completion, Kernel};
/// use std::future::poll_fn;
/// use std::rc::Rc;
///
/// let kernel = Kernel::simulation(1);
/// let result = Rc::new(Completion::new());
/// let promise = result.clone();
/// kernel.call_at(kernel.now() + 1.5, move |_| assert!(promise.complete(7)));
/// assert_eq!(kernel.block_on(poll_fn(|cx| result.poll(cx))), Ok(7));
/// assert!(!result.complete(8), "the first value counts");
/// ```
pub struct Completion<T>(RefCell<State<T>>);

enum State<T> {
    Waiting(Option<Wakeup>),
    Listening(Box<dyn FnOnce(T)>),
    Done(T),
    /// The value was handed out, or is not wanted.
    Over,
}

impl<T> Completion<T> {
    /// A place without a value.
    pub const fn new() -> Completion<T> {
        Completion(RefCell::new(State::Waiting(None)))
    }

    /// A value that is available at once.
    pub const fn ready(value: T) -> Completion<T> {
        Completion(RefCell::new(State::Done(value)))
    }

    /// Delivers the value and wakes the consumer, or calls it back. Returns whether this was the
    /// first value and still wanted; if not, it is dropped.
    #[inline(always)]
    pub fn complete(&self, value: T) -> bool {
        let mut state = self.0.borrow_mut();
        match &mut *state {
            State::Waiting(wakeup) => {
                let wakeup = wakeup.take();
                *state = State::Done(value);
                drop(state);
                if let Some(wakeup) = wakeup {
                    wakeup.wake();
                }
                true
            }
            State::Listening(_) => {
                let listening = std::mem::replace(&mut *state, State::Over);
                drop(state);
                if let State::Listening(callback) = listening {
                    callback(value);
                }
                true
            }
            State::Done(_) | State::Over => {
                drop(state);
                drop(value);
                false
            }
        }
    }

    /// Takes the value, or remembers which task to wake when it is there.
    ///
    /// # Panics
    /// If the value was handed out before, or the place was closed.
    #[inline]
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<T> {
        let mut state = self.0.borrow_mut();
        match &mut *state {
            State::Waiting(wakeup) => {
                wakeup::remember(wakeup, cx);
                Poll::Pending
            }
            State::Done(_) => match std::mem::replace(&mut *state, State::Over) {
                State::Done(value) => Poll::Ready(value),
                _ => unreachable!("it was done a line above"),
            },
            State::Listening(_) | State::Over => {
                panic!("polled after its result was given away")
            }
        }
    }

    /// Calls `callback` with the value: at once if it is there, otherwise as soon as it is.
    ///
    /// # Panics
    /// If the value was handed out before, or the place was closed.
    pub fn then(&self, callback: impl FnOnce(T) + 'static) {
        let state = self.0.replace(State::Over);
        match state {
            State::Done(value) => callback(value),
            State::Waiting(_) => drop(self.0.replace(State::Listening(Box::new(callback)))),
            State::Listening(_) | State::Over => {
                panic!("listened to after its result was given away")
            }
        }
    }

    /// Whether the value is there and has not been handed out.
    pub fn is_done(&self) -> bool {
        matches!(*self.0.borrow(), State::Done(_))
    }

    /// Whether a value is awaited.
    #[inline]
    pub fn is_awaited(&self) -> bool {
        matches!(*self.0.borrow(), State::Waiting(_) | State::Listening(_))
    }

    /// Marks the value as no longer wanted: drops it, and forgets what to wake or call.
    #[inline]
    pub fn close(&self) {
        let mut state = self.0.borrow_mut();
        // Usually the value was handed out before.
        if !matches!(*state, State::Over) {
            let old = std::mem::replace(&mut *state, State::Over);
            drop(state);
            drop(old);
        }
    }
}

impl<T> Default for Completion<T> {
    fn default() -> Self {
        Completion::new()
    }
}

impl<T> fmt::Debug for Completion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match *self.0.borrow() {
            State::Waiting(_) | State::Listening(_) => "awaited",
            State::Done(_) => "done",
            State::Over => "over",
        };
        write!(f, "Completion({state})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kernel, Priority, ProcessSpec};
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::rc::Rc;

    #[test]
    fn a_task_that_waits_is_woken_by_the_value() {
        let kernel = Kernel::simulation(1);
        let process = kernel.add_process(ProcessSpec::default());
        let result = Rc::new(Completion::new());
        let waiting = result.clone();
        let wait = async move { poll_fn(|cx| waiting.poll(cx)).await };
        let task = kernel.spawn(process, Priority::DefaultDelay, wait);
        kernel.run_ready().unwrap();
        assert!(result.is_awaited() && !result.is_done());
        assert!(result.complete(5));
        assert!(result.is_done() && !result.is_awaited());
        assert_eq!(kernel.block_on(task), Ok(5));
        assert!(!result.is_done());
    }

    #[test]
    fn the_first_value_counts_and_is_given_out_once() {
        let kernel = Kernel::simulation(1);
        let result = Completion::ready(1);
        assert!(!result.complete(2));
        assert_eq!(kernel.block_on(poll_fn(|cx| result.poll(cx))), Ok(1));
        assert!(!result.complete(3));
    }

    #[test]
    #[should_panic(expected = "after its result was given away")]
    fn to_poll_again_is_an_error() {
        let kernel = Kernel::simulation(1);
        let result = Completion::ready(1);
        for _ in 0..2 {
            let _ = kernel.block_on(poll_fn(|cx| result.poll(cx)));
        }
    }

    #[test]
    fn a_callback_runs_once_and_not_when_the_place_was_closed() {
        let seen = Rc::new(Cell::new(0));
        let count = |result: &Completion<u32>| {
            let seen = seen.clone();
            result.then(move |value| seen.set(seen.get() + value));
        };
        count(&Completion::ready(1));
        assert_eq!(seen.get(), 1);
        let result = Completion::new();
        count(&result);
        assert!(result.complete(10));
        assert!(!result.complete(10));
        assert_eq!(seen.get(), 11);
        let result = Completion::new();
        count(&result);
        result.close();
        assert!(!result.complete(100));
        assert_eq!(seen.get(), 11);
    }

    #[test]
    fn a_callback_and_a_destructor_may_come_back() {
        struct Back(Rc<Completion<Back>>);
        impl Drop for Back {
            fn drop(&mut self) {
                assert!(!self.0.is_awaited());
                self.0.close();
            }
        }
        let place = Rc::new(Completion::new());
        let back = || Back(place.clone());
        let again = place.clone();
        place.then(move |value| assert!(!again.is_awaited() && !again.complete(value)));
        assert!(place.complete(back()));
        assert!(!place.complete(back()));
        place.close();
        let other = Rc::new(Completion::ready(back()));
        other.close();
    }
}
