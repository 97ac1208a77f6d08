//! `log`: the record of a run, a line for each operation.
//!
//! The record comes from the folder of an earlier failure, or the seed is run for it. As text it is
//! laid out by `shaketable-host`'s `story`; JSON and CSV have a row for each operation, with the
//! same text beside what it was made of.

use crate::args::{FilterArgs, LogArgs, LogFormat, ValuesShown};
use crate::exit_codes;
use crate::pool::Addresses;
use crate::protocol::Request;
use crate::report::human::plural;
use crate::session::{Session, SessionError};
use crate::sweep::run_one;
use serde::Serialize;
use shaketable_host::failure_folder;
use shaketable_host::plan::{RecordTo, Recording};
use shaketable_host::story::{Story, place_text};
use shaketable_host::trace::Format;
use shaketable_record::{
    Answer, Bytes, Call, Fate, Mutation, Operation, Range, Record, file as record_file,
};
use std::fmt::Write;
use std::fs::{self, File};
use std::path::Path;

/// `log`.
pub fn log(args: &LogArgs) -> Result<u8, SessionError> {
    let mut record = find(args)?;
    if args.values == ValuesShown::None {
        record.hide_values();
    }
    let shown = select(&record, &args.filter);
    let text = match args.format {
        LogFormat::Text => text(&record, &shown),
        LogFormat::Json => json(&record, &shown),
        LogFormat::Csv => csv(&record, &shown),
    };
    anstream::print!("{text}");
    Ok(exit_codes::PASSED)
}

/// The record that was asked for.
pub(super) fn find(args: &LogArgs) -> Result<Record, SessionError> {
    let path = &args.file;
    let in_folder = path.join(failure_folder::RECORD);
    if in_folder.is_file() {
        return read(&in_folder);
    }
    let is_record = path.extension().is_some_and(|extension| extension == "gz");
    if is_record && path.is_file() {
        return read(path);
    }
    if path.is_dir() || !path.exists() {
        return Err(SessionError::NoRecord(path.clone()));
    }
    run(args)
}

fn read(path: &Path) -> Result<Record, SessionError> {
    let error = |error| SessionError::Record(path.to_owned(), error);
    let file = File::open(path).map_err(|found| error(found.into()))?;
    record_file::read(file).map_err(error)
}

/// Runs the seed for its record, which is kept nowhere.
fn run(args: &LogArgs) -> Result<Record, SessionError> {
    let session = Session::prepare(
        std::slice::from_ref(&args.file),
        &args.simulation,
        &args.build,
        true,
    )?;
    let seed = session.only_seed(args.seed)?;
    let folder = std::env::temp_dir().join(format!("shaketable-log-{}", std::process::id()));
    let path = folder.join(failure_folder::RECORD);
    let reproduce = session.repro.line(&session.files[0], seed.0);
    let request = Request {
        file: 0,
        seed: seed.0,
        recording: Recording::Trace {
            path: "/dev/null".into(),
            format: Format::Json,
            record: Some(RecordTo::new(
                path.clone(),
                args.values.into(),
                Some(reproduce),
            )),
        },
        case: None,
    };
    let mut pool = session.pool(1, Addresses::Fixed)?;
    let response = run_one(&mut pool, request, &session.interrupted);
    let record = match response {
        Some(_) if path.is_file() => read(&path),
        Some(_) => Err(SessionError::NoRecord(args.file.clone())),
        None => Err(SessionError::Interrupted),
    };
    let _ = fs::remove_dir_all(&folder);
    record
}

/// The numbers of the operations that a filter lets through.
fn select(record: &Record, filter: &FilterArgs) -> Vec<u32> {
    let story = Story::of(record);
    let matches = |id: u32, operation: &Operation| {
        let attempt = &record.attempts[operation.attempt as usize];
        filter
            .client
            .is_none_or(|client| attempt.client == Some(client))
            && filter
                .transaction
                .is_none_or(|transaction| attempt.transaction == transaction)
            && (!filter.errors || is_error(&operation.answer))
            && filter
                .key
                .as_ref()
                .is_none_or(|key| touches(record, story, id, key))
    };
    let all = (0..).zip(&record.operations);
    let mut ids: Vec<u32> = all
        .filter(|(id, operation)| matches(*id, operation))
        .map(|(id, _)| id)
        .collect();
    if let Some(last) = filter.last {
        ids.drain(..ids.len().saturating_sub(last));
    }
    ids
}

fn is_error(answer: &Answer) -> bool {
    matches!(answer, Answer::Error(_) | Answer::Dropped | Answer::Pending)
}

