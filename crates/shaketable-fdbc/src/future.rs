//! The future behind `FDBFuture*`: a state machine that any thread may look at and one thread
//! completes.
//!
//! A future is pending, and then holds a value or an error for the rest of its life; reading a
//! value and releasing its memory as often makes it an error too (1102). It promises:
//!
//! * a callback runs exactly once: inside [`FDBFuture::set_callback`] if the future is ready, else
//!   on the thread that completes it, when the state is visible, with no lock held and with the
//!   future kept alive by the completer, so that the callback may do anything, even destroy the
//!   future itself. Several callbacks run in reverse order;
//! * a getter never allocates and never waits for anything but the short lock;
//! * `is_ready` is one load.
//!
//! Completion comes from the kernel's thread alone (see `operation`); a future that carries an
//! error of the call's arguments is born complete and belongs to no kernel.

use crate::fork;
use crate::operation;
use crate::types::FDBCallback;
use crate::universe::{Slot, Universe};
use crate::value::Value;
use parking_lot::{Condvar, Mutex};
use shaketable_cluster::error::Error;
use shaketable_kernel::look_for;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What `FDBFuture*` points to.
pub struct FDBFuture {
    ready: AtomicBool,
    state: Mutex<State>,
    became_ready: Condvar,
    pub(crate) universe: Option<Arc<Universe>>,
    /// What works for this future; see `operation`.
    pub(crate) operation: Slot,
}

struct State {
    outcome: Option<Result<Value, Error>>,
    /// Successful reads minus releases; the value goes when a release brings it to zero.
    unreleased: i32,
    /// Nearly every future has one callback, which therefore needs no allocation.
    first_callback: Option<Callback>,
    more_callbacks: Vec<Callback>,
}

#[derive(Clone, Copy)]
struct Callback {
    function: unsafe extern "C" fn(*mut FDBFuture, *mut c_void),
    parameter: *mut c_void,
}

// SAFETY: the parameter is an opaque word to us; registering a callback allows it to be called with
// that word on the network's thread.
unsafe impl Send for Callback {}

const SPINS: u32 = 1000;

impl FDBFuture {
    /// A future that the kernel of `universe` will complete.
    pub(crate) fn pending(universe: Arc<Universe>) -> Arc<FDBFuture> {
        if fork::is_fork() {
            return FDBFuture::ready(Err(fork::FORKED));
        }
        Arc::new(FDBFuture::with(None, Some(universe)))
    }

    /// A future that is born ready, with what the arguments of the call already decided.
    pub(crate) fn ready(outcome: Result<Value, Error>) -> Arc<FDBFuture> {
        Arc::new(FDBFuture::with(Some(outcome), None))
    }

    fn with(outcome: Option<Result<Value, Error>>, universe: Option<Arc<Universe>>) -> FDBFuture {
        FDBFuture {
            ready: AtomicBool::new(outcome.is_some()),
            state: Mutex::new(State {
                outcome,
                unreleased: 0,
                first_callback: None,
                more_callbacks: Vec::new(),
            }),
            became_ready: Condvar::new(),
            universe,
            operation: Slot::empty(),
        }
    }

