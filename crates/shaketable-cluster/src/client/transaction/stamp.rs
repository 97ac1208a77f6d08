//! The versionstamp of the commit to come, and the operations that wait for it.
//!
//! FoundationDB completes a versionstamp before the commit that it belongs to, and programs rely on
//! it: they wait for the commit and read the stamp without waiting again. A task that waits for the
//! stamp would run after the commit's callback, so nothing here is a task: [`Stamp::set`] has
//! completed every waiting operation when it returns. If the attempt ends first, it ends them
//! before everything else that is pending ([`super::Attempt::add_stamp`]).

use super::Attempt;
use crate::client::Pending;
use crate::client::pending::Promise;
use crate::error::Error;
use crate::proto::Versionstamp;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// A place for one versionstamp, or for the reason why there is none. Clones are the same place.
#[derive(Clone, Default)]
pub(crate) struct Stamp(Rc<RefCell<Place>>);

#[derive(Default)]
struct Place {
    outcome: Option<Result<Versionstamp, Error>>,
    waiting: Vec<Promise<Versionstamp>>,
}

impl Stamp {
    /// The outcome, if it is known.
    pub(crate) fn peek(&self) -> Option<Result<Versionstamp, Error>> {
        self.0.borrow().outcome
    }

    /// The outcome as the result of an operation of `attempt`.
    pub(super) fn wait(&self, attempt: &Attempt) -> Pending<Versionstamp> {
        let mut place = self.0.borrow_mut();
        if let Some(outcome) = place.outcome {
            return Pending::ready(outcome);
        }
        let (promise, pending) = Pending::new();
        attempt.add_stamp(promise.to_fail());
        place.waiting.push(promise);
        pending
    }

    /// Delivers the outcome to everything that waits. Only the first one counts. The caller must
    /// hold no borrow: callbacks run.
    pub(super) fn set(&self, outcome: Result<Versionstamp, Error>) {
        let waiting = {
            let mut place = self.0.borrow_mut();
            if place.outcome.is_some() {
                return;
            }
            place.outcome = Some(outcome);
            std::mem::take(&mut place.waiting)
        };
        for promise in waiting {
            promise.send(outcome);
        }
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stamp").field(&self.peek()).finish()
    }
}
