//! A record from what clients alone have seen.
//!
//! Under fdbserver a workload library can note its own calls and their answers, and nothing else
//! ([`shaketable_record::seen`]). [`record`] puts these lines together into the [`Record`] that the
//! embedded simulation would have written, as far as a client can know:
//!
//! * a commit that was told to have succeeded has its version, so these are in order; two of the
//!   same version stand in the order in which they were asked for;
//! * what a commit of unknown result did is inferred from what was read later (see `doubts`); where
//!   no read tells, its fate stays unknown;
//! * the winner of a conflict is the first known commit that wrote what the loser had read;
//! * what others did, the cluster itself or a workload without the feature, is not there.
//!
//! Lines may be missing at the end, when the run was cut off: an attempt that has not ended is
//! open, a call that was not answered was not noted.

mod doubts;

use crate::history::{after, contains, is_unknown, span};
use shaketable_record::seen::{AttemptName, Line, Seen};
use shaketable_record::{
    Answer, Attempt, Bytes, Call, Commit, Committed, Conflict, End, Fate, Header, Mutation,
    Operation, Phase, Range, Record, Retry, Verdict,
};
use std::collections::BTreeMap;

pub use doubts::Doubts;

/// An event of a trace that fails the run.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorEvent {
    /// When.
    pub time: f64,
    /// Its type.
    pub name: String,
    /// Its details.
    pub details: Vec<(String, String)>,
}

/// Puts together what clients have seen. Also returns how much of the doubt about their commits was
/// cleared up.
pub fn record(header: Header, lines: Vec<Line>, errors: &[ErrorEvent]) -> (Record, Doubts) {
    let mut record = Record {
        header,
        ..Record::default()
    };
    record.header.clients = lines.iter().map(|line| line.client + 1).max().unwrap_or(0);
    let mut owners: BTreeMap<Owner, Gathered> = BTreeMap::new();
    let mut ended = Vec::new();
    for line in lines {
        gather(&mut record, &mut owners, &mut ended, line);
    }
    record
        .phases
        .sort_by(|one, two| one.begun.total_cmp(&two.begun));
    for (client, workload, phase, time, error) in ended {
        let is_it = |known: &&mut Phase| {
            known.client == client
                && known.workload == workload
                && known.phase == phase
                && known.ended.is_none()
        };
        if let Some(known) = record.phases.iter_mut().find(is_it) {
            known.ended = Some(time);
            known.error = error;
        }
    }
    record.header.verdict = verdict(&record, errors);
    record.header.seconds = seconds(&record);
    let commits = lay_out(&mut record, owners);
    let doubts = settle(&mut record, commits);
    (record, doubts)
}

/// The client, the workload, the attempt.
type Owner = (u32, String, AttemptName);

/// What is known of an attempt.
#[derive(Default)]
struct Gathered {
    phase: Option<String>,
    begun: Option<f64>,
    ended: Option<f64>,
    retries: Option<i32>,
    end: Option<End>,
    committed: Option<i64>,
    read_version: Option<i64>,
    operations: Vec<(u64, Operation)>,
}

type PhaseEnd = (u32, String, String, f64, Option<String>);

fn gather(
    record: &mut Record,
    owners: &mut BTreeMap<Owner, Gathered>,
    ended_phases: &mut Vec<PhaseEnd>,
    line: Line,
) {
    let Line {
        client,
        workload,
        seen,
    } = line;
    let owner = |of: AttemptName| (client, workload.clone(), of);
    match seen {
        Seen::Begun { phase, time } => record.phases.push(Phase {
            client,
            test: workload.clone(),
            workload,
            phase,
            begun: time,
            ended: None,
            error: None,
        }),
        Seen::Ended {
            phase,
            time,
            passed,
            error,
        } => {
            let error = match passed {
                true => None,
                false => Some(error.unwrap_or_default()),
            };
            ended_phases.push((client, workload, phase, time, error));
        }
        Seen::Operation {
            of,
            sequence,
            asked,
            answered,
            call,
            answer,
        } => owners.entry(owner(of)).or_default().operations.push((
            sequence,
            Operation {
                attempt: 0,
                asked,
                answered,
                place: None,
                call,
                answer,
            },
        )),
        Seen::ReadVersion { of, version } => {
            let gathered = owners.entry(owner(of)).or_default();
            gathered.read_version.get_or_insert(version);
        }
        Seen::Attempt {
            of,
            phase,
            begun,
            ended,
            retries,
            end,
            committed,
        } => {
            let gathered = owners.entry(owner(of)).or_default();
            gathered.phase = Some(phase);
            gathered.begun = Some(begun);
            gathered.ended = Some(ended);
            gathered.retries = retries;
            gathered.end = Some(end);
            gathered.committed = committed;
        }
    }
}

