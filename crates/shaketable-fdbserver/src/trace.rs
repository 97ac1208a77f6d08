//! The trace of a server, read while it is being written.
//!
//! A simulation writes one trace for all of its processes, ten to seventy megabytes, in files that
//! are rolled at ten. A [`Tail`] returns the lines that are new, holds no more than one line and
//! one block of a file, and waits with the next file until it exists. [`parse`] reads a line of
//! either form, JSON or XML, into an [`Event`]. A line that was cut off, or is none, is skipped: a
//! server that was killed leaves such lines.

use quick_xml::XmlVersion;
use quick_xml::events::Event as Xml;
use shaketable_host::trace::{Event, Severity};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A longer line is none of a server's: its events have at most 4,000 bytes, twice that when all of
/// it is escaped.
const LINE_BYTES_MAX: usize = 1 << 16;
const BLOCK_BYTES: usize = 1 << 16;

/// The traces in a folder, read to their present end again and again.
pub struct Tail {
    folder: PathBuf,
    /// Files that were read to their end, or are being read.
    known: BTreeSet<OsString>,
    current: Option<File>,
    /// A line whose end has not been written yet.
    partial: Vec<u8>,
    /// Whether the rest of a line is skipped that is too long.
    skipping: bool,
    block: Vec<u8>,
}

impl Tail {
    /// Begins to read the traces of a folder.
    pub fn new(folder: PathBuf) -> Tail {
        Tail {
            folder,
            known: BTreeSet::new(),
            current: None,
            partial: Vec::new(),
            skipping: false,
            block: vec![0; BLOCK_BYTES],
        }
    }

    /// Hands over every line that has been written since the last time.
    pub fn read(&mut self, mut line: impl FnMut(&str)) -> io::Result<()> {
        loop {
            // A file is rolled when the next one exists: only then is its end final.
            let next = next_file(&self.folder, &self.known)?;
            self.read_current(&mut line)?;
            let Some(next) = next else {
                return Ok(());
            };
            // A file that ends within a line was cut off.
            self.partial.clear();
            self.skipping = false;
            self.current = Some(File::open(self.folder.join(&next))?);
            self.known.insert(next);
        }
    }

    fn read_current(&mut self, line: &mut impl FnMut(&str)) -> io::Result<()> {
        let Some(file) = &mut self.current else {
            return Ok(());
        };
        loop {
            let read = file.read(&mut self.block)?;
            if read == 0 {
                return Ok(());
            }
            let mut rest = &self.block[..read];
            while let Some(end) = memchr::memchr(b'\n', rest) {
                if !std::mem::take(&mut self.skipping) {
                    self.partial.extend_from_slice(&rest[..end]);
                    line(&String::from_utf8_lossy(&self.partial));
                }
                self.partial.clear();
                rest = &rest[end + 1..];
            }
            self.partial.extend_from_slice(rest);
            if self.partial.len() > LINE_BYTES_MAX {
                self.partial.clear();
                self.skipping = true;
            }
        }
    }
}

/// The trace files of a folder, in the order in which they were written.
pub fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut names = names(folder)?;
    names.sort();
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// The names sort in the order in which the files were written.
fn next_file(folder: &Path, known: &BTreeSet<OsString>) -> io::Result<Option<OsString>> {
    let names = names(folder)?;
    Ok(names.into_iter().filter(|name| !known.contains(name)).min())
}

fn names(folder: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        let form = Path::new(&name).extension();
        let is_trace = form.is_some_and(|form| form == "json" || form == "xml");
        if text.starts_with("trace.") && is_trace {
            names.push(name);
        }
    }
    Ok(names)
}

/// The type of the event in a line, without reading all of it.
pub fn type_of(line: &str) -> Option<&str> {
    let (_, rest) = match line.starts_with('{') {
        true => line.split_once("\"Type\": \"")?,
        false => line.split_once(" Type=\"")?,
    };
    rest.split_once('"').map(|(kind, _)| kind)
}

/// Whether the event in a line is at least a warning, without reading all of it.
pub fn is_warning(line: &str) -> bool {
    severity_digit(line).is_some_and(|digit| ['2', '3', '4'].contains(&digit))
}

/// Whether the event in a line is an error, without reading all of it.
pub fn is_error(line: &str) -> bool {
    severity_digit(line) == Some('4')
}

fn severity_digit(line: &str) -> Option<char> {
    let severity = line
        .strip_prefix("{  \"Severity\": \"")
        .or(line.strip_prefix("<Event Severity=\""))?;
    severity.chars().next()
}

/// An event of a tester without what depends on the machine, so that two runs of a server can be
/// compared; nothing of any other event: names of files and numbers of processes differ in every
/// run.
pub fn comparable(line: &str) -> Option<String> {
    let event = parse(line)?;
    let is_measured = ["Sample", "Metrics", "Detail"]
        .iter()
        .any(|word| event.kind.ends_with(word));
    if event.roles != "TS" || is_measured || event.kind.contains("Slow") {
        return None;
    }
    let details = event.details.iter().filter(|(name, _)| {
        !["Backtrace", "RandomId", "Filename", "File", "ActualTime"].contains(&name.as_str())
    });
    let details: Vec<String> = details
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let (time, machine, kind) = (event.time, &event.machine, &event.kind);
    Some(format!(
        "{time:.6} s, {machine}: {kind} {}",
        details.join(" ")
    ))
}

