//! A look that is no single look.
//!
//! A range of which only the first batch was read; a scan that went on in a newer transaction, so
//! that its rows are of different moments; a row that appeared behind a reader which had gone past
//! its place, because the place was chosen before the commit.

use super::Candidate;
use super::doubt::capital;
use crate::Finding;
use crate::focus::Focus;
use crate::history::{Change, History, How, Read, after};
use crate::words::{attempt, call, committed};
use shaketable_record::{Answer, AttemptId, Call, CommittedId, OperationId, RangeCall};

/// How many attempts of a client after a range read are searched for its continuation.
const ATTEMPTS_AFTER: usize = 2;

pub fn find(history: &History<'_>, focus: &Focus<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (id, _) in history.attempts() {
        let in_focus = focus.attempts.contains(&id);
        for operation in not_continued(history, id) {
            found.push(not_continued_finding(history, id, operation, in_focus));
        }
        if in_focus {
            let limited = limited(history, id).into_iter();
            found.extend(limited.map(|operation| {
                let mut candidate = not_continued_finding(history, id, operation, true);
                // As many as were wanted: whether that was meant, only the author knows.
                candidate.weight = 59;
                candidate
            }));
        }
    }
    found.extend(continued_in_retry(history, focus));
    found.extend(pages(history, focus));
    found.extend(torn(history, focus));
    found.extend(torn_pages(history, focus));
    found.extend(behind_the_reader(history, focus));
    found
}

/// The range reads of an attempt that had more rows, which were never asked for, although more were
/// wanted.
pub fn not_continued(history: &History<'_>, id: AttemptId) -> Vec<OperationId> {
    let wanted = |operation: &OperationId| {
        unfinished(history, *operation)
            .is_some_and(|(call, _, count)| call.limit <= 0 || count < call.limit.unsigned_abs())
    };
    let mut found = left_open(history, id);
    found.retain(wanted);
    found
}

/// The range reads of an attempt that returned as many rows as were wanted, more than one, and were
/// never continued.
fn limited(history: &History<'_>, id: AttemptId) -> Vec<OperationId> {
    let wanted = |operation: &OperationId| {
        unfinished(history, *operation)
            .is_some_and(|(call, _, count)| call.limit > 1 && count >= call.limit.unsigned_abs())
    };
    let mut found = left_open(history, id);
    found.retain(wanted);
    found
}

/// The range reads of an attempt that had more rows, which were never asked for.
fn left_open(history: &History<'_>, id: AttemptId) -> Vec<OperationId> {
    let ids = history.operations_of(id);
    let open = |operation: &OperationId| {
        let Some((call, last, _)) = unfinished(history, *operation) else {
            return false;
        };
        let here = ids.iter().filter(|other| *other > operation).any(|other| {
            match &history.operation(*other).call {
                Call::GetRange(next) | Call::GetMappedRange(next) => {
                    goes_on(call, last, next) || next.iteration > call.iteration
                }
                _ => false,
            }
        });
        !here && !is_continued_later(history, id, call, last) && !is_read_again(history, id, call)
    };
    // An attempt that met an error may have wanted to go on.
    let error = |id: &OperationId| matches!(history.operation(*id).answer, Answer::Error(_));
    let failed = ids.iter().any(error) && history.landed(id).is_none();
    let open = ids.iter().filter(|id| open(id)).copied();
    if failed { Vec::new() } else { open.collect() }
}

/// Whether a range read begins where another one ended.
fn goes_on(call: &RangeCall, last: &[u8], next: &RangeCall) -> bool {
    match call.reverse {
        false => next.begin.key.kept() >= last,
        true => next.end.key.kept() <= last,
    }
}

/// Whether the client goes on with the same range in one of its next attempts, as one does that
/// works in pages and keeps a cursor.
fn is_continued_later(history: &History<'_>, id: AttemptId, call: &RangeCall, last: &[u8]) -> bool {
    let own = history.attempt(id);
    let all = history.attempts_of(own.client);
    let from = all.partition_point(|other| history.attempt(*other).begun <= own.begun);
    let next = all[from..].iter().take(ATTEMPTS_AFTER);
    let mut calls = next.flat_map(|attempt| history.operations_of(*attempt));
    calls.any(|id| match &history.operation(*id).call {
        Call::GetRange(next) | Call::GetMappedRange(next) => {
            let same_end = match call.reverse {
                false => next.end == call.end,
                true => next.begin == call.begin,
            };
            same_end && goes_on(call, last, next)
        }
        _ => false,
    })
}