/// How the run ended: by the first phase that was not content, in its own words or in those of the
/// last error before it; else by the first error.
fn verdict(record: &Record, errors: &[ErrorEvent]) -> Verdict {
    let failed = record
        .phases
        .iter()
        .filter(|phase| phase.error.is_some())
        .min_by(|one, two| {
            one.ended
                .unwrap_or(0.0)
                .total_cmp(&two.ended.unwrap_or(0.0))
        });
    let detail = |error: &ErrorEvent, wanted: &str| {
        let mut details = error.details.iter();
        details
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value.clone())
    };
    let words = |error: &ErrorEvent| {
        let told = detail(error, "Error").or_else(|| detail(error, "Message"));
        told.unwrap_or_else(|| {
            let details = error.details.iter();
            let details: Vec<String> = details
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            format!("{} {}", error.name, details.join(" "))
        })
    };
    let Some(phase) = failed else {
        let Some(error) = errors.first() else {
            return Verdict {
                passed: true,
                ..Verdict::default()
            };
        };
        return Verdict {
            passed: false,
            kind: Some("error traced".to_owned()),
            message: Some(words(error)),
            client: detail(error, "Client").and_then(|client| client.parse().ok()),
            workload: None,
            phase: detail(error, "Phase"),
            time: Some(error.time),
        };
    };
    let own = phase.error.clone().filter(|error| !error.is_empty());
    let time = phase.ended.unwrap_or(f64::INFINITY);
    let last = || errors.iter().rfind(|error| error.time <= time).map(words);
    Verdict {
        passed: false,
        kind: Some(match phase.phase.as_str() {
            "check" => "check failed".to_owned(),
            _ => "phase failed".to_owned(),
        }),
        message: own.or_else(last),
        client: Some(phase.client),
        workload: Some(phase.workload.clone()),
        phase: Some(phase.phase.clone()),
        time: phase.ended,
    }
}

fn seconds(record: &Record) -> f64 {
    let times = record.phases.iter().filter_map(|phase| phase.ended);
    times.fold(0.0, f64::max)
}

/// A commit that was asked for, and the version that it was told.
struct Asked {
    attempt: u32,
    committed: Option<i64>,
}

/// Puts attempts and operations into the record, in their order. Returns the commits.
fn lay_out(record: &mut Record, owners: BTreeMap<Owner, Gathered>) -> Vec<Asked> {
    let mut all: Vec<(Owner, Gathered)> = owners
        .into_iter()
        .map(|(owner, mut gathered)| {
            gathered.operations.sort_by_key(|(sequence, _)| *sequence);
            let first = gathered.operations.first().map(|(_, one)| one.asked);
            gathered.begun = gathered.begun.or(first);
            (owner, gathered)
        })
        .collect();
    let order = |gathered: &Gathered| {
        let first = gathered.operations.first().map(|(sequence, _)| *sequence);
        (gathered.begun.unwrap_or(0.0), first.unwrap_or(0))
    };
    all.sort_by(|(_, one), (_, two)| {
        let ((begun, first), (begun_two, first_two)) = (order(one), order(two));
        begun.total_cmp(&begun_two).then(first.cmp(&first_two))
    });
    let mut transactions: BTreeMap<(u32, String, u32), u32> = BTreeMap::new();
    let mut ids: BTreeMap<Owner, u32> = BTreeMap::new();
    let mut operations: Vec<(u64, Operation)> = Vec::new();
    let mut commits = Vec::new();
    for (owner, gathered) in all {
        let id = record.attempts.len() as u32;
        let (client, workload, of) = owner.clone();
        let new = transactions.len() as u32;
        let transaction = *transactions
            .entry((client, workload.clone(), of.transaction))
            .or_insert(new);
        let before = AttemptName {
            number: of.number.saturating_sub(1),
            ..of
        };
        let before = ids.get(&(client, workload.clone(), before)).copied();
        let begun = gathered.begun.unwrap_or(0.0);
        record.attempts.push(Attempt {
            client: Some(client),
            phase: phase_of(record, client, &workload, gathered.phase.as_deref(), begun),
            transaction,
            number: of.number,
            retries: before
                .zip(gathered.retries)
                .map(|(attempt, error)| Retry { attempt, error }),
            begun,
            ended: gathered.ended,
            read_version: gathered.read_version,
            commit: None,
            end: gathered.end.unwrap_or(End::Open),
        });
        if gathered
            .operations
            .iter()
            .any(|(_, one)| one.call == Call::Commit)
        {
            commits.push(Asked {
                attempt: id,
                committed: gathered.committed,
            });
        }
        operations.extend(gathered.operations.into_iter().map(|(sequence, mut one)| {
            one.attempt = id;
            (sequence, one)
        }));
        ids.insert(owner, id);
    }
    operations.sort_by(|(sequence, one), (other, two)| {
        one.asked.total_cmp(&two.asked).then(sequence.cmp(other))
    });
    record.operations = operations.into_iter().map(|(_, one)| one).collect();
    commits
}

/// The phase that a client was in.
fn phase_of(
    record: &Record,
    client: u32,
    workload: &str,
    name: Option<&str>,
    time: f64,
) -> Option<u32> {
    let is_it = |phase: &Phase| {
        phase.client == client
            && phase.workload == workload
            && name.is_none_or(|name| phase.phase == name)
            && phase.begun <= time
    };
    let last = record.phases.iter().rposition(is_it)?;
    Some(last as u32)
}

/// Finds out what became of the commits.
fn settle(record: &mut Record, commits: Vec<Asked>) -> Doubts {
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

fn mutation(call: &Call) -> Option<Mutation> {
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
