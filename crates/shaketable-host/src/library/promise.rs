//! The promise that ends a phase.
//!
//! The workload owns it: it sends a verdict, once, and frees it, once, in that order or without
//! sending. Anything else it does is noticed instead of being undefined: a promise stays in memory
//! until the run is over ([`Promises`]), and remembers.

use shaketable_abi::v1::{FDBPromise, FDBPromiseVt, OpaquePromise};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;

/// How a phase ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// The workload sent this.
    Sent(bool),
    /// The workload freed the promise and never sent anything.
    Broken,
}

/// All promises of a run; dropped when no code of a workload can run any more.
#[derive(Default)]
pub struct Promises {
    all: RefCell<Vec<Rc<PromiseState>>>,
    misused: Rc<RefCell<Vec<Misuse>>>,
}

/// The workload that a promise was given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Its client.
    pub client: u32,
    /// Its number among the workloads of the test.
    pub workload: usize,
}

/// A promise that was used against the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misuse {
    /// Whose promise.
    pub owner: Owner,
    /// What was done.
    pub what: &'static str,
}

struct PromiseState {
    owner: Owner,
    thread: ThreadId,
    resolution: Cell<Option<Resolution>>,
    freed: Cell<bool>,
    waker: Cell<Option<Waker>>,
    misused: Rc<RefCell<Vec<Misuse>>>,
}

/// The host's end: ready when the phase has ended.
pub struct Resolved(Rc<PromiseState>);

impl Promises {
    /// A new promise, and the future that waits for it.
    pub fn make(&self, owner: Owner) -> (FDBPromise, Resolved) {
        let state = Rc::new(PromiseState {
            owner,
            thread: std::thread::current().id(),
            resolution: Cell::new(None),
            freed: Cell::new(false),
            waker: Cell::new(None),
            misused: self.misused.clone(),
        });
        let promise = FDBPromise {
            inner: Rc::as_ptr(&state).cast_mut().cast::<OpaquePromise>(),
            vt: &raw const TABLE,
        };
        self.all.borrow_mut().push(state.clone());
        (promise, Resolved(state))
    }

    /// Whether a promise was used against the rules.
    pub fn is_misused(&self) -> bool {
        !self.misused.borrow().is_empty()
    }

    /// The uses of promises against the rules; empties the list.
    pub fn take_misuses(&self) -> Vec<Misuse> {
        std::mem::take(&mut self.misused.borrow_mut())
    }
}

impl PromiseState {
    /// Whether the call comes from the simulation's thread. From another one nothing may be
    /// touched: the process is stopped with a message, because the alternative is a data race.
    fn check_thread(&self, call: &str) {
        if std::thread::current().id() != self.thread {
            crate::isolation::beacon::refuse(&format!(
                "{call} of a promise was called from a thread that the workload started; phases end on the simulator's thread"
            ));
        }
    }

    fn misuse(&self, what: &'static str) {
        self.misused.borrow_mut().push(Misuse {
            owner: self.owner,
            what,
        });
    }

    fn resolve(&self, resolution: Resolution) {
        self.resolution.set(Some(resolution));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Future for Resolved {
    type Output = Resolution;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Resolution> {
        match self.0.resolution.get() {
            Some(resolution) => Poll::Ready(resolution),
            None => {
                self.0.waker.set(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

static TABLE: FDBPromiseVt = FDBPromiseVt {
    free: Some(free),
    send: Some(send),
};

unsafe extern "C" fn send(inner: *mut OpaquePromise, value: bool) {
    // SAFETY: `inner` is what `make` put there; the state lives until the run is over, also after
    // `free`.
    let state = unsafe { &*inner.cast::<PromiseState>() };
    state.check_thread("send");
    if state.freed.get() {
        state.misuse("sent to a promise after freeing it");
    } else if state.resolution.get().is_some() {
        state.misuse("sent to a promise twice");
    } else {
        state.resolve(Resolution::Sent(value));
    }
}

unsafe extern "C" fn free(inner: *mut OpaquePromise) {
    // SAFETY: as in `send`.
    let state = unsafe { &*inner.cast::<PromiseState>() };
    state.check_thread("free");
    if state.freed.replace(true) {
        state.misuse("freed a promise twice");
    } else if state.resolution.get().is_none() {
        state.resolve(Resolution::Broken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner {
        client: 7,
        workload: 1,
    };

    fn call(promise: FDBPromise, steps: &str) {
        for step in steps.chars() {
            // SAFETY: the promise comes from `make`, and its `Promises` is alive.
            unsafe {
                match step {
                    't' => ((*promise.vt).send.unwrap())(promise.inner, true),
                    'f' => ((*promise.vt).send.unwrap())(promise.inner, false),
                    _ => ((*promise.vt).free.unwrap())(promise.inner),
                }
            }
        }
    }

    fn resolved(future: &mut Resolved) -> Poll<Resolution> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_promise_resolves_with_what_was_sent() {
        let promises = Promises::default();
        for (steps, value) in [("t-", true), ("f-", false), ("t", true)] {
            let (promise, mut future) = promises.make(OWNER);
            assert_eq!(resolved(&mut future), Poll::Pending);
            call(promise, steps);
            assert_eq!(resolved(&mut future), Poll::Ready(Resolution::Sent(value)));
        }
        assert_eq!(promises.take_misuses(), []);
    }

    #[test]
    fn a_promise_freed_without_an_answer_is_broken() {
        let promises = Promises::default();
        let (promise, mut future) = promises.make(OWNER);
        call(promise, "-");
        assert_eq!(resolved(&mut future), Poll::Ready(Resolution::Broken));
    }

    #[test]
    fn misuse_is_noticed_and_the_first_answer_stands() {
        let promises = Promises::default();
        for (steps, what) in [
            ("tf", "sent to a promise twice"),
            ("t-t", "sent to a promise after freeing it"),
            ("t--", "freed a promise twice"),
        ] {
            let (promise, mut future) = promises.make(OWNER);
            call(promise, steps);
            assert_eq!(
                promises.take_misuses(),
                [Misuse { owner: OWNER, what }],
                "{steps}"
            );
            assert_eq!(resolved(&mut future), Poll::Ready(Resolution::Sent(true)));
        }
    }
}
