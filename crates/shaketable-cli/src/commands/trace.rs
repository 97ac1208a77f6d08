//! A record from the trace of a run under fdbserver.
//!
//! A library with the feature `record` writes what its clients do and are told into the trace, in
//! pieces ([`shaketable_record::seen`]). Here they are collected again, from any number of files:
//! a server rolls its trace, and a simulated cluster has many processes. Everything else in a trace
//! is skipped, except errors, which fail a run, and the seed.

use crate::session::SessionError;
use shaketable_explain::seen::{Doubts, ErrorEvent, record};
use shaketable_fdbserver::trace::{is_error, parse, type_of};
use shaketable_host::library::{Lines, LinesError};
use shaketable_host::trace::{Event, is_tag};
use shaketable_host::transaction_option_name;
use shaketable_record::seen::{EVENT, Line, NUMBER, PART, Stack, TEXT, WORKLOAD, from_text};
use shaketable_record::{Call, Header, Place, Record};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// A record from traces.
pub(super) struct FromTrace {
    pub(super) record: Record,
    pub(super) doubts: Doubts,
    /// Why lines of code are missing.
    pub(super) without_lines: Vec<String>,
}

/// Reads the record out of trace files, or folders of them.
pub(super) fn read(paths: &[PathBuf]) -> Result<FromTrace, SessionError> {
    let mut found = Found::default();
    for path in paths {
        for file in files(path)? {
            found.read(&file)?;
        }
    }
    let name = paths.first().map(|path| path.display().to_string());
    let header = Header {
        program: format!("shaketable {}", env!("CARGO_PKG_VERSION")),
        host: "fdbserver".to_owned(),
        file: name.clone().unwrap_or_default(),
        seed: found.seed,
        ..Header::default()
    };
    let lines = found.lines();
    if lines.is_empty() {
        return Err(SessionError::NoLines(name.unwrap_or_default().into()));
    }
    found
        .errors
        .sort_by(|one, two| one.time.total_cmp(&two.time));
    let mut libraries = Libraries::default();
    let (mut record, doubts) = record(header, lines, &found.errors, |stack| libraries.place(stack));
    for operation in &mut record.operations {
        if let Call::SetOption { name, .. } = &mut operation.call
            && let Some(known) = name.parse().ok().and_then(transaction_option_name)
        {
            *name = known.to_owned();
        }
    }
    Ok(FromTrace {
        record,
        doubts,
        without_lines: libraries.errors(),
    })
}

/// The libraries that were run, each loaded when its first line is looked up.
#[derive(Default)]
struct Libraries(BTreeMap<(String, String), Result<Lines, LinesError>>);

impl Libraries {
    fn place(&mut self, stack: &Stack) -> Option<Place> {
        let key = (stack.library.clone(), stack.build_id.clone());
        let known = self.0.entry(key).or_insert_with(|| Lines::load(stack));
        known.as_ref().ok()?.place(stack)
    }

    fn errors(self) -> Vec<String> {
        let errors = self.0.into_values().filter_map(Result::err);
        errors.map(|error| error.to_string()).collect()
    }
}

/// The trace files that a path stands for.
fn files(path: &Path) -> Result<Vec<PathBuf>, SessionError> {
    let error = |error| SessionError::Trace(path.to_owned(), error);
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(error)? {
        let file = entry.map_err(error)?.path();
        let is_trace = file
            .extension()
            .is_some_and(|extension| extension == "json" || extension == "xml");
        if is_trace {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

#[derive(Default)]
struct Found {
    /// The texts of lines, by workload, number and part; with how many parts there are.
    parts: BTreeMap<(String, u64, usize), (usize, String)>,
    errors: Vec<ErrorEvent>,
    seed: u64,
}

impl Found {
    fn read(&mut self, path: &Path) -> Result<(), SessionError> {
        let error = |error| SessionError::Trace(path.to_owned(), error);
        let file = BufReader::new(File::open(path).map_err(error)?);
        for line in file.split(b'\n') {
            let line = line.map_err(error)?;
            let line = String::from_utf8_lossy(&line);
            // A trace is long, and little of it is read.
            let is_wanted = matches!(type_of(&line), Some(EVENT | PROGRAM_START));
            if (is_wanted || is_error(&line))
                && let Some(event) = parse(&line)
            {
                self.event(event);
            }
        }
        Ok(())
    }

    fn event(&mut self, mut event: Event) {
        event.details.retain(|(key, _)| !is_tag(key));
        match &*event.kind {
            EVENT => {
                self.part(&event);
            }
            PROGRAM_START => {
                let seed = event.get("RandomSeed").and_then(|seed| seed.parse().ok());
                self.seed = seed.unwrap_or(self.seed);
            }
            _ => self.errors.push(ErrorEvent {
                time: event.time,
                name: event.kind,
                details: event.details,
            }),
        }
    }

    /// A piece of a line.
    fn part(&mut self, event: &Event) -> Option<()> {
        let number = event.get(NUMBER)?.parse().ok()?;
        let (index, count) = event.get(PART)?.split_once('/')?;
        let texts = (0..).map_while(|index| event.get(&format!("{TEXT}{index}")));
        let text: String = texts.collect();
        let (index, count) = (index.parse().ok()?, count.parse().ok()?);
        let workload = event.get(WORKLOAD)?.to_owned();
        self.parts.insert((workload, number, index), (count, text));
        Some(())
    }

    /// The lines whose parts are all there, in their order.
    fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut text = String::new();
        for ((_, _, index), (count, part)) in &self.parts {
            if *index == 1 {
                text.clear();
            }
            text.push_str(part);
            if index == count {
                lines.extend(from_text(&text));
            }
        }
        lines
    }
}

/// The event that names the seed.
const PROGRAM_START: &str = "ProgramStart";