/// The event in a line of a trace of either form.
pub fn parse(line: &str) -> Option<Event> {
    let fields = match line.trim_start().chars().next()? {
        '{' => json_fields(line)?,
        '<' => xml_fields(line)?,
        _ => return None,
    };
    let mut event = Event::new(Severity::Info, 0.0, "");
    for (name, text) in fields {
        match &*name {
            "Severity" => event.severity = severity(&text),
            "Time" => event.time = text.parse().unwrap_or(0.0),
            "Type" => event.kind = text,
            "Machine" => event.machine = text,
            "Roles" => event.roles = text,
            "ErrorKind" | "DateTime" | "ThreadID" | "LogGroup" | "ID" => {}
            _ => event.details.push((name, unescape(&text))),
        }
    }
    (!event.kind.is_empty()).then_some(event)
}

fn severity(text: &str) -> Severity {
    match text.parse().unwrap_or(0) {
        ..10 => Severity::Debug,
        10..20 => Severity::Info,
        20..30 => Severity::Warn,
        30..40 => Severity::WarnAlways,
        40.. => Severity::Error,
    }
}

/// The fields in their order. One that stands twice is kept twice: a workload may name a detail
/// `Time`.
struct Fields(Vec<(String, String)>);

impl<'de> serde::Deserialize<'de> for Fields {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an event")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

fn json_fields(line: &str) -> Option<Vec<(String, String)>> {
    let Fields(fields) = serde_json::from_str(line).ok()?;
    Some(fields)
}

fn xml_fields(line: &str) -> Option<Vec<(String, String)>> {
    let mut reader = quick_xml::Reader::from_str(line);
    let (Xml::Empty(element) | Xml::Start(element)) = reader.read_event().ok()? else {
        return None;
    };
    let mut fields = Vec::new();
    for attribute in element.attributes() {
        let attribute = attribute.ok()?;
        let name = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
        let text = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
        fields.push((name, text.into_owned()));
    }
    Some(fields)
}

/// A value as it was before the server escaped what is not printable.
fn unescape(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let byte = after
            .strip_prefix('x')
            .and_then(|hex| u8::from_str_radix(hex.get(..2)?, 16).ok());
        rest = match (byte, after.strip_prefix('\\')) {
            (Some(byte), _) => {
                bytes.push(byte);
                &after[3..]
            }
            (None, Some(after)) => {
                bytes.push(b'\\');
                after
            }
            (None, None) => {
                bytes.push(b'\\');
                after
            }
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn both_forms_are_read_alike() {
        let json = r#"{  "Severity": "40", "ErrorKind": "Unset", "Time": "1.500000", "DateTime": "2026-11-15T20:53:51Z", "Type": "Broken", "Machine": "3.4.3.1:1", "ID": "0", "Message": "a \"b\" <c>", "ThreadID": "7", "LogGroup": "default", "Roles": "TS" }"#;
        let xml = r#"<Event Severity="40" ErrorKind="Unset" Time="1.500000" DateTime="2026-11-15T20:53:51Z" Type="Broken" Machine="3.4.3.1:1" ID="0" Message="a &quot;b&quot; &lt;c&gt;" ThreadID="7" LogGroup="default" Roles="TS" />"#;
        let event = parse(json).unwrap();
        assert_eq!(parse(xml).unwrap(), event);
        assert_eq!(event.get("Message"), Some("a \"b\" <c>"));
        assert_eq!((event.severity, event.time), (Severity::Error, 1.5));
        for line in [json, xml] {
            assert_eq!((type_of(line), is_warning(line)), (Some("Broken"), true));
            assert!(is_error(line) && !is_error(&line.replacen("40", "30", 1)));
        }
        let others = [
            "",
            "<?xml version=\"1.0\"?>",
            "<Trace>",
            "</Trace>",
            "{",
            "<",
        ];
        for other in others.iter().chain([&&json[..60], &&xml[..60]]) {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn what_a_server_escaped_is_as_it_was() {
        assert_eq!(unescape("plain"), "plain");
        assert_eq!(
            unescape(r"3 \xe2\x82\xac\x0anext \\ \q \x"),
            "3 €\nnext \\ \\q \\x"
        );
    }

    #[test]
    fn a_trace_is_read_as_it_grows_and_rolls() {
        let folder = tempfile::tempdir().unwrap();
        let mut tail = Tail::new(folder.path().to_owned());
        let mut read = || {
            let mut lines = Vec::new();
            tail.read(|line| lines.push(line.to_owned())).unwrap();
            lines
        };
        assert!(read().is_empty());
        let mut first = File::create(folder.path().join("trace.0.0.0.0.1.2.abc.0.1.json")).unwrap();
        write!(first, "one\ntwo\nthr").unwrap();
        assert_eq!(read(), ["one", "two"]);
        writeln!(first, "ee").unwrap();
        assert_eq!(read(), ["three"]);
        write!(first, "four\nlast words that were cut o").unwrap();
        let mut second =
            File::create(folder.path().join("trace.0.0.0.0.1.2.abc.0.2.json")).unwrap();
        writeln!(second, "five").unwrap();
        std::fs::write(folder.path().join("other.json"), "none\n").unwrap();
        assert_eq!(read(), ["four", "five"]);
        write!(second, "{}", "x".repeat(LINE_BYTES_MAX * 3)).unwrap();
        assert!(read().is_empty());
        write!(second, "xxx\nsix\n").unwrap();
        assert_eq!(read(), ["six"]);
    }
}
