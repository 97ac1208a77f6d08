//! A client that does not recognise its own work.
//!
//! A commit whose result was unknown had taken effect. What comes next looks at the database, finds
//! it changed, and takes the change for another client's; or does not look, and takes the commit
//! for one that failed:
//!
//! * a name or a lock is found taken: by the attempt before;
//! * a lease is found taken, and waited for: by the client that holds it without knowing;
//! * a row of a queue is gone, taken by the attempt before, and the next one is taken instead;
//! * the transaction is given up, and what it did stays.
//!
//! A receipt that a retry finds looks much the same in a record, and is the right thing to do. So a
//! finding needs more: the same content once more under another key, a row that is missing, that
//! the failure itself speaks of what was left behind, or that the client looks for it to go away
//! until the end.

use super::Candidate;
use super::died::deaths;
use super::doubt::{TRANSACTIONS_AFTER, begun_anew, capital, doubt_words, doubtful_proof};
use crate::Finding;
use crate::focus::Focus;
use crate::history::{Change, History, How, written};
use crate::words::{call, committed, number, value_text};
use shaketable_record::{AttemptId, Bytes, CommittedId, End, OperationId, PlaceId};
use std::cmp::Ordering;
use std::collections::BTreeSet;

const OWN_ENTRY: &str = "own-entry-not-recognised";
const OWN_ENTRY_ADVICE: &str = "Write into the entry who made it and for which request, and \
                                compare: an entry that a retry finds may be its own.";

/// How often a client must have looked for its own entry to go away.
const LOOKS_MIN: usize = 2;

pub fn find(history: &History<'_>, focus: &Focus<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (first, _) in history.attempts() {
        let Some(landed) = history.landed(first).filter(|_| history.is_doubtful(first)) else {
            continue;
        };
        let own = Own {
            history,
            focus,
            first,
            landed,
            retries: history.later_attempts(first).collect(),
        };
        found.extend(own.entry());
        found.extend(own.waited_for());
        found.extend(own.taken());
        found.extend(own.given_up());
    }
    found
}

/// A commit in doubt that had taken effect.
struct Own<'h, 'a> {
    history: &'h History<'a>,
    focus: &'h Focus<'a>,
    first: AttemptId,
    landed: CommittedId,
    /// The attempts of the same transaction after it.
    retries: Vec<AttemptId>,
}