/// Whether a retry of the attempt reads the same range from its beginning: then what the retry does
/// with the rest is what counts.
fn is_read_again(history: &History<'_>, id: AttemptId, call: &RangeCall) -> bool {
    let mut retries = history.later_attempts(id);
    retries.any(|retry| {
        let mut operations = history.operations_of(retry).iter();
        operations.any(|operation| match &history.operation(*operation).call {
            Call::GetRange(again) | Call::GetMappedRange(again) => {
                again.begin == call.begin && again.end == call.end
            }
            _ => false,
        })
    })
}

/// A range read with more rows behind it: the call, its last key, and how many rows there were.
fn unfinished<'a>(
    history: &History<'a>,
    id: OperationId,
) -> Option<(&'a RangeCall, &'a [u8], u32)> {
    let operation = history.operation(id);
    match (&operation.call, &operation.answer) {
        (
            Call::GetRange(call) | Call::GetMappedRange(call),
            Answer::Rows {
                rows,
                more: true,
                count,
            },
        ) => Some((call, rows.last()?.0.kept(), *count)),
        _ => None,
    }
}

fn not_continued_finding(
    history: &History<'_>,
    id: AttemptId,
    operation: OperationId,
    in_focus: bool,
) -> Candidate {
    let (range, _, count) = unfinished(history, operation).expect("it was found to be unfinished");
    let (begin, end) = (range.begin.key.kept(), range.end.key.kept());
    let version = history.attempt(id).read_version.unwrap_or(0);
    let all = history.changes_in(begin, end);
    let there = all
        .filter(|(key, _)| history.value_at(key, version).is_some())
        .count();
    let begin_text = history.key_text(begin);
    let mut keys = vec![begin.to_vec()];
    let writes = history
        .landed(id)
        .map(|landed| history.keys_of(landed))
        .unwrap_or_default();
    keys.extend(writes.into_iter().map(|(key, _)| key.to_vec()));
    Candidate {
        finding: Finding {
            name: "range-not-continued",
            sentence: format!(
                "{} read the range from {begin_text}{} and took its first batch for all of it: {count} \
                 of {there} rows.",
                capital(&history.who(id)),
                history.at_place(Some(operation)),
            ),
            proof: vec![
                call(
                    operation,
                    format!("{count} rows, and `more` is set; {there} rows are there"),
                ),
                attempt(id, "no other call of this transaction asks for the rest"),
            ],
            advice:
                "Ask again from behind the last row until `more` is false: `next_range` in a loop, \
                     or `get_ranges`."
                    .to_owned(),
            times: 1,
        },
        weight: if in_focus { 114 } else { 72 },
        keys,
        commits: Vec::new(),
    }
}

/// A change of one of these ranges after the first version, up to the second.
fn changed<'h>(
    history: &'h History<'_>,
    reads: &[&Read<'_>],
    after: i64,
    up_to: i64,
) -> Option<(Vec<u8>, &'h Change)> {
    reads.iter().find_map(|read| {
        let mut keys = history
            .changes_in(read.begin, &read.end)
            .map(|(key, _)| key.to_vec());
        keys.find_map(|key| {
            let change = history.changes(&key).iter().find(|change| {
                let version = history.version_of(change.committed);
                version > after && version <= up_to && change.before != change.after
            })?;
            Some((key, change))
        })
    })
}

/// A transaction whose later attempt went on where the one before had stopped.
fn continued_in_retry(history: &History<'_>, focus: &Focus<'_>) -> Option<Candidate> {
    let pairs = focus.attempts.iter().filter_map(|second| {
        let mut earlier = history.earlier_attempts(*second);
        let first = earlier.find(|first| history.reads(*first).next().is_some())?;
        Some((first, *second))
    });
    let mut found = pairs.filter_map(|(first, second)| {
        let (old, new): (Vec<Read<'_>>, Vec<Read<'_>>) = (
            history.reads(first).collect(),
            history.reads(second).collect(),
        );
        let again = new
            .iter()
            .any(|new| old.iter().any(|old| old.begin == new.begin));
        let (last, next) = (old.last()?, new.first()?);
        if again || history.commit(second).is_some() {
            return None;
        }
        let all: Vec<&Read<'_>> = old.iter().chain(&new).collect();
        let (key, change) = changed(history, &all, last.version, next.version)?;
        Some(scan_finding(history, last, next, &key, change, 112))
    });
    found.next()
}

