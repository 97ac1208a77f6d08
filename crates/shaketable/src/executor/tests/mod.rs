//! The executor on its own, without a host: life cycle, order of events, and that nothing leaks.
//!
//! `HostFuture` plays a FoundationDB future the way the crate `foundationdb` drives one: the first
//! pending poll registers the waker and a callback; the callback wakes, and then calls the hook.

mod charts;
mod joins;
mod limits;
mod model;
mod threads;
mod wakes;

use super::queue::live_tasks;
use super::*;
use crate::yield_now;
use futures::FutureExt;
use futures::channel::mpsc;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    fn note(&self, event: impl Into<String>) {
        self.0.borrow_mut().push(event.into());
    }

    fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

/// Notes that it was dropped.
struct Token(Log, &'static str);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.note(format!("drop {}", self.1));
    }
}

/// The simulator's side of a future.
#[derive(Clone)]
struct HostFuture {
    name: &'static str,
    log: Log,
    state: Rc<State>,
}

#[derive(Default)]
struct State {
    ready: Cell<bool>,
    registered: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    /// The future becomes ready between the question and the registration of the callback.
    fires_inside: Cell<bool>,
}

impl HostFuture {
    fn new(log: &Log, name: &'static str) -> Self {
        HostFuture {
            name,
            log: log.clone(),
            state: Rc::default(),
        }
    }

    fn firing_inside(log: &Log, name: &'static str) -> Self {
        let future = HostFuture::new(log, name);
        future.state.fires_inside.set(true);
        future
    }

    /// What FoundationDB does when it resolves a future: wake up, then poll.
    fn callback(&self) {
        self.log.note(format!("{} callback", self.name));
        self.state.ready.set(true);
        let waker = self.state.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
        self.log.note(format!("{} woken", self.name));
        poll_pending_tasks();
        self.log.note(format!("{} callback ends", self.name));
    }
}

impl Future for HostFuture {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.state.ready.get() {
            self.log.note(format!("{} ready", self.name));
            return Poll::Ready(());
        }
        *self.state.waker.borrow_mut() = Some(context.waker().clone());
        if !self.state.registered.replace(true) {
            self.log.note(format!("{} registers", self.name));
            if self.state.fires_inside.get() {
                self.callback();
            }
        }
        self.log.note(format!("{} pending", self.name));
        Poll::Pending
    }
}

/// Fails a test that leaves a task behind on this thread. Declared first, dropped last.
struct NothingLeft;

impl Drop for NothingLeft {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(live_tasks(), 0, "tasks are left");
        }
    }
}

/// Runs `body` to its end on a thread of its own.
fn on_another_thread(body: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new()
        .name("stranger".to_owned())
        .spawn(body)
        .expect("a thread")
        .join()
        .expect("no panic");
}
