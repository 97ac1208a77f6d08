//! What the script of the page is given: columns of numbers, and a table of the texts they name.
//!
//! A run of fifty thousand transactions has hundreds of thousands of operations, many of them with
//! the same text. Columns of numbers with one table of texts are a third of the size of objects
//! with fields, and turn into typed arrays at once. Times are whole microseconds; −1 stands for
//! what is not there.

use crate::cluster::{Cluster, Lane, Span, run_end};
use crate::outcome::Outcome;
use crate::words::{self, Words, plain};
use serde::{Serialize, Serializer};
use shaketable_explain::{Evidence, Explanation, Proof};
use shaketable_record::{Answer, Call, CommittedId, Fate, Record};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Everything on the page.
#[derive(Serialize)]
pub(crate) struct Document {
    run: Run,
    outcomes: Vec<OutcomeText>,
    #[serde(serialize_with = "as_texts")]
    strings: Vec<Rc<str>>,
    places: Vec<(u32, u32)>,
    phases: Vec<PhaseRow>,
    attempts: Attempts,
    operations: Operations,
    commits: Vec<CommitRow>,
    processes: Vec<String>,
    down: Vec<SpanRow>,
    /// The lane, begin and end, and the text.
    roles: Vec<(i64, i64, i64, u32)>,
    clogged: Vec<SpanRow>,
    recoveries: Vec<SpanRow>,
    events: Vec<EventRow>,
    findings: Vec<FindingRow>,
    stories: Vec<StoryRow>,
}

#[derive(Serialize)]
struct Run {
    program: String,
    host: String,
    file: String,
    /// A text, because the script's numbers are too small for it.
    seed: String,
    buggify: bool,
    /// How the seed chose to be run; empty if it had no choice.
    #[serde(skip_serializing_if = "String::is_empty")]
    drawn: String,
    reproduce: Option<String>,
    clients: u32,
    cluster: String,
    passed: bool,
    kind: Option<String>,
    message: Option<String>,
    client: Option<u32>,
    workload: Option<String>,
    phase: Option<String>,
    time: Option<i64>,
    end: i64,
    left_out: Vec<String>,
}

#[derive(Serialize)]
struct OutcomeText {
    letter: &'static str,
    name: &'static str,
    meaning: &'static str,
}

/// The client, then texts, times and the error.
type PhaseRow = (u32, u32, u32, u32, i64, i64, i64);

#[derive(Serialize, Default)]
struct Attempts {
    client: Vec<i64>,
    phase: Vec<i64>,
    transaction: Vec<u32>,
    number: Vec<u32>,
    retries: Vec<i64>,
    retry_error: Vec<i64>,
    begun: Vec<i64>,
    ended: Vec<i64>,
    read_version: Vec<i64>,
    outcome: Vec<u8>,
    end: Vec<u32>,
    /// An index into the commits.
    commit: Vec<i64>,
}

#[derive(Serialize, Default)]
struct Operations {
    attempt: Vec<u32>,
    asked: Vec<i64>,
    answered: Vec<i64>,
    place: Vec<i64>,
    /// 0 for a read, 1 for a write, 2 for a commit, 3 for anything else.
    kind: Vec<u8>,
    call: Vec<u32>,
    answer: Vec<u32>,
    failed: Vec<u8>,
}

/// The operation; texts of what it read, what it wrote and its changes; its fate; and for a
/// conflict the text of the range, the attempt that won and that one's version, each −1 if there
/// is none.
type CommitRow = (u32, Vec<u32>, Vec<u32>, Vec<u32>, u32, i64, i64, i64);

/// The lane, begin and end, and the event.
type SpanRow = (i64, i64, i64, usize);

/// The time, the name, the lanes, whether it is a fault, and the details.
type EventRow = (i64, u32, Vec<i64>, u8, u32);

#[derive(Serialize)]
struct FindingRow {
    name: String,
    sentence: String,
    advice: String,
    times: u32,
    proof: Vec<ProofRow>,
}

