//! A record as text: a line for each operation, in groups of attempts.
//!
//! `shaketable log` prints all of it, a report the last lines of the client that failed. A line has
//! the simulated second at which the operation was asked for, how long it took, what was asked and
//! answered, and the line of the code under test. For a commit it also says what the client may not
//! know: whether it landed, and who won a conflict. Lines are cut to [`COLUMNS`].
//!
//! Here is the form of lines and groups; what they say is in `words`, and how keys, ranges and
//! values read is in `keys`.

mod keys;
mod words;

use shaketable_record::{Attempt, End, Place, Record};
use std::fmt::Write;

/// How wide a line is at most.
pub const COLUMNS: usize = 100;
/// How many columns of a line the place has at its right.
const PLACE_COLUMNS: usize = 28;
/// How many columns are between a text and a place, at least.
const GAP: usize = 2;

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

/// File and line.
pub fn place_text(place: &Place) -> String {
    format!("{}:{}", place.file, place.line)
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
mod tests;
