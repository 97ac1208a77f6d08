//! Fates: what the override of a decision makes of a single operation.
//!
//! Chance deals with messages, processes and disks, and what an operation gets to see follows from
//! that. To try every outcome of every operation, one of them has to be singled out: `commit 41 of
//! client 2: its reply is lost`. The operation then carries its fate along, and the fate is carried
//! out where such a thing arises by itself. The commit proxy breaks the connection when the commit
//! is durable; another transaction writes what this one has read, and commits first; the storage
//! server has not got the version. Nothing is thrown at the surface: the error, if there is one, is
//! found out by the same code that finds it out by chance.
//!
//! A fate that does not apply is left alone, and counts as not having come up: a commit that wrote
//! nothing is never sent, a read of the transaction's own writes asks no server.
//!
//! While there are no overrides there are no fates, and an operation pays one comparison.

use super::database::Context;
use super::transaction::{Inner, Transaction};
use crate::client::pending::Pending;
use crate::error::Error;
use crate::proto::{CommitFate, WatchFate};
use shaketable_kernel::{Forced, ProcessId};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;

/// An operation's fate, and the decision that it is the outcome of.
#[derive(Debug)]
pub(crate) struct Fated {
    forced: Forced,
    pub(crate) fate: Fate,
    is_met: Cell<bool>,
}

/// How long a process stays dead.
const DEAD_SECONDS: f64 = 2.0;

/// What can be made of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fate {
    /// The commit meets this on its way.
    Commit(CommitFate),
    /// Another transaction writes something that this one has read, and commits first.
    Conflict,
    /// It takes longer to arrive than versions live.
    TooOld,
    /// The storage server has not got the version.
    Early,
    /// The request takes longer, by this many seconds.
    RequestLate(f64),
    /// The reply takes longer, by this many seconds.
    ReplyLate(f64),
    /// The process that is asked dies when it is asked.
    ServerDies,
    /// Of a range only this many rows are returned.
    Cut(usize),
    /// The watch meets this at its storage server.
    Watch(WatchFate),
}

/// Whether an operation can have this outcome. Not every kind of operation has every outcome; one
/// that does not apply never comes up.
pub fn is_an_outcome(outcome: &str) -> bool {
    Fate::parse(outcome).is_some()
}

impl Fate {
    fn parse(outcome: &str) -> Option<Fate> {
        if let Some(rest) = outcome.strip_prefix("it is cut after ") {
            let count = rest.strip_suffix(" rows").or(rest.strip_suffix(" row"))?;
            return Some(Fate::Cut(count.parse().ok()?));
        }
        if let Some((what, seconds)) = outcome.split_once(" late by ") {
            let seconds: f64 = seconds.strip_suffix(" s")?.parse().ok()?;
            if !(seconds.is_finite() && seconds >= 0.0) {
                return None;
            }
            return Some(match what {
                "its request is" => Fate::RequestLate(seconds),
                "its reply is" => Fate::ReplyLate(seconds),
                "it fires" => Fate::Watch(WatchFate::Late(seconds)),
                _ => return None,
            });
        }
        Some(match outcome {
            "its request is lost" => Fate::Commit(CommitFate::RequestLost),
            "its reply is lost" => Fate::Commit(CommitFate::ReplyLost),
            "the proxy dies before it writes" => Fate::Commit(CommitFate::ProxyDiesBeforeWriting),
            "the proxy dies before it answers" => {
                Fate::Commit(CommitFate::ProxyDiesBeforeAnswering)
            }
            "the process that is asked dies" => Fate::ServerDies,
            "another transaction commits first" => Fate::Conflict,
            "its version is too old" => Fate::TooOld,
            "its version is in the future" => Fate::Early,
            "it fires without a change" => Fate::Watch(WatchFate::Spurious),
            _ => return None,
        })
    }
}

impl Fate {
    /// What the commit proxy makes of a commit.
    pub(crate) fn of_commit(self) -> Option<CommitFate> {
        match self {
            Fate::Commit(fate) => Some(fate),
            _ => None,
        }
    }
}

impl Transaction {
    /// Makes the outcome of a decision the fate of the next operation, if it is one that operations
    /// have. Call [`Transaction::end_fate`] after that operation was asked for.
    pub fn force(&self, forced: Forced) {
        let fate = Fate::parse(&forced.outcome);
        self.inner().state_mut().fated = fate.map(|fate| {
            Rc::new(Fated {
                forced,
                fate,
                is_met: Cell::new(false),
            })
        });
    }