#[derive(Serialize)]
struct StoryRow {
    key: String,
    chapters: Vec<ProofRow>,
    earlier: u32,
    later: u32,
}

#[derive(Serialize)]
struct ProofRow {
    note: String,
    /// −1 if it is not an attempt of the code under test.
    attempt: i64,
    /// −1 if it is an attempt as a whole.
    operation: i64,
    /// −1 if it is not known.
    time: i64,
}

impl Document {
    pub(crate) fn new(record: &Record, explanation: &Explanation) -> Document {
        let words = Words::new(record);
        let cluster = Cluster::of(record);
        let mut texts = Texts::default();
        let mut commits = Vec::new();
        let attempts = attempts(record, &words, &mut texts, &mut commits);
        let spans = |spans: &[Span]| spans.iter().map(span_row).collect();
        let phase = |phase: &shaketable_record::Phase, texts: &mut Texts| {
            let error = phase.error.as_ref().map(|error| texts.add(plain(error)));
            (
                phase.client,
                texts.add(plain(&phase.test)),
                texts.add(plain(&phase.workload)),
                texts.add(plain(&phase.phase)),
                micros(phase.begun),
                maybe_micros(phase.ended),
                maybe(error),
            )
        };
        Document {
            run: run(record),
            outcomes: Outcome::ALL
                .map(|outcome| OutcomeText {
                    letter: outcome.letter(),
                    name: outcome.name(),
                    meaning: outcome.meaning(),
                })
                .into(),
            places: record
                .places
                .iter()
                .map(|place| {
                    let line = texts.add(format!("{}:{}", plain(&place.file), place.line));
                    (line, texts.add(function(&place.function)))
                })
                .collect(),
            phases: record.phases.iter().map(|p| phase(p, &mut texts)).collect(),
            attempts,
            operations: operations(record, &words, &mut texts),
            commits,
            down: spans(&cluster.down),
            roles: cluster
                .roles
                .iter()
                .map(|span| {
                    (
                        lane_number(span.lane),
                        micros(span.begun),
                        micros(span.ended),
                        texts.add(span.roles.clone()),
                    )
                })
                .collect(),
            clogged: spans(&cluster.clogged),
            recoveries: spans(&cluster.recoveries),
            events: record
                .events
                .iter()
                .zip(&cluster.lanes)
                .map(|(event, lanes)| {
                    (
                        micros(event.time),
                        texts.add(plain(&event.name)),
                        lanes.iter().copied().map(lane_number).collect(),
                        u8::from(event.fault),
                        texts.add(words::details(event)),
                    )
                })
                .collect(),
            processes: cluster.processes,
            findings: explanation
                .findings
                .iter()
                .map(|finding| FindingRow {
                    name: plain(finding.name),
                    sentence: plain(&finding.sentence),
                    advice: plain(&finding.advice),
                    times: finding.times,
                    proof: proofs(record, &finding.proof),
                })
                .collect(),
            stories: explanation
                .stories
                .iter()
                .map(|story| StoryRow {
                    key: plain(&story.text),
                    chapters: proofs(record, &story.chapters),
                    earlier: story.earlier,
                    later: story.later,
                })
                .collect(),
            strings: texts.list,
        }
    }

    /// The test file, as it is shown.
    pub(crate) fn file(&self) -> &str {
        &self.run.file
    }
}

/// A table of texts, each of which is in it once.
#[derive(Default)]
struct Texts {
    list: Vec<Rc<str>>,
    places: BTreeMap<Rc<str>, u32>,
}

impl Texts {
    fn add(&mut self, text: String) -> u32 {
        if let Some(place) = self.places.get(text.as_str()) {
            return *place;
        }
        let place = u32::try_from(self.list.len()).expect("a record has fewer texts than that");
        let text: Rc<str> = text.into();
        self.list.push(text.clone());
        self.places.insert(text, place);
        place
    }
}