impl<'a> Own<'_, 'a> {
    /// Whether no retry committed anything.
    fn is_the_last(&self) -> bool {
        let mut retries = self.retries.iter();
        retries.all(|retry| self.history.landed(*retry).is_none())
    }

    /// The commits of the client's next transactions.
    fn next(&self) -> Vec<(AttemptId, CommittedId)> {
        let history = self.history;
        let own = history.attempt(self.first);
        let mut transactions = Vec::new();
        let mut found = Vec::new();
        for id in history
            .attempts_of(own.client)
            .iter()
            .filter(|id| **id > self.first)
        {
            let transaction = history.attempt(*id).transaction;
            if transaction == own.transaction {
                continue;
            }
            if !transactions.contains(&transaction) {
                transactions.push(transaction);
            }
            if transactions.len() > TRANSACTIONS_AFTER {
                break;
            }
            found.extend(history.landed(*id).map(|landed| (*id, landed)));
        }
        found
    }

    /// Whether a retry found another row that the commit had added: a receipt, by which it knew.
    fn finds_another_entry(&self, retry: AttemptId, key: &[u8]) -> bool {
        let keys = self.history.keys_of(self.landed).into_iter();
        let mut added = keys.filter(|(other, change)| {
            *other != key && change.before.is_none() && change.after.is_some()
        });
        added.any(|(other, _)| {
            let mut reads = self.history.reads(retry);
            reads.any(|read| read.point && read.covers(other))
        })
    }

    /// A row that the commit added was found by the retry, which wrote nothing any more.
    fn entry(&self) -> Option<Candidate> {
        let history = self.history;
        if !self.is_the_last() {
            return None;
        }
        let look = |key: &[u8]| -> Option<(AttemptId, OperationId)> {
            self.retries.iter().find_map(|retry| {
                let mut reads = history.reads(*retry);
                let read = reads.find(|read| read.point && read.covers(key))?;
                Some((*retry, read.operation))
            })
        };
        for (key, change) in history.keys_of(self.landed) {
            let (Some(value), Some((retry, read))) = (&change.after, look(key)) else {
                continue;
            };
            if change.how != How::Set || change.before.as_ref() == Some(value) {
                continue;
            }
            // A number may well be the same for another request.
            let is_new = change.before.is_none()
                && number(value).is_none()
                && history.identifies(self.first, key, value);
            let place = |attempt, key: &[u8]| {
                let writer = history.writer(attempt, key);
                writer.and_then(|id| history.operation(id).place)
            };
            // The next thing that the same line writes.
            let at_line =
                |(again, _): &(&'a [u8], &Change), id| place(id, again) == place(self.first, key);
            let next = self.next().into_iter().find_map(|(id, other)| {
                let mut keys = history.keys_of(other).into_iter();
                let (again, change) = keys.find(|change| at_line(change, id))?;
                Some((other, again, change.clone()))
            });
            let twin = next.filter(|(_, again, change)| {
                let of_request = match (*again == key, &change.after) {
                    (false, after) => is_new && after.as_ref() == Some(value),
                    (true, after) => {
                        !self.finds_another_entry(retry, key)
                            && after.as_ref().is_some_and(|after| is_next(value, after))
                    }
                };
                of_request && change.how == How::Set
            });
            let text = history.key_text(key);
            // The failure speaks of the key and of what is in it.
            let spoken_of =
                self.focus.mentions(&text) > 0 && self.focus.mentions(&value_text(value)) > 0;
            let left = is_new && self.focus.saw(history, key, self.landed) && spoken_of;
            let mut proof = doubtful_proof(history, self.first, self.landed, key);
            proof.push(call(read, format!("finds {text}: {}", value_text(value))));
            let (meaning, weight, keys, commits) = match twin {
                Some((other, again, change)) => {
                    let other_text = history.key_text(again);
                    proof.push(committed(other, history.change_text(again, &change)));
                    let as_well = if again == key { "again" } else { "as well" };
                    (
                        format!("wrote {other_text} {as_well}"),
                        match (again == key, change.after.as_ref().and_then(number)) {
                            (false, _) => 93,
                            (true, None) => 86,
                            // A number does not say which request it is of.
                            (true, Some(_)) => 57,
                        },
                        vec![key.to_vec(), again.to_vec()],
                        vec![self.landed, other],
                    )
                }
                None if left => {
                    let meaning = "never came back to it".to_owned();
                    (meaning, 92, vec![key.to_vec()], vec![self.landed])
                }
                None => continue,
            };
            return Some(Candidate {
                finding: Finding {
                    name: OWN_ENTRY,
                    sentence: format!(
                        "{} wrote {text}{}. The commit of attempt {} {} but had landed; attempt {} \
                         found the entry{}, the client took it for that of another one, and {meaning}.",
                        capital(&history.who(self.first)),
                        history.at_place(history.writer(self.first, key)),
                        history.attempt(self.first).number,
                        doubt_words(history, self.first),
                        history.attempt(retry).number,
                        history.at_place(Some(read)),
                    ),
                    proof,
                    advice: OWN_ENTRY_ADVICE.to_owned(),
                    times: 1,
                },
                weight,
                keys,
                commits,
            });
        }
        None
    }

    /// A row that the commit added was found by the retry, and looked at by the client again and
    /// again, at the same line and without doing anything else, until the failure saw it too: it
    /// waits for itself.
    fn waited_for(&self) -> Option<Candidate> {
        let history = self.history;
        if !self.is_the_last() {
            return None;
        }
        let mut keys = history.keys_of(self.landed).into_iter();
        let (key, change, retry, found) = keys.find_map(|(key, change)| {
            let is_new = change.how == How::Set && change.before.is_none();
            let mut retries = self.retries.iter();
            let (retry, found) = retries.find_map(|id| Some((*id, self.look(*id, key)?)))?;
            is_new.then_some((key, change, retry, found))
        })?;
        let looks = self.looks_after(retry, key, history.operation(found).place?);
        let last = *looks.last()?;
        let client = history.attempt(self.first).client;
        let never_stops =
            history.attempts_of(client).last() == Some(&history.operation(last).attempt);
        let is_seen = self.focus.saw(history, key, self.landed);
        if looks.len() < LOOKS_MIN || !(is_seen || never_stops && self.focus.client.is_none()) {
            return None;
        }
        // Where clients look at what they have written, and know it, looking proves nothing.
        if self.others_look_too(key, history.operation(found).place?) {
            return None;
        }
        let text = history.key_text(key);
        let value = change.after.as_ref().map_or("empty".to_owned(), value_text);
        let mut proof = doubtful_proof(history, self.first, self.landed, key);
        proof.push(call(found, format!("finds {text}: {value}")));
        proof.push(call(last, "finds it still".to_owned()));
        Some(Candidate {
            finding: Finding {
                name: OWN_ENTRY,
                sentence: format!(
                    "{} wrote {text}{}. The commit of attempt {} {} but had landed; attempt {} \
                     found the entry{}, the client took it for that of another one, and waits for \
                     itself: it looked {} times more, and found its own entry each time.",
                    capital(&history.who(self.first)),
                    history.at_place(history.writer(self.first, key)),
                    history.attempt(self.first).number,
                    doubt_words(history, self.first),
                    history.attempt(retry).number,
                    history.at_place(Some(found)),
                    looks.len(),
                ),
                proof,
                advice: OWN_ENTRY_ADVICE.to_owned(),
                times: 1,
            },
            weight: 91,
            keys: vec![key.to_vec()],
            commits: vec![self.landed],
        })
    }

    /// The read of one key in an attempt.
    fn look(&self, attempt: AttemptId, key: &[u8]) -> Option<OperationId> {
        let mut reads = self.history.reads(attempt);
        let read = reads.find(|read| read.point && read.covers(key))?;
        Some(read.operation)
    }

    /// What the client did after the retry, as long as it lived, if that is nothing but looking at
    /// the entry at this line, and finding it: the reads. After its death it knows nothing of the
    /// entry.
    fn looks_after(&self, retry: AttemptId, key: &[u8], line: PlaceId) -> Vec<OperationId> {
        let history = self.history;
        let own = history.attempt(retry);
        let mut deaths = deaths(history, own.client);
        let death = deaths.find(|death| *death > own.begun);
        let is_alive = |time: f64| death.is_none_or(|death| time < death);
        let all = history.attempts_of(own.client);
        let after = &all[all.partition_point(|id| *id <= retry)..];
        // A check looks at everything, whoever waits for it.
        let is_waiting = |id: &&AttemptId| {
            let other = history.attempt(**id);
            other.phase == own.phase && is_alive(other.begun) && other.begun <= self.focus.time
        };
        let mut looks = Vec::new();
        for id in after.iter().take_while(is_waiting) {
            let look = self.look(*id, key);
            let finds = look.is_some_and(|look| {
                let version = history.attempt(*id).read_version;
                let seen = version.and_then(|version| history.change_seen(key, version));
                history.operation(look).place == Some(line)
                    && seen.is_some_and(|seen| seen.committed == self.landed)
            });
            let is_idle = writes(history, *id).next().is_none();
            match look {
                Some(look) if finds && is_idle => looks.push(look),
                // An attempt that failed before it was told anything.
                None if is_idle && history.reads(*id).next().is_none() => {}
                _ => return Vec::new(),
            }
        }
        looks
    }

    /// Whether a client whose commit of such an entry was answered looked at it at this line all
    /// the same, as the next thing that it did, and left it as it was.
    fn others_look_too(&self, key: &[u8], line: PlaceId) -> bool {
        let history = self.history;
        let mut changes = history.changes(key).iter();
        changes.any(|change| {
            let writer = history.committed(change.committed).attempt;
            let Some(writer) = writer.filter(|id| !history.is_doubtful(*id)) else {
                return false;
            };
            let all = history.attempts_of(history.attempt(writer).client);
            let next = all.get(all.partition_point(|id| *id <= writer));
            let look = next.and_then(|next| Some((*next, self.look(*next, key)?)));
            look.is_some_and(|(next, look)| {
                let version = history.attempt(next).read_version;
                let seen = version.and_then(|version| history.change_seen(key, version));
                history.operation(look).place == Some(line)
                    && writes(history, next).next().is_none()
                    && change.after.is_some()
                    && seen.is_some_and(|seen| seen.committed == change.committed)
            })
        })
    }

    /// A row that the commit cleared was not there any more for the retry, which took another one,
    /// or none.
    fn taken(&self) -> Option<Candidate> {
        let history = self.history;
        let own = history.keys_of(self.landed);
        // Something tells what was taken.
        if own.iter().any(|(_, change)| change.after.is_some()) {
            return None;
        }
        let cleared = |(_, change): &&(&'a [u8], &Change)| {
            change.how == How::Clear && change.before.is_some()
        };
        let (key, change) = own.iter().find(cleared)?;
        let chosen = |attempt: AttemptId| {
            let mut reads = history.reads(attempt);
            reads.find(|read| !read.point && read.covers(key))
        };
        let read = chosen(self.first)?;
        // The last one is what the client went by.
        let mut retries = self.retries.iter().rev();
        let (retry, again) = retries.find_map(|id| Some((*id, chosen(*id)?)))?;
        let next = history.landed(retry).and_then(|landed| {
            let keys = history.keys_of(landed);
            let mut next = keys.into_iter().filter(|(other, _)| other != key);
            next.find(|(_, change)| change.how == How::Clear && change.before.is_some())
        });
        let text = history.key_text(key);
        let instead = match next {
            Some((next, _)) => format!("and took {} instead", history.key_text(next)),
            None => "and took nothing".to_owned(),
        };
        // What the client makes of such rows, it did not make of this one.
        let next = self.next().into_iter();
        let made_of_it = next.flat_map(|(_, landed)| history.keys_of(landed));
        let made_of_it = made_of_it.map(|(key, _)| key.to_vec());
        let mut proof = doubtful_proof(history, self.first, self.landed, key);
        proof.insert(0, call(read.operation, history.saw_text(key, read.version)));
        proof.push(call(again.operation, format!("looks again, {instead}")));
        Some(Candidate {
            finding: Finding {
                name: "lost-after-unknown-result",
                sentence: format!(
                    "{} took {text}{}, which was {}. The commit of attempt {} {} but had landed; \
                     attempt {} looked again{}, did not find it, {instead}: what the first one took \
                     is lost.",
                    capital(&history.who(self.first)),
                    history.at_place(history.writer(self.first, key)),
                    change
                        .before
                        .as_ref()
                        .map_or("empty".to_owned(), value_text),
                    history.attempt(self.first).number,
                    doubt_words(history, self.first),
                    history.attempt(retry).number,
                    history.at_place(Some(again.operation)),
                ),
                proof,
                advice:
                    "Write down what was taken in the transaction that takes it, under an id that \
                         was made before the first attempt, and let every attempt look there first."
                        .to_owned(),
                times: 1,
            },
            weight: 82,
            keys: made_of_it.chain([key.to_vec()]).collect(),
            commits: vec![self.landed],
        })
    }

    /// The transaction was not run again, and what the commit did stays.
    fn given_up(&self) -> Option<Candidate> {
        let history = self.history;
        let ended = matches!(
            history.attempt(self.first).end,
            End::Failed(_) | End::DroppedInCommit | End::Dropped
        );
        if !ended || !self.retries.is_empty() {
            return None;
        }
        // What is done anew is not given up.
        if begun_anew(history, self.first, self.landed).is_some() {
            return None;
        }
        let keys = history.keys_of(self.landed);
        // The client writes over it without a look, as if it had not happened.
        let undone = self.next().into_iter().find_map(|(id, other)| {
            let changes = history.keys_of(other);
            let (key, change) = changes.into_iter().find(|(key, change)| {
                let first = keys.iter().find(|(known, _)| known == key);
                let looks = history.reads(id).any(|read| read.covers(key));
                let differs = first
                    .is_some_and(|(_, first)| first.how == How::Set && first.after != change.after);
                differs && !looks && change.how != How::Atomic
            })?;
            Some((id, other, key, change.clone()))
        });
        // Or it does what it does after a failure, and never otherwise.
        let reaction = self.next().into_iter().next();
        let reaction = reaction.filter(|(id, _)| is_reaction(history, *id));
        let too_much = keys.iter().find(|(key, change)| {
            let number = |value: &Option<Bytes>| value.as_ref().map_or(Some(0), number);
            let grew = match (number(&change.before), number(&change.after)) {
                (Some(before), Some(after)) => after.cmp(&before),
                _ => return false,
            };
            grew != Ordering::Equal && self.focus.compared(history, key) == Some(grew)
        });
        let saw = keys
            .iter()
            .find(|(key, _)| self.focus.saw(history, key, self.landed));
        let instead = reaction.and_then(|(id, landed)| {
            let (key, _) = too_much.or(saw)?;
            let (changed, _) = history.keys_of(landed).into_iter().next()?;
            let line = history.at_place(writes(history, id).next());
            let text = history.key_text(changed);
            Some((*key, format!("changed {text}{line} in its place")))
        });
        let (key, meaning, weight) = match (&undone, too_much) {
            (Some((id, _, key, change)), _) => {
                let what = match change.after {
                    Some(_) => "wrote over",
                    None => "cleared",
                };
                let line = history.at_place(history.writer(*id, key));
                (*key, format!("{what} {}{line}", history.key_text(key)), 81)
            }
            (None, _) if instead.is_some() => {
                let (key, meaning) = instead?;
                (key, meaning, 81)
            }
            (None, Some((key, _))) => (*key, "went on with something else".to_owned(), 62),
            (None, None) => return None,
        };
        let mut proof = doubtful_proof(history, self.first, self.landed, key);
        let mut commits = vec![self.landed];
        if let (None, Some((_, other))) = (&undone, reaction) {
            proof.push(committed(
                other,
                "what the client does after a failure only",
            ));
        }
        if let Some((_, other, key, change)) = &undone {
            proof.push(committed(*other, history.change_text(key, change)));
            commits.push(*other);
        }
        Some(Candidate {
            finding: Finding {
                name: "unknown-result-taken-for-failure",
                sentence: format!(
                    "{} took the commit of transaction {} for one that had failed: it {} but had \
                     landed, and the client {meaning}.",
                    capital(&history.who(self.first)),
                    history.attempt(self.first).transaction,
                    doubt_words(history, self.first),
                ),
                proof,
                advice: "A commit without an answer may have happened. Run the transaction again, and \
                         let it look for what the first attempt wrote; only then say that it failed."
                    .to_owned(),
                times: 1,
            },
            weight,
            keys: keys.iter().map(|(key, _)| key.to_vec()).collect(),
            commits,
        })
    }
}

