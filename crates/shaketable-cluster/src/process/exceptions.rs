//! What processes see or do beyond their own borders, and why.
//!
//! In each case a real cluster sends many messages to say something simple, and sending them here
//! would change what clients see, or cost more than it tells. `docs/fidelity.md` lists them all.
//! Nothing else in this crate passes from one process to another without a message.

use super::Process;
use shaketable_kernel::{AsyncVar, Notified, ProcessId, Time};
use std::cell::Cell;

/// Where the cluster controller is, seen by all processes as soon as it begins.
///
/// In a real cluster candidates register with the coordinators, which tell clients and servers of
/// the leader they nominated. Here a controller announces itself, and every process sees it in the
/// same instant; what clients notice of an election is drawn from the time that the coordinators
/// take to miss the old controller. With leaders learned by messages, controllers overlap and
/// clients wait longer for a read version than clients of FoundationDB do: the calibration in
/// `tests/cluster/calibration.rs` was made with this variable.
pub struct Announced<T>(AsyncVar<Option<T>>);

impl<T: Clone> Announced<T> {
    /// The newest announcement, if there has been one.
    pub fn get(&self) -> Option<T> {
        self.0.get()
    }

    /// Replaces the announcement and wakes every task that waits for one.
    pub fn announce(&self, news: T) {
        self.0.replace(Some(news));
    }

    /// Waits for the next announcement, counted from this call.
    pub fn on_change(&self) -> Notified {
        self.0.on_change()
    }

    /// Waits until the announcement satisfies the condition; returns at once if it already does.
    pub async fn wait_for(&self, condition: impl FnMut(&Option<T>) -> bool) {
        self.0.wait_for(condition).await;
    }
}

impl<T> Default for Announced<T> {
    fn default() -> Self {
        Announced(AsyncVar::new(None))
    }
}

impl<T> Clone for Announced<T> {
    fn clone(&self) -> Self {
        Announced(self.0.clone())
    }
}

/// The last time no commit batch was under way, seen by all servers at once.
///
/// A real cluster commits an empty batch whenever nothing has been committed for a moment, and
/// these batches show its storage servers that versions pass. An idle cluster here does nothing at
/// all, so that simulated time costs nothing; a storage server works out which versions it would
/// have seen. For that it must know whether a version has been assigned that is still on its way.
pub(crate) struct Quiet(Cell<Pause>);

/// From the end of the last commit batch until the next one began, if one has.
#[derive(Clone, Copy)]
struct Pause {
    from: Time,
    until: Option<Time>,
}

impl Quiet {
    /// No batch has been committed yet, and no pause has begun.
    pub(crate) fn new() -> Quiet {
        Quiet(Cell::new(Pause {
            from: Time::ZERO,
            until: Some(Time::ZERO),
        }))
    }

    /// Returns how much of the time since `then` passed with no commit batch under way. While one
    /// is under way, this time stands still.
    pub(crate) fn seconds_since(&self, then: Time, here: &Process) -> f64 {
        let Pause { from, until } = self.0.get();
        let until = until.unwrap_or_else(|| here.now());
        until.since(from.max(then)).max(0.0)
    }

    /// Called by the sequencer: records whether a commit batch is under way.
    pub(crate) fn note_batches(&self, under_way: bool, here: &Process) {
        let (now, pause) = (here.now(), self.0.get());
        self.0.set(if under_way {
            Pause {
                from: pause.from,
                until: pause.until.or(Some(now)),
            }
        } else {
            Pause {
                from: now,
                until: None,
            }
        });
    }
}

impl Process {
    /// Whether another process truly lives.
    ///
    /// A real controller hears from every worker again and again, and recruits or informs only
    /// those that it has heard from lately. Here no worker registers, so that an idle cluster does
    /// nothing; a process that is about to be recruited, elected or informed is looked at instead.
    pub(crate) fn is_truly_alive(&self, process: ProcessId) -> bool {
        self.kernel.is_alive(process)
    }

    /// Whether another process has died since the life with this number began.
    ///
    /// A coordinator of a real cluster forgets a leader that sends no heartbeats. Here a leader
    /// sends none, and a coordinator that was not watching when it died, because it was down
    /// itself, sees from the number of its life that this is a different one.
    pub(crate) fn has_died_since(&self, process: ProcessId, incarnation: u32) -> bool {
        self.kernel.incarnation(process) != incarnation
    }

    /// Until when messages from another process to this one are held up.
    ///
    /// A storage server of a real cluster asks its log for every batch. Here a log sends without
    /// being asked, which halves the messages of a commit, and waits if the request could not have
    /// arrived.
    pub(crate) fn held_until(&self, from: ProcessId) -> Time {
        self.kernel.held_until(from, self.id)
    }

    /// Clogs the way from this process to another, for a log under stress, which lags on purpose.
    ///
    /// Stress strikes at moments that only a role knows: when it has sent something, or while a
    /// commit is under way. A role learns nothing by it, and does nothing to the network that a
    /// fault workload could not do.
    pub(crate) fn clog_towards(&self, to: ProcessId, seconds: f64) {
        let ip = |process| self.kernel.process(process).address.ip;
        self.kernel.clog_pair(ip(self.id), ip(to), seconds);
    }

    /// Breaks the connection to another process, for a commit proxy under stress; see
    /// [`Process::clog_towards`].
    pub(crate) fn close_connection(&self, other: ProcessId) {
        self.kernel.close_connection(self.id, other);
    }
}
