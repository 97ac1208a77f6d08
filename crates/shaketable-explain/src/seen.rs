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
//!
//! Here the lines become phases, attempts and operations. `verdict` tells how the run ended, and
//! `commits` what became of the commits.

mod commits;
mod doubts;
mod verdict;

use commits::{Asked, settle};
use shaketable_record::seen::{AttemptName, Line, Seen, Stack};
use shaketable_record::{
    Attempt, Call, End, Header, Operation, Phase, Place, PlaceId, Record, Retry,
};
use std::collections::BTreeMap;
use verdict::{seconds, verdict};

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
/// cleared up. The line of a stack is looked up by `line_of`.
pub fn record(
    header: Header,
    lines: Vec<Line>,
    errors: &[ErrorEvent],
    line_of: impl FnMut(&Stack) -> Option<Place>,
) -> (Record, Doubts) {
    let mut record = Record {
        header,
        ..Record::default()
    };
    record.header.clients = lines.iter().map(|line| line.client + 1).max().unwrap_or(0);
    let mut owners: BTreeMap<Owner, Gathered> = BTreeMap::new();
    let mut ended = Vec::new();
    let stacks = places(&mut record, &lines, line_of);
    for line in lines {
        gather(&mut record, &mut owners, &mut ended, &stacks, line);
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

/// The places of stacks, by the workload that told of them and their number.
type Places = BTreeMap<(String, u32), PlaceId>;

/// Looks up where calls were made.
fn places(
    record: &mut Record,
    lines: &[Line],
    mut line_of: impl FnMut(&Stack) -> Option<Place>,
) -> Places {
    let mut places = Places::new();
    for line in lines {
        if let Seen::Stack { number, stack } = &line.seen
            && let Some(place) = line_of(stack)
        {
            let known = record.places.iter().position(|known| *known == place);
            let id = known.unwrap_or_else(|| {
                record.places.push(place);
                record.places.len() - 1
            });
            places.insert((line.workload.clone(), *number), id as PlaceId);
        }
    }
    places
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
    stacks: &Places,
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
            stack,
            call,
            answer,
        } => owners.entry(owner(of)).or_default().operations.push((
            sequence,
            Operation {
                attempt: 0,
                asked,
                answered,
                place: stack.and_then(|stack| stacks.get(&(workload.clone(), stack)).copied()),
                call,
                answer,
            },
        )),
        Seen::Stack { .. } => {}
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