/// The shortest text that two values have in common for a reason.
const SHARED_CHARACTERS_MIN: usize = 4;

/// Whether a value is what the same request makes of another: both are plain numbers, which say
/// nothing of a request, or they share a part of it.
fn is_next(value: &Bytes, next: &Bytes) -> bool {
    if let (Some(value), Some(next)) = (number(value), number(next)) {
        return value != next;
    }
    let (value, next) = (value_text(value), value_text(next));
    let parts = |text: &'_ str| -> Vec<String> {
        let parts = text
            .split(", ")
            .map(|part| part.trim_matches(['(', ')', ',']));
        parts.map(str::to_owned).collect()
    };
    let (value, next) = (parts(&value), parts(&next));
    let shared = |(one, two): (&String, &String)| one == two && one.len() >= SHARED_CHARACTERS_MIN;
    value != next && value.iter().zip(&next).any(shared)
}

/// Whether an attempt writes at lines that run only after a commit that was given up: then its
/// client has noticed, and this is what it made of it.
pub fn is_reaction(history: &History<'_>, id: AttemptId) -> bool {
    let lines = |id| -> BTreeSet<Option<PlaceId>> {
        writes(history, id)
            .map(|id| history.operation(id).place)
            .collect()
    };
    let own = lines(id);
    let after_failure = |id: AttemptId| {
        let attempt = history.attempt(id);
        let all = history.attempts_of(attempt.client);
        let before = all[..all.partition_point(|other| *other < id)].iter().rev();
        let mut before =
            before.filter(|other| history.attempt(**other).transaction != attempt.transaction);
        before.next().is_some_and(|before| {
            let given_up = matches!(history.attempt(*before).end, End::Failed(_));
            given_up && history.is_doubtful(*before)
        })
    };
    let mut same = history
        .attempts()
        .map(|(id, _)| id)
        .filter(|other| lines(*other) == own);
    !own.is_empty() && !own.contains(&None) && same.all(after_failure)
}

fn writes<'h>(history: &'h History<'_>, id: AttemptId) -> impl Iterator<Item = OperationId> + 'h {
    let operations = history.operations_of(id).iter().copied();
    operations.filter(|id| written(&history.operation(*id).call).is_some())
}