fn as_texts<S: Serializer>(texts: &[Rc<str>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(texts.iter().map(|text| &**text))
}

fn run(record: &Record) -> Run {
    let header = &record.header;
    let verdict = &header.verdict;
    let left = header.left_out;
    let left_out = [
        (left.attempts, "attempts"),
        (left.operations, "operations"),
        (left.committed, "commits"),
        (left.events, "events"),
    ];
    let shown = |text: &Option<String>| text.as_deref().map(plain);
    Run {
        program: plain(&header.program),
        host: plain(&header.host),
        file: plain(&header.file),
        seed: header.seed.to_string(),
        buggify: header.buggify,
        drawn: plain(&header.drawn),
        reproduce: shown(&header.reproduce),
        clients: header.clients,
        cluster: plain(&header.cluster),
        passed: verdict.passed,
        kind: shown(&verdict.kind),
        message: shown(&verdict.message),
        client: verdict.client,
        workload: shown(&verdict.workload),
        phase: shown(&verdict.phase),
        time: verdict.time.map(micros),
        end: micros(run_end(record)),
        left_out: left_out
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect(),
    }
}

fn attempts(
    record: &Record,
    words: &Words,
    texts: &mut Texts,
    commits: &mut Vec<CommitRow>,
) -> Attempts {
    let outcomes = outcomes(record);
    let mut columns = Attempts::default();
    for (attempt, outcome) in record.attempts.iter().zip(outcomes) {
        columns.client.push(maybe(attempt.client));
        columns.phase.push(maybe(attempt.phase));
        columns.transaction.push(attempt.transaction);
        columns.number.push(attempt.number);
        columns
            .retries
            .push(maybe(attempt.retries.map(|retry| retry.attempt)));
        let error = attempt
            .retries
            .map(|retry| texts.add(words::error(retry.error)));
        columns.retry_error.push(maybe(error));
        columns.begun.push(micros(attempt.begun));
        columns.ended.push(maybe_micros(attempt.ended));
        columns
            .read_version
            .push(attempt.read_version.unwrap_or(-1));
        columns.outcome.push(outcome as u8);
        columns.end.push(texts.add(words::end(attempt.end)));
        let row = attempt.commit.as_ref().map(|commit| {
            let conflict = commit.conflict.as_ref();
            let winner = conflict.and_then(|conflict| conflict.winner);
            let winner = winner.map(|id| &record.committed[id as usize]);
            let mut list = |texts_of: &mut dyn Iterator<Item = String>| -> Vec<u32> {
                texts_of.map(|text| texts.add(text)).collect()
            };
            (
                commit.operation,
                list(&mut commit.reads.iter().map(|range| words.range(range))),
                list(&mut commit.writes.iter().map(|range| words.range(range))),
                list(&mut commit.mutations.iter().map(|m| words.mutation(m))),
                texts.add(fate(record, commit.fate)),
                maybe(conflict.map(|c| texts.add(words.range(&c.range)))),
                maybe(winner.and_then(|winner| winner.attempt)),
                winner.map_or(-1, |winner| winner.version),
            )
        });
        columns.commit.push(match row {
            Some(row) => {
                commits.push(row);
                commits.len() as i64 - 1
            }
            None => -1,
        });
    }
    columns
}

/// The name of a function, if it has one: a closure and an async block have none that helps.
fn function(name: &str) -> String {
    match name.contains(['{', '}']) {
        true => String::new(),
        false => plain(name),
    }
}

/// The outcome of each attempt.
pub(crate) fn outcomes(record: &Record) -> Vec<Outcome> {
    let mut calls = vec![Vec::new(); record.attempts.len()];
    for operation in &record.operations {
        calls[operation.attempt as usize].push(&operation.call);
    }
    record
        .attempts
        .iter()
        .zip(calls)
        .map(|(attempt, calls)| Outcome::of(attempt, calls))
        .collect()
}

/// What really became of a commit, in words.
pub(crate) fn fate(record: &Record, fate: Fate) -> String {
    match fate {
        Fate::ReadOnly => "It wrote nothing, so there was nothing to commit.".into(),
        Fate::Landed(id) => {
            let committed = &record.committed[id as usize];
            format!("It committed, at version {}.", committed.version)
        }
        Fate::Lost => "It did not commit, and never will.".into(),
        Fate::Unknown => "Whether it committed is not known.".into(),
    }
}

fn operations(record: &Record, words: &Words, texts: &mut Texts) -> Operations {
    let mut columns = Operations::default();
    for operation in &record.operations {
        columns.attempt.push(operation.attempt);
        columns.asked.push(micros(operation.asked));
        columns.answered.push(maybe_micros(operation.answered));
        columns.place.push(maybe(operation.place));
        columns.kind.push(kind(&operation.call));
        columns.call.push(texts.add(words.call(&operation.call)));
        columns
            .answer
            .push(texts.add(words.answer(&operation.answer)));
        let failed = matches!(
            operation.answer,
            Answer::Error(_) | Answer::Dropped | Answer::Pending
        );
        columns.failed.push(u8::from(failed));
    }
    columns
}

fn kind(call: &Call) -> u8 {
    match call {
        Call::Get { .. } | Call::GetKey { .. } | Call::GetRange(_) | Call::GetMappedRange(_) => 0,
        Call::Set { .. } | Call::Clear { .. } | Call::Atomic { .. } => 1,
        Call::Commit => 2,
        _ => 3,
    }
}

fn proofs(record: &Record, proofs: &[Proof]) -> Vec<ProofRow> {
    let row = |proof: &Proof| {
        let (attempt, operation, time) = evidence(record, proof.at);
        ProofRow {
            note: plain(&proof.note),
            attempt: maybe(attempt),
            operation: maybe(operation),
            time: maybe_micros(time),
        }
    };
    proofs.iter().map(row).collect()
}

/// The attempt, the operation and the time of a piece of evidence. One that is not in the record
/// has none of them.
pub(crate) fn evidence(record: &Record, at: Evidence) -> (Option<u32>, Option<u32>, Option<f64>) {
    match at {
        Evidence::Operation(id) => match record.operations.get(id as usize) {
            Some(operation) => (Some(operation.attempt), Some(id), Some(operation.asked)),
            None => (None, None, None),
        },
        Evidence::Attempt(id) => match record.attempts.get(id as usize) {
            Some(attempt) => (Some(id), None, Some(attempt.begun)),
            None => (None, None, None),
        },
        Evidence::Committed(id) => commit_of(record, id),
    }
}

fn commit_of(record: &Record, id: CommittedId) -> (Option<u32>, Option<u32>, Option<f64>) {
    let attempt = record
        .committed
        .get(id as usize)
        .and_then(|committed| committed.attempt);
    let commit = attempt.and_then(|id| record.attempts[id as usize].commit.as_ref());
    match commit {
        Some(commit) => {
            let operation = &record.operations[commit.operation as usize];
            (attempt, Some(commit.operation), Some(operation.asked))
        }
        None => (attempt, None, None),
    }
}

fn span_row(span: &Span) -> SpanRow {
    (
        lane_number(span.lane),
        micros(span.begun),
        micros(span.ended),
        span.event,
    )
}

/// A client is its number; the cluster is −1; processes count down from −2.
fn lane_number(lane: Lane) -> i64 {
    match lane {
        Lane::Client(client) => i64::from(client),
        Lane::Cluster => -1,
        Lane::Process(index) => -2 - index as i64,
    }
}

fn micros(seconds: f64) -> i64 {
    (seconds * 1e6).round() as i64
}

fn maybe_micros(seconds: Option<f64>) -> i64 {
    seconds.map_or(-1, micros)
}

fn maybe(index: Option<u32>) -> i64 {
    index.map_or(-1, i64::from)
}
