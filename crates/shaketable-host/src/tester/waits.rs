//! What each client waits for: described when a phase does not end, and checked for progress before
//! that.
//!
//! "The run hangs" is not enough to find the cause. So for each client that has not ended its phase
//! the pending futures are listed: what was requested, for which key, since when, from which
//! server. Where places are noted ([`Recording`](crate::plan::Recording)), the line of the code
//! under test is known too.
//!
//! [`StallWatch`] looks at the same facts every few simulated seconds. With the fault workloads
//! over, a client that made no progress for long is stalled, and so is a run in which only watches
//! are pending: nothing is left that could change what they watch.

use super::progress::{Pending, WaitsFor};
use super::run::Run;
use super::testbed::{Client, Testbed};
use crate::call_site;
use crate::verdict::{FailureKind, Wait};
use shaketable_fdbc::{Ask, Outstanding};
use shaketable_kernel::Time;
use shaketable_record::text::key_text;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What a client may wait for at once and still be listed in full.
const WAITS_OF_A_CLIENT_MAX: usize = 5;
/// How often progress is looked at, in simulated seconds.
const LOOK_SECONDS: f64 = 5.0;
/// How long only watches must be pending before it is reported, in simulated seconds: longer than a
/// server holds a watch, so that each of them was requested again.
const WATCHES_ONLY_SECONDS: f64 = 60.0;

/// What a client waits for, before its line was looked up.
pub(super) struct Waiting {
    wait: Wait,
    place: Option<usize>,
}

impl From<Wait> for Waiting {
    fn from(wait: Wait) -> Waiting {
        Waiting { wait, place: None }
    }
}

/// Looks up the lines of the code under test.
pub(super) fn with_lines(waits: Vec<Waiting>) -> Vec<Wait> {
    let found = waits.into_iter().map(|Waiting { wait, place }| Wait {
        place: place.and_then(call_site::author_line),
        ..wait
    });
    found.collect()
}

/// What the clients wait for whose phase has not ended.
pub(super) fn describe(run: &Run, testbed: &Testbed) -> Vec<Waiting> {
    let mut waits = Vec::new();
    let mut pending = run.progress.pending();
    pending.sort_by_key(|pending| (pending.client, pending.workload));
    pending.dedup_by_key(|pending| pending.client);
    for Pending { client, .. } in pending {
        let Some(client) = testbed.clients.iter().find(|one| one.number == client) else {
            continue;
        };
        let mut outstanding = testbed.outstanding(client);
        outstanding.sort_by_key(|one| one.since);
        let left_out = outstanding.len().saturating_sub(WAITS_OF_A_CLIENT_MAX);
        outstanding.truncate(WAITS_OF_A_CLIENT_MAX);
        waits.extend(outstanding.iter().map(|one| wait(client, one)));
        if left_out > 0 {
            waits.push(Wait::of(client.number, format!("{left_out} more")).into());
        }
        if outstanding.is_empty() {
            waits.extend(questions(client).into_iter().map(Waiting::from));
        }
    }
    waits
}

fn wait(client: &Client, outstanding: &Outstanding) -> Waiting {
    let (what, key) = words(&outstanding.ask);
    let questions = client.questions();
    let question = key.and_then(|key| questions.into_iter().find(|one| one.key == *key));
    let wait = Wait {
        key: key.map(|key| key_text(key)),
        since: Some(outstanding.since.as_secs()),
        server: question.map(|question| question.server.to_string()),
        ..Wait::of(client.number, what)
    };
    Waiting {
        wait,
        place: outstanding.place,
    }
}

/// What a workload without pending futures of its own, such as the built-in one, has requested.
fn questions(client: &Client) -> Vec<Wait> {
    let questions = client.questions();
    if questions.is_empty() {
        let nothing = "nothing that is known: no future of the database and no delay is pending";
        return vec![Wait::of(client.number, nothing.to_owned())];
    }
    let waits = questions.into_iter().take(WAITS_OF_A_CLIENT_MAX);
    waits
        .map(|question| Wait {
            key: Some(key_text(&question.key)),
            server: Some(question.server.to_string()),
            ..Wait::of(client.number, "an answer about".to_owned())
        })
        .collect()
}

/// What is waited for, and the key it is about.
fn words(ask: &Ask) -> (String, Option<&shaketable_cluster::proto::Key>) {
    let (what, key) = match ask {
        Ask::ReadVersion => ("a read version", None),
        Ask::Get(key) => ("the value of", Some(key)),
        Ask::GetKey(key) => ("the key that a selector finds from", Some(key)),
        Ask::GetRange(begin, _) => ("the range from", Some(begin)),
        Ask::GetMappedRange(begin, _) => ("the mapped range from", Some(begin)),
        Ask::Watch(key) => ("a watch of", Some(key)),
        Ask::Commit => ("a commit", None),
        Ask::OnError(code) => {
            let name = shaketable_cluster::error::Error(*code).name();
            return (format!("the pause after error {code} ({name})"), None);
        }
        Ask::Versionstamp => ("the versionstamp of a commit", None),
        Ask::Addresses(key) => ("the servers of", Some(key)),
        Ask::Size(begin, _) => ("the size of the range from", Some(begin)),
        Ask::SplitPoints(begin, _) => ("the split points of the range from", Some(begin)),
        Ask::Estimate => ("an estimate", None),
        Ask::Delay(seconds) => return (format!("a delay of {seconds} s"), None),
        _ => ("an operation", None),
    };
    (what.to_owned(), key)
}

