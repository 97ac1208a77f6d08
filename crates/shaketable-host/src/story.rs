//! A record as text: a line for each operation, in groups of attempts.
//!
//! `shaketable log` prints all of it, a report the last lines of the client that failed. A line has
//! the simulated second at which the operation was asked for, how long it took, what was asked and
//! answered, and the line of the code under test. For a commit it also says what the client may not
//! know: whether it landed, and who won a conflict. Lines are cut to [`COLUMNS`].

use shaketable_record::text::key_text;
use shaketable_record::{
    Answer, Attempt, Bytes, Call, Commit, End, Fate, Operation, Place, Range, RangeCall, Record,
    Selector,
};
use std::fmt::Write;

/// How wide a line is at most.
pub const COLUMNS: usize = 100;
/// How many columns of a line the place has at its right.
const PLACE_COLUMNS: usize = 28;
/// How many columns are between a text and a place, at least.
const GAP: usize = 2;
/// How much of a key or a value is shown when a line shows more than one.
const PART_CHARACTERS_MAX: usize = 40;

/// The lines of a record.
#[derive(Clone, Copy)]
pub struct Story<'a> {
    record: &'a Record,
}

impl<'a> Story<'a> {
    /// The story of a record.
    pub fn of(record: &'a Record) -> Story<'a> {
        Story { record }
    }

    /// The lines of operations, given by their numbers in order; a line before each group says
    /// whose attempt it is.
    pub fn lines(&self, operations: &[u32]) -> Vec<String> {
        let mut groups: Vec<(u32, Vec<u32>)> = Vec::new();
        for id in operations {
            let attempt = self.record.operations[*id as usize].attempt;
            match groups.iter_mut().rev().find(|(of, _)| *of == attempt) {
                Some((_, group)) => group.push(*id),
                None => groups.push((attempt, vec![*id])),
            }
        }
        let mut lines = Vec::new();
        for (attempt, group) in groups {
            lines.push(self.title(attempt));
            lines.extend(group.into_iter().map(|id| self.line(id)));
        }
        lines
    }

    /// The last operations of the client that failed, up to its failure.
    pub fn of_failure(&self, count: usize) -> Vec<String> {
        let verdict = &self.record.header.verdict;
        if verdict.passed {
            return Vec::new();
        }
        let until = verdict.time.unwrap_or(f64::INFINITY);
        let of_client = (0..).zip(&self.record.operations).filter(|(_, operation)| {
            let attempt = &self.record.attempts[operation.attempt as usize];
            operation.asked <= until
                && (verdict.client.is_none() || attempt.client == verdict.client)
        });
        let ids: Vec<u32> = of_client.map(|(id, _)| id).collect();
        self.lines(&ids[ids.len().saturating_sub(count)..])
    }

    /// The line that introduces an attempt.
    fn title(&self, id: u32) -> String {
        let attempt = &self.record.attempts[id as usize];
        let mut title = match attempt.client {
            Some(client) => format!("client {client}"),
            None => "no client".to_owned(),
        };
        if let Some(phase) = attempt.phase {
            let phase = &self.record.phases[phase as usize];
            let _ = write!(title, ", {} of {}", phase.phase, phase.workload);
        }
        let _ = write!(
            title,
            ", transaction {}, attempt {}",
            attempt.transaction, attempt.number
        );
        if let Some(retry) = attempt.retries {
            let _ = write!(title, ", after {}", retry.error);
        }
        if let Some(end) = end_text(attempt) {
            let _ = write!(title, ": {end}");
        }
        cut(&title, COLUMNS)
    }

    /// The line of one operation.
    fn line(&self, id: u32) -> String {
        let operation = &self.record.operations[id as usize];
        let took = match operation.answered {
            Some(answered) => duration(answered - operation.asked),
            None => String::new(),
        };
        let place = operation
            .place
            .map(|place| place_text(&self.record.places[place as usize]))
            .unwrap_or_default();
        let head = format!("{:>11.6}  {took:>8}  ", operation.asked);
        let text = self.text(id);
        let room = COLUMNS - head.chars().count();
        if place.is_empty() {
            return format!("{head}{}", cut(&text, room));
        }
        // The folders of the place give way to the text.
        let free = room.saturating_sub(text.chars().count() + GAP);
        let place = without_folders(&place, free.min(PLACE_COLUMNS));
        let text = cut(&text, room.saturating_sub(place.chars().count() + GAP));
        let width = (room - PLACE_COLUMNS - GAP).min(room - place.chars().count() - GAP);
        format!("{head}{text:<width$}  {place}")
    }

    /// What was asked and answered.
    pub fn text(&self, id: u32) -> String {
        let operation = &self.record.operations[id as usize];
        let asked = self.call_text(&operation.call);
        if operation.call == Call::Commit {
            let attempt = &self.record.attempts[operation.attempt as usize];
            let commit = attempt.commit.as_ref();
            let commit = commit.filter(|commit| commit.operation == id);
            return format!("{asked}{}", self.commit_text(operation, commit));
        }
        match self.answer_text(operation) {
            Some(answer) => format!("{asked} → {answer}"),
            None => asked,
        }
    }

    fn call_text(&self, call: &Call) -> String {
        let how = |snapshot: bool| if snapshot { " (snapshot)" } else { "" };
        match call {
            Call::GetReadVersion => "get read version".to_owned(),
            Call::SetReadVersion(version) => format!("set read version {version}"),
            Call::Get { key, snapshot } => format!("get {}{}", self.key(key), how(*snapshot)),
            Call::GetKey { selector, snapshot } => {
                format!("get key {}{}", self.selector(selector), how(*snapshot))
            }
            Call::GetRange(range) => format!("get range {}", self.range_call(range)),
            Call::GetMappedRange(range) => format!("get mapped range {}", self.range_call(range)),
            Call::Set { key, value } => format!("set {} = {}", self.key(key), value_text(value)),
            Call::Clear { range } => format!("clear {}", self.range(range)),
            Call::Atomic { key, operand, name } => {
                format!("{name} {} {}", self.key(key), value_text(operand))
            }
            Call::AddConflictRange { range, write } => {
                let kind = if *write { "write" } else { "read" };
                format!("add {kind} conflict {}", self.range(range))
            }
            Call::Watch { key } => format!("watch {}", self.key(key)),
            Call::Commit => "commit".to_owned(),
            Call::OnError(error) => format!("on_error {error}"),
            Call::Cancel => "cancel".to_owned(),
            Call::Reset => "reset".to_owned(),
            Call::GetVersionstamp => "get versionstamp".to_owned(),
            Call::SetOption { name, value } => match value {
                Some(value) => format!("option {name} {}", value_text(value)),
                None => format!("option {name}"),
            },
            Call::Other(name) => name.trim_start_matches("fdb_transaction_").to_owned(),
        }
    }

    fn answer_text(&self, operation: &Operation) -> Option<String> {
        Some(match (&operation.answer, &operation.call) {
            (Answer::Nothing, Call::Watch { .. }) => "changed".to_owned(),
            (Answer::Nothing, Call::OnError(_)) => "again".to_owned(),
            (Answer::Nothing, _) => return None,
            (Answer::Version(version), _) => version.to_string(),
            (Answer::Key(key), Call::GetVersionstamp) => hexadecimal(key),
            (Answer::Key(key), _) => self.key(key),
            (Answer::Value(None), _) => "no value".to_owned(),
            (Answer::Value(Some(value)), _) => value_text(value),
            (Answer::Rows { count, more, .. }, _) => {
                let rows = if *count == 1 { "row" } else { "rows" };
                let more = if *more { ", and more" } else { "" };
                format!("{count} {rows}{more}")
            }
            (Answer::Error(error), _) => error_text(*error),
            (Answer::Dropped, _) => "dropped".to_owned(),
            (Answer::Pending, _) => "no answer".to_owned(),
        })
    }

    /// What a commit was answered, and what really became of it. The second must not be cut off, so
    /// the name of the error gives way.
    fn commit_text(&self, operation: &Operation, commit: Option<&Commit>) -> String {
        let version = |fate: Fate| match fate {
            Fate::Landed(id) => Some(self.record.committed[id as usize].version),
            _ => None,
        };
        let fate = commit.map(|commit| commit.fate);
        match (&operation.answer, fate) {
            (Answer::Nothing, Some(Fate::ReadOnly)) => " → nothing to write".to_owned(),
            (Answer::Nothing, fate) => match fate.and_then(version) {
                Some(version) => format!(" → version {version}"),
                None => " → committed".to_owned(),
            },
            (answer, fate) => {
                let (code, name) = match answer {
                    Answer::Error(error) => (error.to_string(), crate::error_name(*error)),
                    Answer::Dropped => ("dropped".to_owned(), ""),
                    _ => ("no answer".to_owned(), ""),
                };
                let conflict = commit.and_then(|commit| commit.conflict.as_ref());
                if let Some(conflict) = conflict {
                    let range = part(&self.range(&conflict.range));
                    return match conflict.winner.map(|id| self.writer(id)) {
                        Some(by) => format!(" → {code}, {range} by {by}"),
                        None => format!(" → {code}, {range}"),
                    };
                }
                match fate {
                    Some(fate @ Fate::Landed(_)) => match version(fate) {
                        Some(version) => format!(" → {code}, LANDED at version {version}"),
                        None => format!(" → {code}, LANDED"),
                    },
                    Some(Fate::Lost) if is_doubtful(answer) => format!(" → {code}, NOT landed"),
                    Some(Fate::Unknown) => format!(" → {code}, fate unknown"),
                    // Nothing is in doubt about a plain refusal.
                    _ => format!(" → {code} {name}").trim_end().to_owned(),
                }
            }
        }
    }

    /// Who committed.
    fn writer(&self, id: u32) -> String {
        let committed = &self.record.committed[id as usize];
        let attempt = committed.attempt;
        match attempt.map(|id| &self.record.attempts[id as usize]) {
            Some(attempt) => {
                let client = attempt
                    .client
                    .map_or("?".to_owned(), |client| client.to_string());
                format!("client {client}, transaction {}", attempt.transaction)
            }
            None => format!("the cluster, version {}", committed.version),
        }
    }

    /// A key, below the path of its directory if it is in one.
    pub fn key(&self, key: &Bytes) -> String {
        let directories = self.record.header.directories.iter();
        let directory = directories
            .filter(|(prefix, _)| key.kept().starts_with(prefix.kept()) && !prefix.is_empty())
            .max_by_key(|(prefix, _)| prefix.len());
        let text = match directory {
            Some((prefix, path)) => {
                let rest = &key.kept()[prefix.len()..];
                let path = path.join("/");
                match rest {
                    [] => format!("{path}/"),
                    rest => format!("{path}/{}", key_text(rest)),
                }
            }
            None => key_text(key.kept()),
        };
        match key.is_whole() {
            true => text,
            false => format!("{text}… ({} bytes)", key.len()),
        }
    }

    /// A range: a single key as that key, what begins with a prefix as the prefix.
    pub fn range(&self, range: &Range) -> String {
        let (begin, end) = (range.begin.kept(), range.end.kept());
        if end.strip_suffix(&[0]) == Some(begin) {
            return self.key(&range.begin);
        }
        if let (Some(prefix), Some(same)) = (begin.strip_suffix(&[0]), end.strip_suffix(&[0xff]))
            && prefix == same
        {
            return format!("{}…", self.key(&Bytes::whole(prefix)));
        }
        format!(
            "{} to {}",
            part(&self.key(&range.begin)),
            part(&self.key(&range.end))
        )
    }

    fn range_call(&self, call: &RangeCall) -> String {
        let edge = |selector: &Selector| !selector.or_equal && selector.offset == 1;
        let mut text = match edge(&call.begin) && edge(&call.end) {
            true => self.range(&Range {
                begin: call.begin.key.clone(),
                end: call.end.key.clone(),
            }),
            false => format!(
                "{} to {}",
                part(&self.selector(&call.begin)),
                part(&self.selector(&call.end))
            ),
        };
        if call.limit > 0 {
            let _ = write!(text, ", limit {}", call.limit);
        }
        if call.reverse {
            text.push_str(", reverse");
        }
        if call.snapshot {
            text.push_str(" (snapshot)");
        }
        text
    }

    fn selector(&self, selector: &Selector) -> String {
        let key = self.key(&selector.key);
        match (selector.or_equal, selector.offset) {
            (false, 1) => format!("≥ {key}"),
            (true, 1) => format!("> {key}"),
            (true, 0) => format!("≤ {key}"),
            (false, 0) => format!("< {key}"),
            (or_equal, offset) => {
                let from = if or_equal { "≤" } else { "<" };
                format!("{from} {key} {offset:+}")
            }
        }
    }
}

/// Whether the code under test cannot know what became of a commit.
fn is_doubtful(answer: &Answer) -> bool {
    match answer {
        Answer::Error(code) => matches!(code, 1021 | 1025 | 1031 | 1039 | 1101 | 2017),
        Answer::Dropped | Answer::Pending => true,
        _ => false,
    }
}

fn end_text(attempt: &Attempt) -> Option<String> {
    Some(match attempt.end {
        End::Committed => "committed".to_owned(),
        End::Failed(error) => format!("failed with {error}"),
        End::Retried(_) => return None,
        End::Reset => "reset".to_owned(),
        End::Cancelled => "cancelled".to_owned(),
        End::Dropped => "dropped".to_owned(),
        End::DroppedInCommit => "dropped in its commit".to_owned(),
        End::Open => "open when the run ended".to_owned(),
    })
}

/// The number of an error, and its name.
fn error_text(code: i32) -> String {
    format!("{code} {}", crate::error_name(code))
}

/// File and line.
pub fn place_text(place: &Place) -> String {
    format!("{}:{}", place.file, place.line)
}

/// A value: text as text, a small number as a number, a tuple as a tuple, anything else as bytes.
pub fn value_text(value: &Bytes) -> String {
    let kept = value.kept();
    if !value.is_whole() {
        return match kept {
            [] => format!("{} bytes", value.len()),
            kept => format!(
                "{}… ({} bytes)",
                part(&format!("\"{}", kept.escape_ascii())),
                value.len()
            ),
        };
    }
    let is_text = kept.iter().all(|byte| matches!(byte, b' '..=b'~'));
    if !is_text && let Some(number) = small_number(kept) {
        return number.to_string();
    }
    part(&key_text(kept))
}

/// A number of eight or four bytes with the low ones first, as counters are kept, if it is small.
fn small_number(value: &[u8]) -> Option<i64> {
    let number = match value.len() {
        8 => i64::from_le_bytes(value.try_into().ok()?),
        4 => i64::from(i32::from_le_bytes(value.try_into().ok()?)),
        _ => return None,
    };
    (number.unsigned_abs() < 1 << 40).then_some(number)
}

fn hexadecimal(bytes: &Bytes) -> String {
    let digits = bytes.kept().iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

/// A duration in a unit that suits it.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 0.000_1 => format!("{:.1} ms", s * 1e3),
        s if s > 0.0 => format!("{:.0} µs", s * 1e6),
        _ => "0".to_owned(),
    }
}

