//! Trying again: `on_error`, backoff, `reset`.
//!
//! An error is retryable in one of two ways. After a conflict, an unknown result or a lack of
//! resources the client waits for a random part of a backoff that doubles each time; after 1007 and
//! 1009 it waits for a short fixed time. Any other error is returned, and leaves the transaction
//! cancelled until it is reset.

use super::state::{Native, Options, State};
use super::{Inner, Transaction};
use crate::client::Pending;
use crate::client::special_keys;
use crate::error::Error;

impl Transaction {
    /// Waits and makes the transaction ready for another attempt, or returns the error if it is not
    /// retryable. `error` may be zero; the result is then 2000. Dropping the future abandons the
    /// attempt.
    pub fn on_error(&self, error: Error) -> Pending<()> {
        let inner = self.inner();
        if let Err(error) = inner.check_broken() {
            return Pending::ready(Err(error));
        }
        let delay = {
            let mut state = inner.state_mut();
            let is_last =
                state.options.retry_limit != -1 && state.retries >= state.options.retry_limit;
            state.retries = state.retries.saturating_add(1);
            if is_last {
                Err(error)
            } else {
                inner.retry_delay(&mut state, error)
            }
        };
        let delay = match delay {
            Ok(delay) => delay,
            Err(error) => {
                inner.give_up();
                return Pending::ready(Err(error));
            }
        };
        let native = inner.drop_native();
        native.end(Error::TRANSACTION_CANCELLED);
        let sleep = inner.context.process.sleep(delay);
        let this = inner.clone();
        let attempt = inner.state().attempt.clone();
        // The task that resets the transaction must outlive the attempt, which it ends.
        let (promise, pending) = Pending::new();
        let waiting = inner.start(move || async move {
            sleep.await;
            Ok(())
        });
        let task =
            inner
                .context
                .process
                .start(shaketable_kernel::Priority::DefaultDelay, async move {
                    let result = waiting.await;
                    if result.is_ok() && attempt.broken().is_none() {
                        this.soft_reset();
                    }
                    promise.send(result);
                });
        pending.guarded_by(task)
    }

    /// Resets the transaction as if it were new.
    pub fn reset(&self) {
        self.inner().reset();
    }
}

impl Inner {
    fn reset(&self) {
        {
            let mut state = self.state_mut();
            state.retries = 0;
            state.created = self.context.process.now();
            state.backoff = self.context.knobs().default_backoff;
            state.persistent_options = self.context.defaults.borrow().clone();
        }
        let random = self.context.random.clone();
        *self.special.borrow_mut() = special_keys::State::new(move || random.next_u64());
        let native = self.drop_native();
        native.end(Error::TRANSACTION_CANCELLED);
        self.soft_reset();
    }

    /// What a commit did to its transaction before API version 410: after success it is as good as
    /// new, after an error it is ready for another attempt, unless it was cancelled or timed out.
    pub(super) fn reset_after_commit(&self, outcome: Result<(), Error>) {
        match outcome {
            Ok(()) => self.reset(),
            Err(_) if self.check_broken().is_ok() => {
                let native = self.drop_native();
                native.end(Error::TRANSACTION_CANCELLED);
                self.soft_reset();
            }
            Err(_) => self.state_mut().commit_started = false,
        }
    }

    /// How long to wait before the next attempt, or the error if there is to be no other attempt.
    fn retry_delay(&self, state: &mut State, error: Error) -> Result<f64, Error> {
        let knobs = self.context.knobs();
        let max_backoff = state.options.max_backoff;
        match error {
            Error(0) => Err(Error::CLIENT_INVALID_OPERATION),
            Error::NOT_COMMITTED
            | Error::COMMIT_UNKNOWN_RESULT
            | Error::PROCESS_BEHIND
            | Error::DATABASE_LOCKED
            | Error::BATCH_TRANSACTION_THROTTLED
            | Error::BLOB_GRANULE_REQUEST_FAILED
            | Error::TAG_THROTTLED
            | Error::PROXY_TAG_THROTTLED => Ok(self.next_backoff(state, max_backoff)),
            Error::COMMIT_PROXY_MEMORY_LIMIT_EXCEEDED
            | Error::GRV_PROXY_MEMORY_LIMIT_EXCEEDED
            | Error::TRANSACTION_THROTTLED_HOT_SHARD
            | Error::TRANSACTION_REJECTED_RANGE_LOCKED => {
                Ok(self.next_backoff(state, knobs.resource_constrained_max_backoff))
            }
            Error::TRANSACTION_TOO_OLD | Error::FUTURE_VERSION => {
                Ok(knobs.future_version_retry_delay.min(max_backoff))
            }
            _ => Err(error),
        }
    }

    fn next_backoff(&self, state: &mut State, max: f64) -> f64 {
        let delay = state.backoff * self.context.random.uniform();
        state.backoff = (state.backoff * self.context.knobs().backoff_growth_rate).min(max);
        delay
    }

    /// Leaves the transaction in the state that follows an error that is not retryable.
    fn give_up(&self) {
        if self.context.api_version_at_least(610) {
            let attempt = self.state().attempt.clone();
            attempt.end(Error::TRANSACTION_CANCELLED);
        } else {
            self.soft_reset();
        }
    }

    /// Takes out what makes up a commit and puts an empty one in its place.
    pub(super) fn drop_native(&self) -> Native {
        std::mem::replace(&mut self.state_mut().native, Native::new())
    }

    /// Begins another attempt: forgets everything that does not outlive one.
    pub(super) fn soft_reset(&self) {
        let attempt = {
            let mut state = self.state_mut();
            let context = &self.context;
            state.timeout = None;
            state.writes = context.no_writes.clone();
            state.cache = context.nothing_known.clone();
            state.read_conflicts = Default::default();
            state.write_bytes = 0;
            state.commit_started = false;
            state.deferred_error = None;
            if context.api_version_at_least(16) {
                state.options = Options::new(context);
            }
            state.watches.clear();
            state.stamped_keys.clear();
            state.committed_ranges = Default::default();
            std::mem::take(&mut state.attempt)
        };
        self.special.borrow_mut().soft_reset();
        // Before API version 16 a reset left all options as they were.
        if self.context.api_version_at_least(16) {
            self.apply_persistent_options();
        }
        attempt.end(Error::TRANSACTION_CANCELLED);
    }
}

impl Native {
    /// Ends everything that would have begun with the commit.
    pub(super) fn end(self, error: Error) {
        for watch in &self.watches {
            watch.fail(error);
        }
    }
}