/// Watches over the progress of the clients.
#[derive(Default)]
pub(super) struct StallWatch {
    next_look: std::cell::Cell<Time>,
    /// For each client: how many operations it had done when that changed last, and when that was.
    done: RefCell<BTreeMap<u32, (u64, Time)>>,
}

/// Fails the run if only a minority is broken, and a phase takes longer than it then may.
fn is_not_live(run: &Run, testbed: &Testbed, now: Time) -> bool {
    let (Some(limit), Some(since)) = (run.given.liveness_seconds, run.aftermath.since()) else {
        return false;
    };
    let began = run.progress.phase_began.get();
    if run.progress.pending().is_empty() || now.since(since.max(began)) <= limit {
        return false;
    }
    let message = match began > since {
        true => format!(
            "the phase has not ended after {limit} simulated seconds; {} before it began",
            run.aftermath.broken()
        ),
        false => format!(
            "the phase has not ended, {limit} simulated seconds after {}",
            run.aftermath.broken()
        ),
    };
    run.fail_pending(testbed, FailureKind::NotLive, &message);
    true
}

/// How a client is getting on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It made progress lately, or is going to, or waits for another part of itself.
    Active,
    /// It has been waiting only for watches for a while.
    WatchesOnly,
    /// It waits for something else, and has made no progress for longer than allowed.
    Stalled,
}

impl StallWatch {
    /// Checks whether the clients make progress. Returns whether the run has failed because one
    /// does not.
    #[inline]
    pub(super) fn look(&self, run: &Run, testbed: &Testbed) -> bool {
        let now = run.kernel.now();
        now >= self.next_look.get() && self.look_closely(run, testbed, now)
    }

    /// When progress is looked at again.
    pub(super) fn next_look(&self) -> Time {
        self.next_look.get()
    }

    fn look_closely(&self, run: &Run, testbed: &Testbed, now: Time) -> bool {
        self.next_look.set(now.after(LOOK_SECONDS));
        if is_not_live(run, testbed, now) {
            return true;
        }
        let Some(limit) = run.given.stalled_after_seconds else {
            return false;
        };
        // While faults go on, anything may take long.
        let aftermath = run.aftermath.since();
        let Some(calm_since) = aftermath.or(run.progress.calm_since()) else {
            return false;
        };
        let kind = match aftermath {
            Some(_) => FailureKind::NotLive,
            None => FailureKind::Stalled,
        };
        let pending = run.progress.pending();
        let mut watches_only = !pending.is_empty();
        for Pending {
            client, waits_for, ..
        } in &pending
        {
            let Some(client) = testbed.clients.iter().find(|one| one.number == *client) else {
                continue;
            };
            if *waits_for == WaitsFor::Anything {
                watches_only = false;
                continue;
            }
            match self.standing(testbed, client, now, calm_since, limit) {
                Standing::Active => watches_only = false,
                Standing::WatchesOnly => {}
                Standing::Stalled => {
                    run.fail_pending(
                        testbed,
                        kind,
                        &format!(
                            "client {} got nothing done for {limit} simulated seconds, although no fault workload is running",
                            client.number
                        ),
                    );
                    return true;
                }
            }
        }
        if watches_only {
            run.fail_pending(
                testbed,
                kind,
                "nothing but watches is pending, and nothing is left that could change what they watch",
            );
        }
        watches_only
    }

    fn standing(
        &self,
        testbed: &Testbed,
        client: &Client,
        now: Time,
        calm_since: Time,
        limit: f64,
    ) -> Standing {
        let done = testbed.operations_done(client);
        let mut all = self.done.borrow_mut();
        let last = all.entry(client.number).or_insert((done, now));
        if last.0 != done {
            *last = (done, now);
        }
        let idle = now.since(last.1.max(calm_since));
        let (mut delays, mut watches, mut others) = (0, 0, 0);
        let mut newest: Option<Time> = None;
        testbed.look_at_outstanding(client, |one| {
            newest = newest.max(Some(one.since));
            match one.ask {
                Ask::Delay(_) => delays += 1,
                Ask::Watch(_) => watches += 1,
                _ => others += 1,
            }
        });
        if delays > 0 || watches + others == 0 {
            return Standing::Active;
        }
        if others == 0 {
            let waited = newest.map_or(0.0, |newest| now.since(newest));
            return match waited.min(idle) > WATCHES_ONLY_SECONDS {
                true => Standing::WatchesOnly,
                false => Standing::Active,
            };
        }
        match idle > limit {
            true => Standing::Stalled,
            false => Standing::Active,
        }
    }
}
