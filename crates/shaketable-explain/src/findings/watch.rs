//! Watches that could not do what was expected of them.
//!
//! A watch begins when its transaction commits, compares with what that transaction read, and says
//! no more than that a look may be worth it.

use super::Candidate;
use super::doubt::capital;
use crate::Finding;
use crate::focus::Focus;
use crate::history::{Change, History};
use crate::words::{attempt, call, committed};
use shaketable_record::{Answer, AttemptId, Call, End, OperationId};

/// How many attempts before a watch may have read what it rings for.
const BELL_ATTEMPTS: usize = 3;

pub fn find(history: &History<'_>, focus: &Focus<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for id in history.attempts_of(focus.client) {
        if history.attempt(*id).begun > focus.time {
            break;
        }
        for operation in history.operations_of(*id) {
            let Call::Watch { key } = &history.operation(*operation).call else {
                continue;
            };
            let watch = Watch {
                history,
                id: *id,
                operation: *operation,
                key: key.kept(),
            };
            found.extend(watch.never_committed());
            found.extend(watch.too_late());
            found.extend(watch.counted());
        }
    }
    found
}

struct Watch<'h, 'a> {
    history: &'h History<'a>,
    id: AttemptId,
    operation: OperationId,
    key: &'a [u8],
}

impl Watch<'_, '_> {
    fn is_silent(&self) -> bool {
        let answer = &self.history.operation(self.operation).answer;
        matches!(answer, Answer::Pending | Answer::Dropped)
    }

    /// Whether an attempt watches the same key.
    fn is_set_in(&self, id: AttemptId) -> bool {
        let calls = self.history.operations_of(id).iter();
        let mut calls = calls.map(|id| &self.history.operation(*id).call);
        calls.any(|call| matches!(call, Call::Watch { key } if key.kept() == self.key))
    }

    fn committed(&self) -> bool {
        let own = self.history.attempt(self.id);
        own.commit.is_some() && own.end == End::Committed
    }

    /// The changes that readers at the second version see and those at the first do not.
    fn changes(&self, after: i64, up_to: i64) -> Vec<&Change> {
        let version = |change: &&Change| self.history.version_of(change.committed);
        let all = self.history.changes(self.key).iter();
        all.filter(|change| version(change) > after && version(change) <= up_to)
            .collect()
    }

    fn never_committed(&self) -> Option<Candidate> {
        let (history, own) = (self.history, self.history.attempt(self.id));
        if own.commit.is_some()
            || !matches!(
                own.end,
                End::Open | End::Dropped | End::Reset | End::Cancelled
            )
        {
            return None;
        }
        let missed = self.changes(own.read_version?, i64::MAX);
        let missed = missed.first()?;
        let text = history.key_text(self.key);
        Some(Candidate {
            finding: Finding {
                name: "watch-not-committed",
                sentence: format!(
                    "{} watches {text}{} in a transaction that never commits, so the watch never begins \
                     and the change by {} wakes nothing up.",
                    capital(&history.who(self.id)),
                    history.at_place(Some(self.operation)),
                    history.author(missed.committed),
                ),
                proof: vec![
                    call(self.operation, format!("watches {text}")),
                    attempt(self.id, "this transaction never asks for its commit"),
                    committed(missed.committed, history.change_text(self.key, missed)),
                ],
                advice:
                    "Commit the transaction that sets a watch, even if it only reads; then wait."
                        .to_owned(),
                times: 1,
            },
            weight: 94,
            keys: vec![self.key.to_vec()],
            // The failed phase never looked again: that is the point.
            commits: Vec::new(),
        })
    }