/// Whether an operation is about keys with this in their text.
fn touches(record: &Record, story: Story, id: u32, text: &str) -> bool {
    let key = |key: &Bytes| story.key(key).contains(text);
    let range = |range: &Range| key(&range.begin) || key(&range.end);
    let operation = &record.operations[id as usize];
    let asked = match &operation.call {
        Call::Get { key: one, .. }
        | Call::Set { key: one, .. }
        | Call::Atomic { key: one, .. }
        | Call::Watch { key: one } => key(one),
        Call::GetKey { selector, .. } => key(&selector.key),
        Call::GetRange(call) | Call::GetMappedRange(call) => {
            key(&call.begin.key) || key(&call.end.key)
        }
        Call::Clear { range: one } | Call::AddConflictRange { range: one, .. } => range(one),
        Call::Commit => {
            let commit = record.attempts[operation.attempt as usize].commit.as_ref();
            commit.is_some_and(|commit| {
                commit.operation == id
                    && commit.mutations.iter().any(|mutation| match mutation {
                        Mutation::Set { key: one, .. } | Mutation::Atomic { key: one, .. } => {
                            key(one)
                        }
                        Mutation::Clear { range: one } => range(one),
                    })
            })
        }
        _ => false,
    };
    let answered = match &operation.answer {
        Answer::Key(one) => key(one),
        Answer::Rows { rows, .. } => rows.iter().any(|(one, _)| key(one)),
        _ => false,
    };
    asked || answered
}

/// The log for people.
fn text(record: &Record, shown: &[u32]) -> String {
    let header = &record.header;
    let mut out = format!("{} seed {}", header.file, header.seed);
    let verdict = &header.verdict;
    match (&verdict.kind, &verdict.message) {
        (Some(kind), Some(message)) => {
            let _ = write!(out, ": {kind}");
            if let Some(client) = verdict.client {
                let _ = write!(out, ", client {client}");
            }
            if let Some(time) = verdict.time {
                let _ = write!(out, ", at {time:.3} s");
            }
            let _ = write!(out, ": {}", message.lines().next().unwrap_or_default());
        }
        _ => out.push_str(": passed"),
    }
    out.push('\n');
    let _ = writeln!(
        out,
        "{} of {}, in {} of {}",
        shown.len(),
        plural(record.operations.len() as u64, "operation"),
        plural(record.attempts.len() as u64, "attempt"),
        plural(u64::from(header.clients), "client")
    );
    let left_out = header.left_out;
    if left_out.operations > 0 || left_out.committed > 0 {
        let _ = writeln!(
            out,
            "older ones were left out: {} in {}, {}",
            plural(left_out.operations, "operation"),
            plural(left_out.attempts, "attempt"),
            plural(left_out.committed, "commit")
        );
    }
    for line in Story::of(record).lines(shown) {
        if !line.starts_with(' ') {
            out.push('\n');
        }
        let _ = writeln!(out, "{line}");
    }
    out
}

/// One operation with everything around it.
#[derive(Serialize)]
struct Row<'a> {
    operation: u32,
    client: Option<u32>,
    workload: Option<&'a str>,
    phase: Option<&'a str>,
    transaction: u32,
    attempt: u32,
    asked: f64,
    answered: Option<f64>,
    text: String,
    call: &'a Call,
    answer: &'a Answer,
    fate: Option<&'static str>,
    version: Option<i64>,
    place: Option<String>,
    function: Option<&'a str>,
}

fn row<'a>(record: &'a Record, story: Story, id: u32) -> Row<'a> {
    let operation = &record.operations[id as usize];
    let attempt = &record.attempts[operation.attempt as usize];
    let phase = attempt.phase.map(|phase| &record.phases[phase as usize]);
    let place = operation.place.map(|place| &record.places[place as usize]);
    let commit = attempt.commit.as_ref();
    let commit = commit.filter(|commit| commit.operation == id);
    let (fate, version) = match commit.map(|commit| commit.fate) {
        None => (None, None),
        Some(Fate::ReadOnly) => (Some("read_only"), None),
        Some(Fate::Landed(landed)) => {
            let version = record.committed[landed as usize].version;
            (Some("landed"), Some(version))
        }
        Some(Fate::Lost) => (Some("lost"), None),
        Some(Fate::Unknown) => (Some("unknown"), None),
    };
    Row {
        operation: id,
        client: attempt.client,
        workload: phase.map(|phase| phase.workload.as_str()),
        phase: phase.map(|phase| phase.phase.as_str()),
        transaction: attempt.transaction,
        attempt: attempt.number,
        asked: operation.asked,
        answered: operation.answered,
        text: story.text(id),
        call: &operation.call,
        answer: &operation.answer,
        fate,
        version,
        place: place.map(place_text),
        function: place.map(|place| place.function.as_str()),
    }
}

/// The log for programs: an object for each operation.
fn json(record: &Record, shown: &[u32]) -> String {
    let story = Story::of(record);
    let lines = shown.iter().map(|id| {
        let row = row(record, story, *id);
        let line = serde_json::to_string(&row).expect("a row can be written");
        line + "\n"
    });
    lines.collect()
}