fn part(text: &str) -> String {
    cut(text, PART_CHARACTERS_MAX)
}

/// The beginning of a text that is too long.
fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let kept: String = text.chars().take(columns.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// A path without as many of its first folders as make it short enough, if that is possible.
fn without_folders(path: &str, columns: usize) -> &str {
    let mut path = path;
    while path.chars().count() > columns
        && let Some((_, rest)) = path.split_once('/')
    {
        path = rest;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use shaketable_record::{Committed, Conflict, Header, Mutation, Phase, Retry, Verdict};

    fn key(text: &str) -> Bytes {
        Bytes::whole(&[b"\x02", text.as_bytes(), b"\x00"].concat())
    }

    fn range(begin: Bytes) -> Range {
        let end = Bytes::whole(&[begin.kept(), &[0]].concat());
        Range { begin, end }
    }

    fn commit(operation: u32, fate: Fate) -> Commit {
        Commit {
            operation,
            reads: Vec::new(),
            writes: Vec::new(),
            mutations: Vec::new(),
            fate,
            conflict: None,
        }
    }

    /// Two clients add to a counter: one in doubt, one in conflict.
    fn record() -> Record {
        let attempt = |client, transaction, number, end| Attempt {
            client: Some(client),
            phase: Some(0),
            transaction,
            number,
            retries: None,
            begun: 1.0,
            ended: None,
            read_version: Some(100),
            commit: None,
            end,
        };
        let mut record = Record {
            header: Header {
                directories: vec![(Bytes::whole(b"\x15\x07"), vec!["app".into(), "jobs".into()])],
                verdict: Verdict {
                    kind: Some("check failed".into()),
                    client: Some(1),
                    time: Some(9.0),
                    ..Verdict::default()
                },
                ..Header::default()
            },
            places: vec![Place {
                file: "a/folder/that/is/long/src/queue.rs".into(),
                line: 88,
                function: "queue::claim".into(),
            }],
            phases: vec![Phase {
                client: 0,
                test: "t".into(),
                workload: "Counter".into(),
                phase: "start".into(),
                begun: 0.0,
                ended: None,
                error: None,
            }],
            attempts: vec![
                attempt(0, 0, 1, End::Retried(1021)),
                attempt(0, 0, 2, End::Committed),
                attempt(1, 1, 1, End::Failed(1020)),
            ],
            committed: vec![Committed {
                version: 200,
                batch_index: 0,
                attempt: Some(0),
                mutations: vec![Mutation::Set {
                    key: key("counter"),
                    value: Bytes::whole(b"1"),
                }],
            }],
            ..Record::default()
        };
        let mut ask = |attempt, asked, took: Option<f64>, call, answer| {
            record.operations.push(Operation {
                attempt,
                asked,
                answered: took.map(|took| asked + took),
                place: (asked > 1.5).then_some(0),
                call,
                answer,
            });
        };
        let counter = || key("counter");
        let one = || Bytes::whole(&1_i64.to_le_bytes());
        let job = Bytes::whole(b"\x15\x07\x15\x01");
        let get = |key: Bytes, snapshot| Call::Get { key, snapshot };
        ask(
            0,
            1.0,
            Some(0.0015),
            get(counter(), false),
            Answer::Value(None),
        );
        let set = Call::Set {
            key: counter(),
            value: one(),
        };
        ask(0, 1.2, None, set, Answer::Nothing);
        ask(0, 1.25, Some(2.5), Call::Commit, Answer::Error(1021));
        ask(0, 3.75, Some(0.01), Call::OnError(1021), Answer::Nothing);
        ask(1, 3.76, Some(0.000_05), get(job, true), Answer::Error(1007));
        let call = RangeCall {
            begin: Selector {
                key: Bytes::whole(b"\x02jobs\x00\x00"),
                or_equal: false,
                offset: 1,
            },
            end: Selector {
                key: Bytes::whole(b"\x02jobs\x00\xff"),
                or_equal: false,
                offset: 1,
            },
            limit: 10,
            target_bytes: 0,
            mode: 0,
            iteration: 1,
            snapshot: false,
            reverse: true,
        };
        let rows = Answer::Rows {
            rows: Vec::new(),
            count: 10,
            more: true,
        };
        ask(2, 4.0, Some(0.2), Call::GetRange(call), rows);
        let operand = one();
        let name = "add".to_owned();
        let atomic = Call::Atomic {
            key: counter(),
            operand,
            name,
        };
        ask(2, 4.3, None, atomic, Answer::Nothing);
        ask(2, 4.3, Some(0.1), Call::Commit, Answer::Error(1020));
        ask(
            2,
            4.5,
            None,
            Call::Watch { key: counter() },
            Answer::Pending,
        );
        record.attempts[0].commit = Some(commit(2, Fate::Landed(0)));
        record.attempts[1].retries = Some(Retry {
            attempt: 0,
            error: 1021,
        });
        record.attempts[2].commit = Some(Commit {
            conflict: Some(Conflict {
                range: range(key("counter")),
                winner: Some(0),
            }),
            ..commit(7, Fate::Lost)
        });
        record
    }

    #[test]
    fn every_operation_is_a_line() {
        let record = record();
        let all: Vec<u32> = (0..record.operations.len() as u32).collect();
        let lines = Story::of(&record).lines(&all);
        insta::assert_snapshot!(lines.join("\n"));
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS));
    }

    #[test]
    fn the_last_operations_of_the_client_that_failed_are_told() {
        let lines = Story::of(&record()).of_failure(2);
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn values_are_shown_as_what_they_look_like() {
        let text = |bytes: &[u8]| value_text(&Bytes::whole(bytes));
        assert_eq!(text(b"12345678"), "\"12345678\"");
        assert_eq!(text(&7_i64.to_le_bytes()), "7");
        assert_eq!(text(&(-7_i32).to_le_bytes()), "-7");
        assert_eq!(text(b"\x02a\x00"), "(\"a\",)");
        assert_eq!(text(b""), "\"\"");
        assert_eq!(value_text(&Bytes::shortened(b"secret", 0)), "6 bytes");
        assert_eq!(
            value_text(&Bytes::shortened(b"a long one", 6)),
            "\"a long… (10 bytes)"
        );
    }
}
