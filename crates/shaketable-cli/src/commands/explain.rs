//! `explain`: why a run failed.
//!
//! The record comes from where `log` finds it: the folder of an earlier failure, a record's file,
//! or a run of the seed. A run under fdbserver has no record; what its clients saw is in its trace,
//! if they were built to write it there. What it means is the business of `shaketable-explain`.

use super::{log, trace};
use crate::args::{ExplainArgs, FilterArgs, LogArgs, LogFormat, MessageFormat, ValuesShown};
use crate::exit_codes;
use crate::report::human::plural;
use crate::session::SessionError;
use serde::Serialize;
use shaketable_explain::seen::Doubts;
use shaketable_explain::{Explanation, explain as explain_record, text};
use shaketable_record::{Header, Record};
use std::path::Path;

/// The width of text that goes to no terminal.
const WIDTH: usize = 100;

/// `explain`.
pub fn explain(args: &ExplainArgs) -> Result<u8, SessionError> {
    let (mut record, note) = match &args.file {
        Some(file) => (find(args, file)?, String::new()),
        None => {
            let read = trace::read(&args.trace)?;
            let note = told_by_clients(read.doubts, &read.without_lines, &read.record);
            (read.record, note)
        }
    };
    if args.values == ValuesShown::None {
        record.hide_values();
    }
    let explanation = explain_record(&record);
    match args.message_format {
        MessageFormat::Human => {
            anstream::print!("{}{note}", text::text(&record, &explanation, width()));
        }
        MessageFormat::Json => println!("{}", json(&record.header, &explanation)),
    }
    Ok(if record.header.verdict.passed {
        exit_codes::PASSED
    } else {
        exit_codes::TESTS_FAILED
    })
}

/// The record of a file, a folder or a run.
fn find(args: &ExplainArgs, file: &Path) -> Result<Record, SessionError> {
    log::find(&LogArgs {
        file: file.to_owned(),
        seed: args.seed,
        filter: FilterArgs::default(),
        format: LogFormat::Text,
        values: args.values,
        simulation: args.simulation.clone(),
        build: args.build.clone(),
    })
}

/// What a reader of an explanation from a trace must know.
fn told_by_clients(doubts: Doubts, without_lines: &[String], record: &Record) -> String {
    let Doubts {
        landed,
        alike,
        lost,
        unknown,
    } = doubts;
    let mut note = match record.places.is_empty() {
        true => "This is what the clients saw, without the lines of their code.\n".to_owned(),
        false => "This is what the clients saw.\n".to_owned(),
    };
    for reason in without_lines {
        note += &format!("There are no lines: {reason}\n");
    }
    let parts = [
        (landed, "had landed"),
        (lost, "had not"),
        (unknown, "may have landed or not: no read tells"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if !parts.is_empty() {
        let commits = plural((landed + lost + unknown) as u64, "commit");
        let parts = parts.join(", ");
        note += &format!("{commits} of unknown result, judged by later reads: {parts}.\n");
    }
    if alike > 0 {
        note += &format!(
            "Of the {landed} that had landed, {alike} are like others that had not: reads tell how \
             many landed,\nnot which. The first ones stand for them.\n"
        );
    }
    note
}

/// The columns of the terminal.
pub(super) fn width() -> usize {
    terminal_size::terminal_size().map_or(WIDTH, |(width, _)| usize::from(width.0))
}

fn json(header: &Header, explanation: &Explanation) -> String {
    #[derive(Serialize)]
    struct Explained<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        header: &'a Header,
        #[serde(flatten)]
        explanation: &'a Explanation,
    }
    let explained = Explained {
        kind: "explanation",
        header,
        explanation,
    };
    serde_json::to_string(&explained).expect("an explanation can be written")
}
