//! What was asked and answered, in words.
//!
//! An answer follows its call after an arrow. The line of a commit has both truths in it: what the
//! client was told, and what became of the commit.

use super::Story;
use super::keys::{hexadecimal, part, value_text};
use shaketable_record::{Answer, Call, Commit, Fate, Operation};

impl Story<'_> {
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
}

/// Whether the code under test cannot know what became of a commit.
fn is_doubtful(answer: &Answer) -> bool {
    match answer {
        Answer::Error(code) => matches!(code, 1021 | 1025 | 1031 | 1039 | 1101 | 2017),
        Answer::Dropped | Answer::Pending => true,
        _ => false,
    }
}

/// The number of an error, and its name.
fn error_text(code: i32) -> String {
    format!("{code} {}", crate::error_name(code))
}
