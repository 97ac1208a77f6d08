//! `explain`: why a run failed.
//!
//! The record comes from where `log` finds it: the folder of an earlier failure, a record's file,
//! or a run of the seed. What it means is the business of `shaketable-explain`.

use super::log;
use crate::args::{ExplainArgs, FilterArgs, LogArgs, LogFormat, MessageFormat, ValuesShown};
use crate::exit_codes;
use crate::session::SessionError;
use serde::Serialize;
use shaketable_explain::{Explanation, explain as explain_record, text};
use shaketable_record::Header;

/// The width of text that goes to no terminal.
const WIDTH: usize = 100;

/// `explain`.
pub fn explain(args: &ExplainArgs) -> Result<u8, SessionError> {
    let record = log::find(&LogArgs {
        file: args.file.clone(),
        seed: args.seed,
        filter: FilterArgs::default(),
        format: LogFormat::Text,
        // Values are compared with each other: their beginnings would not do.
        values: ValuesShown::Full,
        simulation: args.simulation.clone(),
        build: args.build.clone(),
    })?;
    let explanation = explain_record(&record);
    match args.message_format {
        MessageFormat::Human => anstream::print!("{}", text::text(&record, &explanation, width())),
        MessageFormat::Json => println!("{}", json(&record.header, &explanation)),
    }
    Ok(if record.header.verdict.passed {
        exit_codes::PASSED
    } else {
        exit_codes::TESTS_FAILED
    })
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
