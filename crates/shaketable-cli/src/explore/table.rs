//! The proof of coverage: lines that call the database × what became of their operations.
//!
//! A cell says how many operations of a line there were for an outcome, how many of them were
//! tried, and how the code under test coped. It is empty where no operation of the line can have
//! the outcome: a commit of a transaction that read nothing meets no conflict.

use super::deaths::Death;
use super::operations::{Kind, Outcome};
use super::{Coped, Exploration, Try};
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();
const STRONG: Style = Style::new().bold();

/// All lines, by what they do.
#[derive(Debug, Default, Serialize)]
pub struct Table {
    /// In the order of kinds and lines.
    pub rows: Vec<Row>,
    /// Deaths of clients, in the order of lines.
    pub deaths: Vec<DeathRow>,
}

/// A line in or after which clients died.
#[derive(Debug, Default, Serialize)]
pub struct DeathRow {
    /// The line.
    pub line: String,
    /// As the client began to wait.
    pub waiting: Cell,
    /// When it would have gone on.
    pub going_on: Cell,
}

/// A line that makes operations of a kind.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What it does.
    pub kind: Kind,
    /// The line, as `src/queue.rs:88`; empty if it is not known.
    pub line: String,
    /// How many operations it made in the run.
    pub operations: usize,
    /// What became of them, for each outcome that any of them can have.
    pub outcomes: BTreeMap<Outcome, Cell>,
}

/// What became of an outcome at a line.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// How many ways there are to make it happen: a range can be cut after each of its rows.
    pub possible: usize,
    /// How often it was tried and the run passed.
    pub passed: usize,
    /// How often it was tried and the run failed.
    pub failed: usize,
    /// How often it turned out that it cannot happen.
    pub not_applicable: usize,
    /// The case of the first failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<PathBuf>,
}

impl Cell {
    fn tried(&self) -> usize {
        self.passed + self.failed + self.not_applicable
    }

    /// How it looks, without colours.
    fn text(&self) -> (Style, String) {
        let (possible, tried) = (self.possible, self.tried());
        let of = |count: usize| match tried == possible {
            true => count.to_string(),
            false => format!("{count} of {possible}"),
        };
        if self.failed > 0 {
            let tried = of(self.passed + self.failed);
            return (BAD, format!("✗ {}/{tried}", self.failed));
        }
        match self.passed {
            _ if possible == 0 => (FAINT, "–".to_owned()),
            _ if tried == 0 => (STRONG, format!("? 0 of {possible}")),
            0 if tried == possible => (FAINT, "–".to_owned()),
            passed => (GOOD, format!("✓ {}", of(passed))),
        }
    }
}

impl Table {
    /// The table of an exploration. `cases` are those of the first failures.
    pub fn new(found: &Exploration, cases: &[(&Try, PathBuf)]) -> Table {
        let mut rows: BTreeMap<(Kind, &str), Row> = BTreeMap::new();
        for operation in &found.operations {
            let key = (operation.kind, operation.line.as_str());
            let row = rows.entry(key).or_insert_with(|| Row {
                kind: operation.kind,
                line: operation.line.clone(),
                operations: 0,
                outcomes: BTreeMap::new(),
            });
            row.operations += 1;
            for (outcome, _) in &operation.tries {
                row.outcomes.entry(*outcome).or_default().possible += 1;
            }
        }
        for one in &found.tried {
            let key = (one.kind, one.line.as_str());
            let row = rows.get_mut(&key);
            let Some(cell) = row.and_then(|row| row.outcomes.get_mut(&one.outcome)) else {
                continue;
            };
            match &one.result {
                Coped::Passed => cell.passed += 1,
                Coped::Failed(_) => cell.failed += 1,
                Coped::NotApplicable => cell.not_applicable += 1,
            }
            let case = cases.iter().find(|(failed, _)| std::ptr::eq(*failed, one));
            if let Some((_, path)) = case {
                cell.case = Some(path.clone());
            }
        }
        Table {
            rows: rows.into_values().collect(),
            deaths: deaths(&found.deaths),
        }
    }

    /// How many outcomes of lines were never tried, and how many there are.
    pub fn gaps(&self) -> (usize, usize) {
        let cells = self.rows.iter().flat_map(|row| row.outcomes.values());
        let (mut gaps, mut all) = (0, 0);
        for cell in cells {
            all += 1;
            gaps += usize::from(cell.tried() == 0);
        }
        (gaps, all)
    }