    fn too_late(&self) -> Option<Candidate> {
        let (history, own) = (self.history, self.history.attempt(self.id));
        if !self.is_silent() || !self.committed() {
            return None;
        }
        let all = history.attempts_of(own.client);
        let at = all.partition_point(|id| *id < self.id);
        let earlier = || {
            let earlier = all[..at].iter().rev();
            let other = |id: &&AttemptId| history.attempt(**id).transaction != own.transaction;
            // A read with a watch of its own is guarded by that one.
            earlier.filter(other).take_while(|id| !self.is_set_in(**id))
        };
        let of_key = || {
            let mut reads = earlier().flat_map(|id| history.reads(*id));
            let read = reads.find(|read| read.covers(self.key))?;
            let missed = self.changes(read.version, own.read_version?);
            Some((read, *missed.last()?))
        };
        // Or the key is a bell, and what it rings for had been read.
        let of_bell = || {
            let mut reads = earlier()
                .take(BELL_ATTEMPTS)
                .flat_map(|id| history.reads(*id));
            reads.find_map(|read| {
                let rings = |change: &&Change| {
                    let mut keys = history.keys_of(change.committed).into_iter();
                    keys.any(|(key, change)| read.covers(key) && change.before != change.after)
                };
                let missed = self.changes(read.version, own.read_version?);
                let missed = missed.into_iter().rfind(rings)?;
                Some((read, missed))
            })
        };
        let (read, missed) = of_key().or_else(of_bell)?;
        let text = history.key_text(self.key);
        Some(Candidate {
            finding: Finding {
                name: "watch-too-late",
                sentence: format!(
                    "{} read {}{}, {} changed {}, and only then the watch was set{}: it waits for the \
                     next change.",
                    capital(&history.who(self.id)),
                    history.key_text(read.begin),
                    history.at_place(Some(read.operation)),
                    history.author(missed.committed),
                    match read.covers(self.key) {
                        true => "it".to_owned(),
                        false => format!("it and {text}"),
                    },
                    history.at_place(Some(self.operation)),
                ),
                proof: vec![
                    call(
                        read.operation,
                        match read.covers(self.key) {
                            true => history.saw_text(self.key, read.version),
                            false => format!("reads {}", history.key_text(read.begin)),
                        },
                    ),
                    committed(missed.committed, history.change_text(self.key, missed)),
                    call(
                        self.operation,
                        format!("watches {text} from now on; it never fires"),
                    ),
                ],
                advice:
                    "Read the value and set the watch in one transaction, and use the value that \
                         this transaction read."
                        .to_owned(),
                times: 1,
            },
            weight: 92,
            keys: vec![self.key.to_vec(), read.begin.to_vec()],
            // The failed phase never looked again: that is the point.
            commits: Vec::new(),
        })
    }

    fn counted(&self) -> Option<Candidate> {
        let (history, own) = (self.history, self.history.attempt(self.id));
        let fired = history.operation(self.operation);
        if self.is_silent() || !self.committed() || matches!(fired.answer, Answer::Error(_)) {
            return None;
        }
        let fired_at = fired.answered?;
        let all = history.attempts_of(own.client).iter();
        let next = all
            .filter(|id| history.attempt(**id).begun >= fired_at)
            .find_map(|id| history.reads(*id).find(|read| read.covers(self.key)))?;
        let changes = self.changes(own.read_version?, next.version);
        if changes.len() == 1 {
            return None;
        }
        // What is written together with it is what its change announces.
        let written = changes.iter().map(|change| change.committed);
        let written = written.flat_map(|commit| history.keys_of(commit));
        let announced = written.map(|(key, _)| key.to_vec());
        let text = history.key_text(self.key);
        let mut proof = vec![call(
            self.operation,
            format!("watches {text}; it fires once"),
        )];
        proof.extend(
            changes
                .iter()
                .map(|change| committed(change.committed, history.change_text(self.key, change))),
        );
        proof.push(call(
            next.operation,
            format!(
                "the next look: {}",
                history.saw_text(self.key, next.version)
            ),
        ));
        Some(Candidate {
            finding: Finding {
                name: "watch-counted",
                sentence: format!(
                    "The watch of {} on {text}{} fired once for {} changes: what it says is that a look \
                     may be worth it, not what happened.",
                    history.who(self.id),
                    history.at_place(Some(self.operation)),
                    changes.len(),
                ),
                proof,
                advice:
                    "When a watch fires, read the value and go by what was read; never count or \
                         assume."
                        .to_owned(),
                times: 1,
            },
            weight: 50,
            keys: vec![self.key.to_vec()]
                .into_iter()
                .chain(announced)
                .collect(),
            commits: changes.iter().map(|change| change.committed).collect(),
        })
    }
}
