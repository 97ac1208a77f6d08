//! Keys, values, changes and places in words.

use crate::history::{Change, History, How};
use crate::{Evidence, Proof};
use shaketable_record::text::key_text;
use shaketable_record::{AttemptId, Bytes, CommittedId, OperationId};

/// Longer values are cut: what differs is mostly at the beginning or in the length.
const VALUE_CHARACTERS_MAX: usize = 48;

impl History<'_> {
    /// A key as a person reads it: as a tuple if it is one, below the path of its directory.
    pub fn key_text(&self, key: &[u8]) -> String {
        let directories = self.record.header.directories.iter();
        let directory = directories
            .filter(|(prefix, _)| !prefix.is_empty() && key.starts_with(prefix.kept()))
            .max_by_key(|(prefix, _)| prefix.len());
        match directory {
            Some((prefix, path)) => {
                let rest = &key[prefix.len()..];
                let rest = if rest.is_empty() {
                    String::new()
                } else {
                    key_text(rest)
                };
                format!("/{}{rest}", path.join("/"))
            }
            None => key_text(key),
        }
    }

    /// The line of a call.
    pub fn place_text(&self, operation: OperationId) -> Option<String> {
        let place = self.operation(operation).place?;
        let place = &self.record.places[place as usize];
        Some(format!("{}:{}", place.file, place.line))
    }

    /// ` at src/queue.rs:88`, or nothing if the line is not known.
    pub fn at_place(&self, operation: Option<OperationId>) -> String {
        operation
            .and_then(|operation| self.place_text(operation))
            .map_or_else(String::new, |place| format!(" at {place}"))
    }

    /// The client of an attempt.
    pub fn who(&self, attempt: AttemptId) -> String {
        match self.attempt(attempt).client {
            Some(client) => format!("client {client}"),
            None => "a call from outside of the clients".to_owned(),
        }
    }

    /// The client of a commit.
    pub fn author(&self, committed: CommittedId) -> String {
        match self.committed(committed).attempt {
            Some(attempt) => self.who(attempt),
            None => "another writer".to_owned(),
        }
    }

    /// What a change did to a key.
    pub fn change_text(&self, key: &[u8], change: &Change) -> String {
        let name = match change.how {
            How::Set => "set",
            How::Clear => "cleared",
            How::ClearRange => "cleared, with its range,",
            How::Atomic => "changed",
        };
        let key = self.key_text(key);
        match (&change.before, &change.after) {
            (None, None) => format!("{name} {key}, which had no value"),
            (Some(before), None) => format!("{name} {key}, which was {}", value_text(before)),
            (None, Some(after)) => format!("{name} {key}: no value → {}", value_text(after)),
            (Some(before), Some(after)) => {
                format!(
                    "{name} {key}: {} → {}",
                    value_text(before),
                    value_text(after)
                )
            }
        }
    }

    /// What a read was told of a key.
    pub fn saw_text(&self, key: &[u8], version: i64) -> String {
        let value = self.value_at(key, version);
        let value = value.map_or_else(|| "no value".to_owned(), value_text);
        format!("read {}: {value}", self.key_text(key))
    }
}

/// A value as a person reads it: text, a number, a tuple, or bytes.
pub fn value_text(value: &Bytes) -> String {
    let bytes = value.kept();
    if !value.is_whole() {
        return format!("{value:?}");
    }
    if bytes.is_empty() {
        return "empty".to_owned();
    }
    let number = match bytes.len() {
        4 => bytes.try_into().ok().map(i32::from_le_bytes).map(i64::from),
        8 => bytes.try_into().ok().map(i64::from_le_bytes),
        _ => None,
    };
    if let Some(number) = number.filter(|number| number.unsigned_abs() < 1 << (bytes.len() * 4)) {
        return number.to_string();
    }
    cut(&key_text(bytes))
}

/// A number as it is stored: as bytes, or in digits.
pub fn number(value: &Bytes) -> Option<i64> {
    value_text(value).trim_matches('"').parse().ok()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The number of an error with its name.
pub fn error_text(error: i32) -> String {
    let name = match error {
        1004 => "timed_out",
        1007 => "transaction_too_old",
        1009 => "future_version",
        1020 => "not_committed",
        1021 => "commit_unknown_result",
        1025 => "transaction_cancelled",
        1031 => "transaction_timed_out",
        1037 => "process_behind",
        1038 => "database_locked",
        1039 => "cluster_version_changed",
        1101 => "operation_cancelled",
        2101 => "transaction_too_large",
        _ => return format!("error {error}"),
    };
    format!("{error} {name}")
}

/// Evidence from a call.
pub fn call(operation: OperationId, note: impl Into<String>) -> Proof {
    Proof {
        at: Evidence::Operation(operation),
        note: note.into(),
    }
}

/// Evidence from an attempt.
pub fn attempt(attempt: AttemptId, note: impl Into<String>) -> Proof {
    Proof {
        at: Evidence::Attempt(attempt),
        note: note.into(),
    }
}

/// Evidence from a commit.
pub fn committed(committed: CommittedId, note: impl Into<String>) -> Proof {
    Proof {
        at: Evidence::Committed(committed),
        note: note.into(),
    }
}
