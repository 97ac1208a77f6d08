//! A record from the trace of a run under fdbserver.
//!
//! A library with the feature `record` writes what its clients do and are told into the trace, in
//! pieces ([`shaketable_record::seen`]). Here they are collected again, from any number of files:
//! a server rolls its trace, and a simulated cluster has many processes. Everything else in a trace
//! is skipped, except errors, which fail a run, and the seed.

use crate::session::SessionError;
use quick_xml::events::{BytesStart, Event as XmlEvent};
use quick_xml::{Reader, XmlVersion};
use shaketable_explain::seen::{Doubts, ErrorEvent, record};
use shaketable_host::library::{Lines, LinesError};
use shaketable_host::transaction_option_name;
use shaketable_record::seen::{EVENT, Line, NUMBER, PART, Stack, TEXT, WORKLOAD, from_text};
use shaketable_record::{Call, Header, Place, Record};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// The fields of an event, by their names.
type Fields = BTreeMap<String, String>;

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
            let fields = match line.trim_start().chars().next() {
                Some('{') => json_fields(&line),
                Some('<') => xml_fields(&line),
                _ => None,
            };
            if let Some(fields) = fields {
                self.event(fields);
            }
        }
        Ok(())
    }

    fn event(&mut self, mut fields: Fields) {
        let kind = fields.get("Type").map(String::as_str);
        if kind == Some(EVENT) {
            self.part(&fields);
            return;
        }
        if kind == Some("ProgramStart")
            && let Some(seed) = fields.get("RandomSeed").and_then(|seed| seed.parse().ok())
        {
            self.seed = seed;
        }
        if fields.get("Severity").map(String::as_str) != Some("40") {
            return;
        }
        let time = fields.remove("Time").and_then(|time| time.parse().ok());
        let name = fields.remove("Type").unwrap_or_default();
        let details = fields
            .into_iter()
            .filter(|(name, _)| !COMMON.contains(&name.as_str()));
        self.errors.push(ErrorEvent {
            time: time.unwrap_or(0.0),
            name,
            details: details.collect(),
        });
    }

    /// A piece of a line.
    fn part(&mut self, fields: &Fields) -> Option<()> {
        let number = fields.get(NUMBER)?.parse().ok()?;
        let (index, count) = fields.get(PART)?.split_once('/')?;
        let texts = (0..).map_while(|index| fields.get(&format!("{TEXT}{index}")));
        let text: String = texts.map(String::as_str).collect();
        let (index, count) = (index.parse().ok()?, count.parse().ok()?);
        let workload = fields.get(WORKLOAD)?.clone();
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

/// Fields that every event has.
const COMMON: [&str; 7] = [
    "Severity", "DateTime", "Machine", "ID", "ThreadID", "LogGroup", "Roles",
];

fn json_fields(line: &str) -> Option<Fields> {
    let object: BTreeMap<String, serde_json::Value> = serde_json::from_str(line).ok()?;
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    let fields = object.into_iter().map(|(name, value)| (name, text(value)));
    Some(fields.collect())
}

fn xml_fields(line: &str) -> Option<Fields> {
    let mut reader = Reader::from_str(line);
    let fields = |element: &BytesStart<'_>| -> Option<Fields> {
        let attributes = element.attributes().filter_map(Result::ok);
        let pairs = attributes.map(|attribute| {
            let name = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
            Some((
                name,
                attribute
                    .normalized_value(XmlVersion::Implicit1_0)
                    .ok()?
                    .into_owned(),
            ))
        });
        pairs.collect()
    };
    match reader.read_event().ok()? {
        XmlEvent::Empty(element) | XmlEvent::Start(element) => fields(&element),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_trace_have_the_same_fields() {
        let json =
            r#"{  "Severity": "40", "Time": "1.5", "Type": "Broken", "Error": "a \"b\" <c>" }"#;
        let xml =
            r#"<Event Severity="40" Time="1.5" Type="Broken" Error="a &quot;b&quot; &lt;c&gt;" />"#;
        assert_eq!(json_fields(json), xml_fields(xml));
        assert_eq!(json_fields(json).unwrap()["Error"], "a \"b\" <c>");
        for other in ["<?xml version=\"1.0\"?>", "<Trace>", "</Trace>", "<", "{"] {
            let fields = xml_fields(other).or(json_fields(other)).unwrap_or_default();
            assert!(fields.is_empty(), "{other}");
        }
    }
}