    /// Gives the reference to C, which gives it back through `fdb_future_destroy`.
    pub(crate) fn into_raw(self: Arc<FDBFuture>) -> *mut FDBFuture {
        Arc::into_raw(self).cast_mut()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Completes a pending future and runs its callbacks; does nothing to one that is ready. The
    /// caller's reference keeps the future alive while the callbacks run.
    pub(crate) fn complete(self: &Arc<FDBFuture>, outcome: Result<Value, Error>) {
        let (first, more) = {
            let mut state = self.state.lock();
            if state.outcome.is_some() {
                return;
            }
            state.outcome = Some(outcome);
            self.ready.store(true, Ordering::Release);
            (
                state.first_callback.take(),
                std::mem::take(&mut state.more_callbacks),
            )
        };
        self.became_ready.notify_all();
        for callback in more.into_iter().rev() {
            self.call(callback);
        }
        if let Some(callback) = first {
            self.call(callback);
        }
    }

    /// Registers a callback, or calls it at once.
    pub(crate) fn set_callback(
        self: &Arc<FDBFuture>,
        function: FDBCallback,
        parameter: *mut c_void,
    ) {
        let Some(function) = function else { return };
        let callback = Callback {
            function,
            parameter,
        };
        {
            let mut state = self.state.lock();
            if state.outcome.is_none() {
                if state.first_callback.is_none() {
                    state.first_callback = Some(callback);
                } else {
                    state.more_callbacks.push(callback);
                }
                return;
            }
        }
        self.call(callback);
    }

    fn call(self: &Arc<FDBFuture>, callback: Callback) {
        // SAFETY: the function and its parameter were registered together for this call; the future
        // is alive because `self` holds a reference to it.
        unsafe { (callback.function)(Arc::as_ptr(self).cast_mut(), callback.parameter) }
    }

    /// Waits until the future is ready. On the thread that would have to complete it, that is an
    /// error instead.
    pub(crate) fn block_until_ready(&self) -> Result<(), Error> {
        if self.is_ready() {
            return Ok(());
        }
        if self.universe.as_ref().is_some_and(|u| u.is_here()) {
            return Err(Error::BLOCKED_FROM_NETWORK_THREAD);
        }
        if fork::is_fork() {
            return Err(fork::FORKED);
        }
        if self.becomes_ready_soon() {
            return Ok(());
        }
        let mut state = self.state.lock();
        while state.outcome.is_none() {
            self.became_ready.wait(&mut state);
        }
        Ok(())
    }

    /// Looks for about ten microseconds whether the future becomes ready: waking a thread that
    /// sleeps takes longer. An answer of a server needs three threads, for which there may be too
    /// few processors.
    fn becomes_ready_soon(&self) -> bool {
        if self.universe.as_ref().is_some_and(|u| u.is_served()) {
            return look_for(|| self.is_ready());
        }
        (0..SPINS).any(|_| {
            std::hint::spin_loop();
            self.is_ready()
        })
    }

    /// Asks the kernel to give the operation up; the future then fails with 1101, and its callbacks
    /// run. A ready future stays as it is. Takes a reference, which the request keeps until it has
    /// been carried out.
    pub(crate) fn cancel(self: Arc<FDBFuture>) {
        if self.is_ready() {
            return;
        }
        if let Some(universe) = self.universe.clone() {
            universe.post(move |_| operation::cancel(&self));
        }
    }

    /// The error of the future, 0 for a value.
    pub(crate) fn error(&self) -> i32 {
        match &self.state.lock().outcome {
            None => Error::FUTURE_NOT_SET.0,
            Some(Ok(_)) => 0,
            Some(Err(error)) => error.0,
        }
    }

    /// Reads the value through `pick`, which returns `None` for a value of another type. What
    /// `pick` returns stays valid until the memory is released or the future destroyed.
    pub(crate) fn read<T>(&self, pick: impl FnOnce(&Value) -> Option<T>) -> Result<T, Error> {
        let mut state = self.state.lock();
        let picked = match &state.outcome {
            None => return Err(Error::FUTURE_NOT_SET),
            Some(Err(error)) => return Err(*error),
            Some(Ok(value)) => pick(value).ok_or(Error::CLIENT_INVALID_OPERATION)?,
        };
        state.unreleased += 1;
        Ok(picked)
    }

    /// Takes back one read; the last one drops the value.
    pub(crate) fn release_memory(&self) {
        let dropped = {
            let mut state = self.state.lock();
            state.unreleased -= 1;
            if state.outcome.is_some() && state.unreleased == 0 {
                state.outcome.replace(Err(Error::FUTURE_RELEASED))
            } else {
                None
            }
        };
        drop(dropped);
    }
}