    /// Forgets a fate that did not apply to the operation.
    pub fn end_fate(&self) {
        self.inner().state_mut().fated = None;
    }
}

impl Inner {
    /// Starts a read that has a fate.
    pub(super) fn start_fated_read<T: 'static, F>(
        &self,
        fated: Rc<Fated>,
        work: impl FnOnce() -> F + 'static,
    ) -> Pending<T>
    where
        F: Future<Output = Result<T, Error>> + 'static,
    {
        let version = self.request_read_version(false);
        let attempt = self.state().attempt.clone();
        attempt.begin_read();
        let context = self.context.clone();
        self.start(move || async move {
            let result = match fated.fate {
                Fate::TooOld => {
                    if version.wait().await.is_ok() {
                        context.meet(&fated);
                        let life = context.knobs().max_read_transaction_life_versions;
                        context.outlive(life).await;
                    }
                    work().await
                }
                Fate::ReplyLate(seconds) => {
                    let result = work().await;
                    context.meet(&fated);
                    context.process.sleep(seconds).await;
                    result
                }
                _ => context.under(fated, work()).await,
            };
            attempt.end_read(result.as_ref().err().copied());
            result
        })
    }
}

impl Context {
    /// What the fate says happens now.
    pub(crate) fn meet(&self, fated: &Fated) {
        fated.is_met.set(true);
        self.process.happens(&fated.forced);
    }

    /// Lets a process die that is asked now, if it is the fate of the operation.
    pub(crate) fn strike(&self, server: ProcessId) {
        let fated = self.fated.borrow();
        let Some(fated) = fated.as_deref() else {
            return;
        };
        if fated.fate == Fate::ServerDies && !fated.is_met.get() {
            self.meet(fated);
            self.process.reboot(server, DEAD_SECONDS);
        }
    }

    /// Waits until a version that is new now is out of reach.
    pub(crate) async fn outlive(&self, life_versions: i64) {
        /// Servers forget old versions in steps.
        const MARGIN_SECONDS: f64 = 2.0;
        let life = life_versions as f64 / self.knobs().versions_per_second as f64;
        self.process.sleep(life + MARGIN_SECONDS).await;
    }

    /// Carries out work under a fate, which [`Context::is_early`] and [`Context::rows_left`] then
    /// know about.
    async fn under<T>(&self, fated: Rc<Fated>, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            let outer = self.fated.replace(Some(fated.clone()));
            let polled = work.as_mut().poll(context);
            self.fated.replace(outer);
            polled
        })
        .await
    }

    /// Whether the storage server that is asked has not got the version.
    pub(crate) fn is_early(&self) -> bool {
        let fated = self.fated.borrow();
        let fated = fated
            .as_deref()
            .filter(|fated| matches!(fated.fate, Fate::Early));
        if let Some(fated) = fated {
            self.meet(fated);
        }
        fated.is_some()
    }

    /// How many of the rows that a range read got are returned, if a fate cuts it short. A cut
    /// leaves at least `least`.
    pub(crate) fn rows_left(&self, rows: usize, least: usize) -> Option<usize> {
        let fated = self.fated.borrow();
        let fated = fated.as_deref()?;
        let Fate::Cut(count) = fated.fate else {
            return None;
        };
        if count < least || count >= rows {
            return None;
        }
        self.meet(fated);
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read() {
        for (outcome, fate) in [
            ("it is cut after 1 row", Fate::Cut(1)),
            ("it is cut after 12 rows", Fate::Cut(12)),
            ("its request is late by 1.5 s", Fate::RequestLate(1.5)),
            ("its reply is late by 30 s", Fate::ReplyLate(30.0)),
            ("it fires late by 5 s", Fate::Watch(WatchFate::Late(5.0))),
            ("another transaction commits first", Fate::Conflict),
        ] {
            assert_eq!(Fate::parse(outcome), Some(fate), "{outcome}");
        }
        for unknown in ["", "it is cut after many rows", "it rains late by 1 s"] {
            assert_eq!(Fate::parse(unknown), None, "{unknown}");
        }
    }
}