/// Transactions that each read a part of what belongs together.
fn pages(history: &History<'_>, focus: &Focus<'_>) -> Option<Candidate> {
    let all = history.attempts_of(focus.client).iter();
    let reads: Vec<Read<'_>> = all
        .filter(|id| history.attempt(**id).begun <= focus.time)
        .filter(|id| history.landed(**id).is_none())
        .filter_map(|id| history.reads(*id).find(|read| !read.point))
        .collect();
    let call_of = |read: &Read<'_>| match &history.operation(read.operation).call {
        Call::GetRange(call) => Some((call.begin.clone(), history.operation(read.operation).place)),
        _ => None,
    };
    reads.windows(2).rev().find_map(|pair| {
        let ((first, line), (second, next_line)) = (call_of(&pair[0])?, call_of(&pair[1])?);
        let by_offset = first.key == second.key && second.offset > first.offset;
        if line != next_line || !by_offset {
            return None;
        }
        let both = [&pair[0], &pair[1]];
        let (key, change) = changed(history, &both, pair[0].version, pair[1].version)?;
        Some(scan_finding(history, &pair[0], &pair[1], &key, change, 112))
    })
}

/// How many reads are compared with each other.
const TORN_READS_MAX: usize = 64;

/// Two transactions of the failed phase, of which the first did not see a commit and the second one
/// did, although the commit changed what both had read.
fn torn(history: &History<'_>, focus: &Focus<'_>) -> Option<Candidate> {
    let only_reads: Vec<&Read<'_>> = focus
        .reads
        .iter()
        .filter(|read| history.landed(read.attempt).is_none())
        .collect();
    let transaction = |read: &Read<'_>| history.attempt(read.attempt).transaction;
    // A part may be many reads, such as one for each account: what the last transaction saw is
    // compared with everything that the one before it had seen.
    let only_reads = &only_reads[only_reads.len().saturating_sub(TORN_READS_MAX)..];
    let pairs = only_reads
        .iter()
        .enumerate()
        .rev()
        .flat_map(|(index, second)| {
            let before = only_reads[..index].iter().rev();
            before.map(move |first| (*first, *second))
        });
    let mut pairs = pairs.filter(|(first, second)| {
        transaction(first) != transaction(second) && first.begin != second.begin
    });
    pairs.find_map(|(first, second)| {
        let (key, change) = changed(history, &[second], first.version, second.version)?;
        // What the client did itself it knows.
        if history.client_of(change.committed) == focus.client {
            return None;
        }
        let both = history
            .keys_of(change.committed)
            .into_iter()
            .any(|(other, change)| {
                other != key && first.covers(other) && change.before != change.after
            });
        both.then(|| scan_finding(history, first, second, &key, change, 111))
    })
}

/// Pages that were read from the last key on, each in a transaction of its own, and a commit that
/// changed two of them: it is part of what the later one showed, and not of the earlier one.
fn torn_pages(history: &History<'_>, focus: &Focus<'_>) -> Vec<Candidate> {
    let pages = pages_from_keys(history, focus);
    let mut found = Vec::new();
    for (index, second) in pages.iter().enumerate() {
        for first in &pages[..index] {
            let missed = (0..)
                .zip(&history.record.committed)
                .filter(|(_, committed)| {
                    committed.version > first.version && committed.version <= second.version
                });
            for (id, _) in missed {
                if history.client_of(id) == focus.client {
                    continue;
                }
                let keys = history.keys_of(id);
                let in_page = |page: &Read<'_>| {
                    let real = |(key, change): &&(&[u8], &Change)| {
                        page.covers(key) && change.before != change.after
                    };
                    keys.iter().find(real).copied()
                };
                let (Some((one, _)), Some((two, change))) = (in_page(first), in_page(second))
                else {
                    continue;
                };
                let mut candidate = scan_finding(history, first, second, two, change, 111);
                // What the last page is about is what the failed phase had looked at.
                candidate.keys.push(one.to_vec());
                candidate
                    .keys
                    .extend(pages.last().map(|last| last.begin.to_vec()));
                found.push(candidate);
            }
        }
    }
    found
}

