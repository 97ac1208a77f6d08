//! The comparison as a table: Markdown, so that it can be pasted, and aligned, so that it can be
//! read in a terminal.

use super::{Row, Seen};
use crate::chance::Share;

/// The rows as a table; `server` heads the column of the real one.
pub fn markdown(server: &str, rows: &[Row]) -> String {
    let mut lines = vec![[
        String::new(),
        server.to_owned(),
        "embedded".to_owned(),
        String::new(),
    ]];
    for row in rows {
        let verdict = match (row.differs(), row.counts) {
            (true, true) => "**differs**",
            (true, false) => "differs",
            (false, _) => "",
        };
        lines.push([
            shortened(&row.what).replace('|', "\\|"),
            text(&row.real),
            text(&row.embedded),
            verdict.to_owned(),
        ]);
    }
    let width = |column: usize| {
        let widths = lines.iter().map(|line| line[column].chars().count());
        widths.max().unwrap_or(0).max(3)
    };
    let widths = [width(0), width(1), width(2), width(3)];
    let mut table = String::new();
    for (number, line) in lines.iter().enumerate() {
        table.push_str(&joined(line.each_ref().map(String::as_str), widths, ' '));
        if number == 0 {
            table.push_str(&joined([""; 4], widths, '-'));
        }
    }
    table
}

fn joined(cells: [&str; 4], widths: [usize; 4], fill: char) -> String {
    let mut line = String::from("|");
    for (cell, width) in cells.into_iter().zip(widths) {
        let missing = width - cell.chars().count();
        let filled: String = std::iter::repeat_n(fill, missing).collect();
        line.push_str(&format!(" {cell}{filled} |"));
    }
    line.push('\n');
    line
}

/// How much of a failure's message fits into a table.
const WORDS_MAX: usize = 72;

fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= WORDS_MAX {
        return line.to_owned();
    }
    let beginning: String = line.chars().take(WORDS_MAX - 1).collect();
    format!("{beginning}…")
}

fn text(seen: &Seen) -> String {
    match seen {
        Seen::Share(share) => shown(*share),
        Seen::Mean(mean, spread) => format!("{} ± {}", number(*mean), number(*spread)),
    }
}

/// `95 % (76–99)`.
fn shown(share: Share) -> String {
    let percent = |share: f64| format!("{:.0}", 100.0 * share);
    let (low, high) = share.interval();
    format!(
        "{} % ({}–{}) of {}",
        percent(share.value()),
        percent(low),
        percent(high),
        share.of
    )
}

/// A number with about three digits.
fn number(value: f64) -> String {
    match value.abs() {
        ..0.095 => format!("{value:.3}"),
        ..9.95 => format!("{value:.2}"),
        ..99.5 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