    /// The table as text with colours. What is wider than this many columns continues below, with
    /// the names of the lines again.
    pub fn text(&self, width: usize) -> String {
        let folder = self.common_folder();
        let name = |row: &Row| match row.line.strip_prefix(&folder) {
            Some("") | None => "an unknown line".to_owned(),
            Some(line) => line.to_owned(),
        };
        let mut text = String::new();
        for kind in Kind::ALL {
            // A commit that writes nothing is not sent, and nothing can become of it.
            let rows = self.rows.iter().filter(|row| row.kind == kind);
            let rows: Vec<&Row> = rows.filter(|row| !row.outcomes.is_empty()).collect();
            if rows.is_empty() {
                continue;
            }
            let title = format!("{}s in {folder}", kind.group());
            let title = if folder.is_empty() {
                format!("{}s", kind.group())
            } else {
                title
            };
            let names = rows.iter().map(|row| name(row).chars().count() + 2);
            let first = names.chain([title.chars().count()]).max().unwrap_or(0);
            let columns: Vec<(Outcome, usize)> = kind
                .outcomes()
                .iter()
                .map(|outcome| {
                    let (top, bottom) = outcome.head();
                    let cells = rows.iter().filter_map(|row| row.outcomes.get(outcome));
                    let widths = cells.map(|cell| cell.text().1.chars().count());
                    let widest = widths.chain([top.len(), bottom.len()]).max();
                    (*outcome, widest.unwrap_or(0))
                })
                .collect();
            for columns in parts(&columns, width.saturating_sub(first)) {
                let mut heads = [String::new(), String::new()];
                for (outcome, width) in columns {
                    let (top, bottom) = outcome.head();
                    let _ = write!(heads[0], "   {top:<width$}");
                    let _ = write!(heads[1], "   {bottom:<width$}");
                }
                let _ = writeln!(text, "\n{:first$}{}", "", heads[0].trim_end());
                let line = format!("{STRONG}{title:first$}{STRONG:#}{}", heads[1].trim_end());
                let _ = writeln!(text, "{line}");
                for row in &rows {
                    let mut line = format!("  {:<width$}", name(row), width = first - 2);
                    for (outcome, width) in columns {
                        let (style, words) = match row.outcomes.get(outcome) {
                            Some(cell) => cell.text(),
                            None => (FAINT, "–".to_owned()),
                        };
                        let pad = width - words.chars().count();
                        let _ = write!(line, "   {style}{words}{style:#}{:pad$}", "");
                    }
                    let _ = writeln!(text, "{}", line.trim_end());
                }
            }
        }
        self.write_deaths(&folder, width, &mut text);
        text
    }

    fn write_deaths(&self, folder: &str, columns: usize, text: &mut String) {
        if self.deaths.is_empty() {
            return;
        }
        let title = format!("clients die in {folder}");
        let name = |line: &str| match line.strip_prefix(folder) {
            _ if line.is_empty() => "before the first call".to_owned(),
            Some(line) => line.to_owned(),
            None => line.to_owned(),
        };
        let names = self
            .deaths
            .iter()
            .map(|row| name(&row.line).chars().count() + 2);
        let first = names.max().unwrap_or(0);
        let cells = self
            .deaths
            .iter()
            .map(|row| row.waiting.text().1.chars().count());
        const WAITING: &str = "as it waits";
        let width = cells.chain([WAITING.len()]).max().unwrap_or(0);
        let heads = format!("{WAITING:<width$}   when it would go on");
        let beside = first.max(title.chars().count());
        let first = match beside + 3 + heads.len() <= columns {
            true => {
                let _ = writeln!(text, "\n{STRONG}{title:beside$}{STRONG:#}   {heads}");
                beside
            }
            false => {
                let _ = writeln!(text, "\n{STRONG}{title}{STRONG:#}\n{:first$}   {heads}", "");
                first
            }
        };
        for row in &self.deaths {
            let (style, words) = row.waiting.text();
            let pad = width - words.chars().count();
            let (late, late_words) = row.going_on.text();
            let _ = writeln!(
                text,
                "  {:<names$}   {style}{words}{style:#}{:pad$}   {late}{late_words}{late:#}",
                name(&row.line),
                "",
                names = first - 2,
            );
        }
    }

