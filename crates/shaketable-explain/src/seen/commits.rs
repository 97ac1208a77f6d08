//! What commits wrote and had read, what became of them, and who won their conflicts.
//!
//! A client notes its calls and not what its commits sent, so mutations and conflict ranges are
//! derived from the calls. A commit that was told to have succeeded, or to have failed for certain,
//! has its fate from the answer; those in doubt get theirs from `doubts`. Only then is everything
//! that landed known in order, and with it the first commit that wrote what a refused one had read.

use super::doubts::{self, Doubts};
use crate::history::{after, contains, is_unknown, span};
use shaketable_record::{
    Answer, Bytes, Call, Commit, Committed, Conflict, End, Fate, Mutation, Operation, Range, Record,
};

/// A commit that was asked for, and the version that it was told.
pub(super) struct Asked {
    pub(super) attempt: u32,
    pub(super) committed: Option<i64>,
}

/// Finds out what became of the commits.
pub(super) fn settle(record: &mut Record, commits: Vec<Asked>) -> Doubts {
    let mut of_attempts: Vec<Vec<u32>> = vec![Vec::new(); record.attempts.len()];
    for (id, operation) in (0..).zip(&record.operations) {
        of_attempts[operation.attempt as usize].push(id);
    }
    let mut landed: Vec<doubts::Landed> = Vec::new();
    let mut doubtful: Vec<doubts::Doubtful> = Vec::new();
    for Asked { attempt, committed } in &commits {
        let calls: Vec<(u32, &Operation)> = of_attempts[*attempt as usize]
            .iter()
            .map(|id| (*id, &record.operations[*id as usize]))
            .collect();
        let Some((operation, commit)) = calls.iter().find(|(_, one)| one.call == Call::Commit)
        else {
            continue;
        };
        let (operation, asked) = (*operation, commit.asked);
        let answered = match commit.answer {
            Answer::Error(1021) => commit.answered,
            _ => None,
        };
        let mutations: Vec<Mutation> = calls
            .iter()
            .filter_map(|(_, one)| mutation(&one.call))
            .collect();
        let own = &record.attempts[*attempt as usize];
        let mut fate = match own.end {
            End::Committed => Fate::Unknown,
            End::Failed(error) | End::Retried(error) if !is_unknown(error) => Fate::Lost,
            _ => Fate::Unknown,
        };
        if mutations.is_empty() {
            fate = Fate::ReadOnly;
        } else if let (End::Committed, Some(version)) = (own.end, committed) {
            landed.push(doubts::Landed {
                version: *version,
                asked,
                attempt: *attempt,
                mutations: mutations.clone(),
            });
        } else if fate == Fate::Unknown {
            doubtful.push(doubts::Doubtful {
                attempt: *attempt,
                asked,
                read_version: own.read_version,
                settled: answered,
                mutations: mutations.clone(),
            });
        }
        let commit = Commit {
            operation,
            reads: reads(&calls),
            writes: writes(&calls),
            mutations,
            fate,
            conflict: None,
        };
        record.attempts[*attempt as usize].commit = Some(commit);
    }
    let (landed, lost, doubts) = doubts::settle(record, landed, doubtful);
    for attempt in lost {
        if let Some(commit) = &mut record.attempts[attempt as usize].commit {
            commit.fate = Fate::Lost;
        }
    }
    for (id, one) in (0..).zip(landed) {
        if let Some(commit) = &mut record.attempts[one.attempt as usize].commit {
            commit.fate = Fate::Landed(id);
            commit.mutations = one.mutations.clone();
        }
        record.committed.push(Committed {
            version: one.version,
            batch_index: 0,
            attempt: Some(one.attempt),
            mutations: one.mutations,
        });
    }
    find_winners(record);
    doubts
}

pub(super) fn mutation(call: &Call) -> Option<Mutation> {
    Some(match call.clone() {
        Call::Set { key, value } => Mutation::Set { key, value },
        Call::Clear { range } => Mutation::Clear { range },
        Call::Atomic { key, operand, name } => Mutation::Atomic { key, operand, name },
        _ => return None,
    })
}

/// The read conflict ranges of an attempt.
fn reads(calls: &[(u32, &Operation)]) -> Vec<Range> {
    let ranges = calls.iter().filter_map(|(_, operation)| {
        let (begin, end) = match (&operation.call, &operation.answer) {
            (
                Call::Get {
                    key,
                    snapshot: false,
                },
                Answer::Value(_),
            ) => (key.kept().to_vec(), after(key.kept())),
            (Call::GetRange(call), Answer::Rows { rows, more, .. }) if !call.snapshot => {
                let mut begin = call.begin.key.kept().to_vec();
                let mut end = call.end.key.kept().to_vec();
                if let (true, Some((last, _))) = (*more, rows.last()) {
                    match call.reverse {
                        true => begin = last.kept().to_vec(),
                        false => end = after(last.kept()),
                    }
                }
                (begin, end)
            }
            (
                Call::AddConflictRange {
                    range,
                    write: false,
                },
                _,
            ) => (range.begin.kept().to_vec(), range.end.kept().to_vec()),
            _ => return None,
        };
        Some(Range {
            begin: Bytes::whole(&begin),
            end: Bytes::whole(&end),
        })
    });
    ranges.collect()
}

/// The write conflict ranges of an attempt.
fn writes(calls: &[(u32, &Operation)]) -> Vec<Range> {
    let ranges = calls.iter().filter_map(|(_, operation)| {
        if let Call::AddConflictRange { range, write: true } = &operation.call {
            return Some(range.clone());
        }
        let mutation = mutation(&operation.call)?;
        let (begin, end) = span(&mutation);
        Some(Range {
            begin: Bytes::whole(begin),
            end: Bytes::whole(&end),
        })
    });
    ranges.collect()
}

/// Names the first commit that wrote what a refused one had read.
fn find_winners(record: &mut Record) {
    let Record {
        attempts,
        committed,
        ..
    } = record;
    for attempt in attempts {
        let (Some(version), Some(commit)) = (attempt.read_version, &mut attempt.commit) else {
            continue;
        };
        if !matches!(attempt.end, End::Failed(1020) | End::Retried(1020)) {
            continue;
        }
        let from = committed.partition_point(|one| one.version <= version);
        let mut later = (0..).zip(&*committed).skip(from);
        commit.conflict = later.find_map(|(id, one)| {
            let hit = commit.reads.iter().find(|range| {
                let mut keys = one.mutations.iter().map(span);
                keys.any(|(begin, end)| {
                    contains(range, begin)
                        || (begin < range.end.kept() && range.begin.kept() < &end[..])
                })
            })?;
            Some(Conflict {
                range: hit.clone(),
                winner: Some(id),
            })
        });
    }
}
