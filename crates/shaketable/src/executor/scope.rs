//! A group of tasks with one owner.
//!
//! Every phase of a workload is a scope. A task inherits the scope of the task that spawned it, so
//! a panic three tasks deep is still reported through the right client's context, and when the
//! phase ends its left-over tasks end with it: they hold handles that die with the phase.

use super::Failure;
use super::awaits::Awaits;
use super::join::JoinError;
use super::queue::{self, Queue};
use super::task::{Header, TaskRef};
use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::ptr::NonNull;
use std::rc::Rc;

/// What a scope reports to its owner.
pub(crate) trait Observer: Any {
    /// A task failed. `joined` means that its join handle is still held, and will return the error,
    /// too.
    fn task_failed(&self, scope: &Scope, failure: &Failure, joined: bool);
}

/// A group of tasks.
pub(crate) struct Scope {
    /// The newest task; the list is linked through the tasks and holds no references.
    newest: Cell<Option<NonNull<Header>>>,
    observer: Box<dyn Observer>,
    /// Only of a scope whose owner wants them counted.
    awaits: OnceCell<Awaits>,
    #[cfg(feature = "tokio")]
    runtime: OnceCell<super::runtime::Runtime>,
}

impl Scope {
    pub(crate) fn new(observer: impl Observer) -> Rc<Self> {
        Rc::new(Scope {
            newest: Cell::new(None),
            observer: Box::new(observer),
            awaits: OnceCell::new(),
            #[cfg(feature = "tokio")]
            runtime: OnceCell::new(),
        })
    }

    /// Counts the awaits of this scope, from now on.
    pub(crate) fn count_awaits(&self, awaits: Awaits) {
        let _ = self.awaits.set(awaits);
    }

    /// The awaits of this scope, if they are counted.
    #[inline]
    pub(crate) fn awaits(&self) -> Option<&Awaits> {
        self.awaits.get()
    }

    /// Lets the first task of this scope, which is the phase, carry out its end.
    #[cold]
    pub(super) fn die(&self, queue: &Queue) {
        if let Some(oldest) = self.oldest() {
            // SAFETY: a task in the list is alive.
            unsafe { TaskRef::borrow(oldest) }.deliver(queue);
        }
    }

    /// Whether a task must not be polled, because the scope is dying and the task is not the one
    /// that carries it out.
    #[inline]
    pub(super) fn is_dead(&self, task: NonNull<Header>, queue: &Queue) -> bool {
        let Some(awaits) = self.awaits() else {
            return false;
        };
        if awaits.end(task) {
            self.die(queue);
        }
        awaits.is_dead() || awaits.is_dying() && self.oldest() != Some(task)
    }

    /// A task begins to wait.
    #[inline]
    pub(super) fn note_await(&self, task: NonNull<Header>, queue: &Queue) {
        if let Some(awaits) = self.awaits()
            && awaits.begin(task)
        {
            self.die(queue);
        }
    }

    fn oldest(&self) -> Option<NonNull<Header>> {
        let mut task = self.newest.get()?;
        // SAFETY: a task in the list is alive.
        while let Some(older) = unsafe { task.as_ref() }.scope_next.get() {
            task = older;
        }
        Some(task)
    }

    /// Gives the tasks of this scope a tokio runtime, once.
    #[cfg(feature = "tokio")]
    pub(super) fn set_runtime(&self, runtime: super::runtime::Runtime) {
        let _ = self.runtime.set(runtime);
    }

    /// The tokio runtime of this scope, also when it is over.
    #[cfg(feature = "tokio")]
    pub(super) fn runtime(&self) -> Option<&super::runtime::Runtime> {
        self.runtime.get()
    }

    /// The scope of the code that is running.
    pub(crate) fn current() -> Option<Rc<Scope>> {
        queue::with(Scope::current_in)
    }

    pub(super) fn current_in(queue: &Queue) -> Option<Rc<Scope>> {
        let scope = queue.current_scope();
        if scope.is_null() {
            return None;
        }
        // SAFETY: the caller that entered the scope holds a reference until it leaves, and every
        // scope lives in an `Rc`.
        unsafe {
            Rc::increment_strong_count(scope);
            Some(Rc::from_raw(scope))
        }
    }

    /// The owner, for code that knows its type.
    pub(crate) fn observer<O: Observer>(&self) -> Option<&O> {
        (&*self.observer as &dyn Any).downcast_ref()
    }

    /// Runs `body` with this as the current scope.
    pub(crate) fn enter<T>(self: &Rc<Self>, body: impl FnOnce() -> T) -> T {
        struct Leave(*const Scope);
        impl Drop for Leave {
            fn drop(&mut self) {
                queue::leave_scope(self.0);
            }
        }
        let _leave = Leave(queue::enter_scope(self));
        body()
    }

    /// Drops the future of every task that is left; returns how many there were. A task that is
    /// being polled right now is not among them: it is dropped when its poll returns.
    pub(crate) fn stop_all(&self) -> usize {
        queue::with(|queue| {
            let mut count = 0;
            let mut polling = Vec::new();
            while let Some(header) = self.newest.get() {
                // SAFETY: a task in the list is alive, and `unlink` runs before it goes.
                let task = unsafe { TaskRef::borrow(header) };
                task.stop(queue, JoinError::aborted());
                if task.is_done() {
                    count += 1;
                } else {
                    self.unlink(header);
                    polling.push(task);
                }
            }
            for task in polling {
                if !task.is_done() {
                    self.link(task.as_raw());
                }
            }
            count
        })
    }

    pub(super) fn report(&self, failure: &Failure, joined: bool) {
        self.observer.task_failed(self, failure, joined);
    }

    pub(super) fn link(&self, header: NonNull<Header>) {
        let older = self.newest.replace(Some(header));
        // SAFETY: the task is alive: the caller holds a reference.
        let task = unsafe { header.as_ref() };
        task.scope_previous.set(None);
        task.scope_next.set(older);
        if let Some(older) = older {
            // SAFETY: a task in the list is alive.
            unsafe { older.as_ref() }.scope_previous.set(Some(header));
        }
    }

    pub(super) fn unlink(&self, header: NonNull<Header>) {
        // SAFETY: the caller holds a reference.
        let task = unsafe { header.as_ref() };
        let newer = task.scope_previous.take();
        let older = task.scope_next.take();
        match newer {
            // SAFETY: a task in the list is alive.
            Some(newer) => unsafe { newer.as_ref() }.scope_next.set(older),
            None if self.newest.get() == Some(header) => self.newest.set(older),
            None => return,
        }
        if let Some(older) = older {
            // SAFETY: a task in the list is alive.
            unsafe { older.as_ref() }.scope_previous.set(newer);
        }
    }
}