    /// The folder that all lines are in, with a slash at its end.
    fn common_folder(&self) -> String {
        let mut lines = self.rows.iter().map(|row| row.line.as_str());
        let mut lines = lines.by_ref().filter(|line| !line.is_empty());
        let Some(first) = lines.next() else {
            return String::new();
        };
        let mut folder = first.rfind('/').map_or("", |slash| &first[..=slash]);
        for line in lines {
            while !line.starts_with(folder) {
                let shorter = folder.trim_end_matches('/').rfind('/');
                folder = shorter.map_or("", |slash| &folder[..=slash]);
            }
        }
        folder.to_owned()
    }
}

/// The columns of a table in parts that have room, each with one column at least.
fn parts(mut columns: &[(Outcome, usize)], room: usize) -> Vec<&[(Outcome, usize)]> {
    let mut parts = Vec::new();
    while !columns.is_empty() {
        let mut used = 0;
        let fits = columns.iter().take_while(|(_, width)| {
            used += 3 + width;
            used <= room
        });
        let (part, rest) = columns.split_at(fits.count().max(1));
        parts.push(part);
        columns = rest;
    }
    parts
}

/// The deaths by line.
fn deaths(all: &[Death]) -> Vec<DeathRow> {
    let mut rows: BTreeMap<&str, DeathRow> = BTreeMap::new();
    for death in all {
        let row = rows.entry(&death.line).or_insert_with(|| DeathRow {
            line: death.line.clone(),
            ..DeathRow::default()
        });
        let cell = match death.moment.is_late {
            true => &mut row.going_on,
            false => &mut row.waiting,
        };
        cell.possible += 1;
        match &death.result {
            Coped::Passed => cell.passed += 1,
            Coped::Failed(_) => cell.failed += 1,
            Coped::NotApplicable => cell.not_applicable += 1,
        }
    }
    rows.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: Kind, line: &str, cells: &[(Outcome, [usize; 4])]) -> Row {
        let cells = cells.iter().map(|(outcome, counts)| {
            let [possible, passed, failed, not_applicable] = *counts;
            let cell = Cell {
                possible,
                passed,
                failed,
                not_applicable,
                case: None,
            };
            (*outcome, cell)
        });
        Row {
            kind,
            line: line.to_owned(),
            operations: 3,
            outcomes: cells.collect(),
        }
    }

    #[test]
    fn a_table_says_what_was_tried_and_what_was_not() {
        let table = Table {
            rows: vec![
                row(
                    Kind::Commit,
                    "layer/src/queue.rs:88",
                    &[
                        (Outcome::ReplyLost, [40, 37, 3, 0]),
                        (Outcome::RequestLost, [40, 40, 0, 0]),
                        (Outcome::TooOld, [40, 12, 0, 0]),
                        (Outcome::RequestLate, [40, 0, 0, 0]),
                        (Outcome::ReplyLate, [40, 0, 0, 40]),
                        (Outcome::ProxyDiesAfter, [40, 9, 1, 0]),
                    ],
                ),
                row(Kind::Read, "layer/src/queue.rs:91", &[]),
                row(
                    Kind::RangeRead,
                    "layer/src/a/b.rs:7",
                    &[(Outcome::Cut, [2, 2, 0, 0])],
                ),
                row(Kind::RangeRead, "", &[(Outcome::Cut, [1, 1, 0, 0])]),
            ],
            deaths: vec![DeathRow {
                line: "layer/src/queue.rs:88".to_owned(),
                waiting: Cell {
                    possible: 12,
                    passed: 12,
                    ..Cell::default()
                },
                going_on: Cell {
                    possible: 12,
                    passed: 10,
                    failed: 2,
                    ..Cell::default()
                },
            }],
        };
        assert_eq!(table.gaps(), (1, 8));
        let text = |width| anstream::adapter::strip_str(&table.text(width)).to_string();
        insta::assert_snapshot!(text(usize::MAX));
        let narrow = text(60);
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 60),
            "{narrow}"
        );
        // What does not fit continues below, with its lines again.
        insta::assert_snapshot!("a_narrow_table", narrow);
    }
}