/// The log for tables.
fn csv(record: &Record, shown: &[u32]) -> String {
    let story = Story::of(record);
    let mut out = String::from(
        "operation,client,workload,phase,transaction,attempt,asked,answered,text,fate,version,place,function\n",
    );
    for id in shown {
        let row = row(record, story, *id);
        let number = |number: Option<String>| number.unwrap_or_default();
        let cells = [
            row.operation.to_string(),
            number(row.client.map(|client| client.to_string())),
            quoted(row.workload.unwrap_or_default()),
            quoted(row.phase.unwrap_or_default()),
            row.transaction.to_string(),
            row.attempt.to_string(),
            row.asked.to_string(),
            number(row.answered.map(|time| time.to_string())),
            quoted(&row.text),
            row.fate.unwrap_or_default().to_owned(),
            number(row.version.map(|version| version.to_string())),
            quoted(&row.place.unwrap_or_default()),
            quoted(row.function.unwrap_or_default()),
        ];
        let _ = writeln!(out, "{}", cells.join(","));
    }
    out
}

/// A cell, in quotes where it needs them.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shaketable_record::{Attempt, Commit, Committed, End, Header, Phase, Place};

    fn record() -> Record {
        let key = Bytes::whole(b"\x02counter\x00");
        let attempt = |client, transaction, end| Attempt {
            client: Some(client),
            phase: Some(0),
            transaction,
            number: 1,
            retries: None,
            begun: 1.0,
            ended: None,
            read_version: None,
            commit: None,
            end,
        };
        let operation = |attempt, asked, call, answer| Operation {
            attempt,
            asked,
            answered: Some(asked + 0.25),
            place: Some(0),
            call,
            answer,
        };
        let get = Call::Get {
            key: key.clone(),
            snapshot: false,
        };
        let mut record = Record {
            header: Header {
                file: "tests/atomic.toml".into(),
                seed: 42,
                clients: 2,
                ..Header::default()
            },
            places: vec![Place {
                file: "src/lib.rs".into(),
                line: 12,
                function: "atomic::add".into(),
            }],
            phases: vec![Phase {
                client: 0,
                test: "Atomic".into(),
                workload: "Atomic".into(),
                phase: "start".into(),
                begun: 0.5,
                ended: None,
                error: None,
            }],
            attempts: vec![
                attempt(0, 0, End::Failed(1031)),
                attempt(1, 1, End::Dropped),
            ],
            operations: vec![
                operation(
                    0,
                    1.0,
                    get,
                    Answer::Value(Some(Bytes::whole(b"7, or \"8\""))),
                ),
                operation(0, 1.5, Call::Commit, Answer::Error(1031)),
                operation(1, 2.0, Call::GetReadVersion, Answer::Version(5)),
            ],
            committed: vec![Committed {
                version: 900,
                batch_index: 0,
                attempt: Some(0),
                mutations: Vec::new(),
            }],
            ..Record::default()
        };
        record.header.verdict.passed = true;
        record.attempts[0].commit = Some(Commit {
            operation: 1,
            reads: Vec::new(),
            writes: Vec::new(),
            mutations: vec![Mutation::Set {
                key,
                value: Bytes::whole(b"8"),
            }],
            fate: Fate::Landed(0),
            conflict: None,
        });
        record
    }

    #[test]
    fn a_log_is_text_json_or_csv() {
        let record = record();
        let all = select(&record, &FilterArgs::default());
        let forms = [text(&record, &all), json(&record, &all), csv(&record, &all)];
        insta::assert_snapshot!(forms.join("\n"));
    }

    #[test]
    fn values_can_be_hidden() {
        let mut record = record();
        record.hide_values();
        assert_eq!(Story::of(&record).text(0), "get (\"counter\",) → 9 bytes");
        let forms = [json(&record, &[0]), csv(&record, &[0])].concat();
        assert!(!forms.contains("7, or"), "{forms}");
    }

    #[test]
    fn filters_are_combined() {
        let record = record();
        let select = |change: &dyn Fn(&mut FilterArgs)| {
            let mut filter = FilterArgs::default();
            change(&mut filter);
            select(&record, &filter)
        };
        assert_eq!(select(&|filter| filter.client = Some(1)), [2]);
        assert_eq!(select(&|filter| filter.transaction = Some(0)), [0, 1]);
        assert_eq!(select(&|filter| filter.errors = true), [1]);
        assert_eq!(select(&|filter| filter.key = Some("count".into())), [0, 1]);
        assert_eq!(select(&|filter| filter.last = Some(1)), [2]);
        assert_eq!(
            select(&|filter| {
                filter.client = Some(1);
                filter.errors = true;
            }),
            [] as [u32; 0]
        );
    }
}
