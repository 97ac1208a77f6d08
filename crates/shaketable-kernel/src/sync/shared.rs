//! A value that appears once, for several consumers; and the list of tasks that wait for it.

use crate::wakeup::Wakeup;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A place for one value, of which every consumer gets a copy; clones are the same place.
/// See [`crate::Completion`] for one consumer.
pub struct Shared<T>(Rc<State<T>>);

struct State<T> {
    value: RefCell<Option<T>>,
    waiters: Waiters,
}

impl<T: Clone> Shared<T> {
    /// A place without a value.
    pub fn new() -> Shared<T> {
        Shared::with(None)
    }

    /// A value that is available at once.
    pub fn ready(value: T) -> Shared<T> {
        Shared::with(Some(value))
    }

    fn with(value: Option<T>) -> Shared<T> {
        Shared(Rc::new(State {
            value: RefCell::new(value),
            waiters: Waiters::new(),
        }))
    }

    /// Delivers the value. Only the first one counts.
    pub fn set(&self, value: T) {
        let mut place = self.0.value.borrow_mut();
        if place.is_some() {
            drop(place); // the value's destructor may call back here
            return;
        }
        *place = Some(value);
        drop(place);
        self.0.waiters.wake_all();
    }

    /// The value if it is there.
    pub fn peek(&self) -> Option<T> {
        self.0.value.borrow().clone()
    }

    /// Waits for the value.
    pub async fn wait(&self) -> T {
        self.0.waiters.until(|| self.peek()).await
    }
}

impl<T: Clone> Default for Shared<T> {
    fn default() -> Self {
        Shared::new()
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

/// The tasks that wait for a condition to become true.
///
/// Unlike with [`crate::Notify`], a task that stops waiting stays on the list: it costs one
/// needless poll later, if the task is still alive then. This is the better choice for something
/// that happens once.
#[derive(Default)]
pub struct Waiters {
    /// Most conditions have one waiting task, which therefore needs no allocation.
    first: Cell<Option<Wakeup>>,
    more: RefCell<Vec<Wakeup>>,
}

impl Waiters {
    /// Creates an empty list.
    pub const fn new() -> Waiters {
        Waiters {
            first: Cell::new(None),
            more: RefCell::new(Vec::new()),
        }
    }

    /// Wakes every waiting task, in the order in which they began to wait, to check again.
    pub fn wake_all(&self) {
        if !self.more.borrow().is_empty() {
            return self.wake_many();
        }
        if let Some(first) = self.first.take() {
            first.wake();
        }
    }

    #[cold]
    fn wake_many(&self) {
        let (first, more) = (self.first.take(), self.more.take());
        first.into_iter().chain(more).for_each(Wakeup::wake);
    }

    /// Waits until `condition` returns a value. It is called at once and after each
    /// [`Waiters::wake_all`].
    pub async fn until<T>(&self, mut condition: impl FnMut() -> Option<T>) -> T {
        poll_fn(|cx| match condition() {
            Some(value) => Poll::Ready(value),
            None => {
                self.remember(cx);
                Poll::Pending
            }
        })
        .await
    }

    fn remember(&self, cx: &Context<'_>) {
        let mut more = self.more.borrow_mut();
        match (more.last(), self.first.take()) {
            (None, None) => self.first.set(Some(Wakeup::of(cx))),
            (newest, first) => {
                let known = newest.or(first.as_ref()).is_some_and(|it| it.is_of(cx));
                self.first.set(first);
                if !known {
                    more.push(Wakeup::of(cx));
                }
            }
        }
    }
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kernel, Priority, ProcessSpec};

    #[test]
    fn every_consumer_gets_the_first_value_in_the_order_of_waiting() {
        let kernel = Kernel::simulation(1);
        let process = kernel.add_process(ProcessSpec::default());
        let (shared, seen) = (Shared::new(), Rc::new(RefCell::new(Vec::new())));
        for n in 0..4 {
            let (shared, seen) = (shared.clone(), seen.clone());
            let wait = async move {
                let value = shared.wait().await;
                seen.borrow_mut().push((n, value));
            };
            kernel.spawn(process, Priority::DefaultDelay, wait).detach();
        }
        kernel.run_ready().unwrap();
        assert_eq!(shared.peek(), None);
        shared.set('a');
        shared.set('b');
        kernel.run_ready().unwrap();
        assert_eq!(*seen.borrow(), [(0, 'a'), (1, 'a'), (2, 'a'), (3, 'a')]);
        assert_eq!(kernel.block_on(shared.wait()), Ok('a'));
        assert_eq!(Shared::ready('c').peek(), Some('c'));
    }

    #[test]
    fn a_task_that_is_polled_for_other_reasons_is_remembered_once() {
        let kernel = Kernel::simulation(1);
        let process = kernel.add_process(ProcessSpec::default());
        let waiters = Rc::new(Waiters::new());
        let (waiting, clock) = (waiters.clone(), kernel.clone());
        let wait = async move {
            let mut polls = 0;
            let end = clock.now() + 1.0;
            let nap = async {
                while clock.now() < end {
                    clock.sleep(0.1).await
                }
            };
            let condition = || {
                polls += 1;
                None::<()>
            };
            crate::first_of(waiting.until(condition), nap).await;
            polls
        };
        let task = kernel.spawn(process, Priority::DefaultDelay, wait);
        assert!(kernel.block_on(task).unwrap() >= 10);
        assert!(waiters.first.take().is_some());
        assert!(waiters.more.borrow().is_empty());
    }
}