/// How many pages are compared with each other.
const PAGES_MAX: usize = 32;

/// The last range reads of the client that failed, as far as each went on where the one before had
/// ended, in another transaction, without having written anything.
fn pages_from_keys<'a>(history: &History<'a>, focus: &Focus<'_>) -> Vec<Read<'a>> {
    let attempts = history.attempts_of(focus.client).iter().rev();
    let mut reads = attempts
        .filter(|id| history.attempt(**id).begun <= focus.time)
        .filter(|id| history.landed(**id).is_none())
        .filter_map(|id| history.reads(*id).find(|read| !read.point));
    let Some(last) = reads.next() else {
        return Vec::new();
    };
    let mut pages = vec![last];
    for earlier in reads {
        let next = &pages[pages.len() - 1];
        let (one, two) = (
            history.operation(earlier.operation),
            history.operation(next.operation),
        );
        let (Call::GetRange(call), Call::GetRange(following)) = (&one.call, &two.call) else {
            break;
        };
        // A page that was asked for twice counts once.
        if call.begin == following.begin {
            continue;
        }
        let Answer::Rows { rows, .. } = &one.answer else {
            break;
        };
        let goes_on = call.end == following.end
            && rows
                .last()
                .is_some_and(|(last, _)| goes_on(call, last.kept(), following));
        if one.place != two.place || !goes_on || pages.len() == PAGES_MAX {
            break;
        }
        pages.push(earlier);
    }
    pages.reverse();
    pages
}

fn scan_finding(
    history: &History<'_>,
    last: &Read<'_>,
    next: &Read<'_>,
    key: &[u8],
    change: &Change,
    weight: u32,
) -> Candidate {
    let (begin, then) = (history.key_text(last.begin), history.key_text(next.begin));
    Candidate {
        finding: Finding {
            name: "scan-across-transactions",
            sentence: format!(
                "{} read one thing at two moments{}: at version {} from {begin}, at version {} from \
                 {then} on; {} changed {} in between.",
                capital(&history.who(last.attempt)),
                history.at_place(Some(next.operation)),
                last.version,
                next.version,
                history.author(change.committed),
                history.key_text(key),
            ),
            proof: vec![
                call(last.operation, format!("reads from {begin} at version {}", last.version)),
                committed(change.committed, history.change_text(key, change)),
                call(next.operation, format!("goes on from {then} at version {}", next.version)),
            ],
            advice: "Read it all in one transaction, and begin again with the next. What is too long \
                     for five seconds can be read in parts only if the parts need not fit together, \
                     and then from the last key on, not by an offset."
                .to_owned(), times: 1,
        },
        weight,
        keys: vec![key.to_vec(), last.begin.to_vec(), next.begin.to_vec()],
        commits: vec![change.committed],
    }
}

/// A row that was committed behind a reader.
fn behind_the_reader(history: &History<'_>, focus: &Focus<'_>) -> Vec<Candidate> {
    let own: Vec<Read<'_>> = history
        .attempts_of(focus.client)
        .iter()
        .filter(|id| history.attempt(**id).begun <= focus.time)
        .flat_map(|id| history.reads(*id))
        .filter(|read| !read.point)
        .collect();
    let mut found = Vec::new();
    for pair in own.windows(2) {
        let (earlier, later) = (&pair[0], &pair[1]);
        if later.attempt == earlier.attempt {
            continue;
        }
        // It reads everything again, and goes by what it remembers.
        if later.begin == earlier.begin && later.end == earlier.end {
            found.extend(remembered(history, focus, (earlier, later)));
            continue;
        }
        // It goes on from where it was, in a later transaction, towards the same end.
        if later.begin < earlier.begin {
            continue;
        }
        let same_end = |read: &Read<'_>| match &history.operation(read.operation).call {
            Call::GetRange(call) => Some(call.end.key.clone()),
            _ => None,
        };
        if same_end(earlier) != same_end(later) {
            continue;
        }
        for (key, changes) in history.changes_in(earlier.begin, later.begin) {
            let Some(row) = changes.first().filter(|first| {
                first.how == How::Set && history.version_of(first.committed) > earlier.version
            }) else {
                continue;
            };
            let Some((newer, passed)) = passed(history, key, later.begin, row) else {
                continue;
            };
            found.push(behind_finding(
                history,
                (earlier, later),
                (key, row),
                (newer, passed),
            ));
        }
    }
    found
}

/// Rows that the failure speaks of, and that were committed behind what a reader of the whole range
/// had seen of it. Only where it leaves the rest to its memory is that a mistake, and a record does
/// not show memory: so this counts for less.
fn remembered(
    history: &History<'_>,
    focus: &Focus<'_>,
    (earlier, later): (&Read<'_>, &Read<'_>),
) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (key, changes) in history.changes_in(earlier.begin, &earlier.end) {
        let Some(row) = changes.first().filter(|first| {
            let version = history.version_of(first.committed);
            first.how == How::Set && version > earlier.version && version <= later.version
        }) else {
            continue;
        };
        if focus.mentions(&history.key_text(key)) == 0 {
            continue;
        }
        let newer = passed(history, key, &earlier.end, row)
            .filter(|(_, newer)| history.version_of(newer.committed) <= earlier.version);
        found.extend(newer.map(|newer| {
            let finding = behind_finding(history, (earlier, later), (key, row), newer);
            Candidate {
                weight: REMEMBERED_WEIGHT,
                ..finding
            }
        }));
    }
    found
}

/// Less than what the calls themselves show.
const REMEMBERED_WEIGHT: u32 = 79;

/// A row further on that was there before this one, best one that this one's author could not know
/// of.
fn passed<'h>(
    history: &'h History<'_>,
    key: &[u8],
    end: &[u8],
    row: &Change,
) -> Option<(Vec<u8>, &'h Change)> {
    let author = history.committed(row.committed).attempt?;
    let read_version = history.attempt(author).read_version;
    let (begin, end) = (after(key), after(end));
    let rows = history.changes_in(&begin, &end);
    let newer = rows.filter_map(|(newer, changes)| {
        let first = changes.first()?;
        let known = read_version.is_some_and(|read| history.version_of(first.committed) <= read);
        (first.committed < row.committed).then_some((known, newer.to_vec(), first.committed))
    });
    let (_, newer, committed) = newer.min_by_key(|(known, ..)| *known)?;
    let first = history
        .changes(&newer)
        .iter()
        .find(|c| c.committed == committed)?;
    Some((newer, first))
}

fn behind_finding(
    history: &History<'_>,
    (earlier, later): (&Read<'_>, &Read<'_>),
    (key, row): (&[u8], &Change),
    (newer, passed): (Vec<u8>, &Change),
) -> Candidate {
    let author = history.committed(row.committed).attempt;
    let first = author.map(|author| history.earlier_attempts(author).last().unwrap_or(author));
    let writer = first.and_then(|first| history.writer(first, key));
    let writer = writer.or_else(|| history.writer(author?, key));
    let (text, newer_text) = (history.key_text(key), history.key_text(&newer));
    let commit_of = |id: CommittedId| history.version_of(id);
    let mut proof = vec![
        committed(
            passed.committed,
            format!("{newer_text} commits at {}", commit_of(passed.committed)),
        ),
        call(
            earlier.operation,
            format!("the reader is here, at version {}", earlier.version),
        ),
    ];
    if let Some(writer) = writer {
        proof.insert(0, call(writer, format!("chooses the key {text}")));
    }
    proof.push(committed(
        row.committed,
        format!(
            "{text} commits at {}, behind the reader",
            commit_of(row.committed)
        ),
    ));
    proof.push(call(
        later.operation,
        format!("the reader goes on from {}", history.key_text(later.begin)),
    ));
    Candidate {
        finding: Finding {
            name: "order-before-commit",
            sentence: format!(
                "{} chose the key {text}{} before its commit, {} passed it with {newer_text}, and {}, \
                 which had read that far, never saw it.",
                capital(&history.author(row.committed)),
                history.at_place(writer),
                history.author(passed.committed),
                history.who(earlier.attempt),
            ),
            proof,
            advice: "Let the commit choose the order: a versionstamp in the key \
                     (`SetVersionstampedKey`) grows with every commit. Read versions, clocks and \
                     counters are chosen earlier."
                .to_owned(),
            times: 1,
        },
        weight: 113,
        keys: vec![key.to_vec()],
        commits: vec![row.committed],
    }
}
