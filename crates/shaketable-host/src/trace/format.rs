//! The two forms of a trace file: one JSON object per line, or XML.

use super::event::{Event, Severity};
use std::fmt::Write;

/// The form of a trace file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One object per line.
    #[default]
    Json,
    /// A `<Trace>` of `<Event>`s.
    Xml,
}

impl Format {
    /// The ending of the file's name.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Xml => "xml",
        }
    }

    /// What stands before the first event.
    pub fn header(self) -> &'static str {
        match self {
            Format::Json => "",
            Format::Xml => "<?xml version=\"1.0\"?>\r\n<Trace>\r\n",
        }
    }

    /// What stands after the last event.
    pub fn footer(self) -> &'static str {
        match self {
            Format::Json => "",
            Format::Xml => "</Trace>\r\n",
        }
    }

    /// One event with its line end.
    pub fn line(self, event: &Event) -> String {
        let mut out = String::with_capacity(256);
        match self {
            Format::Json => {
                out.push_str("{  ");
                let mut first = true;
                fields(event, |key, value| {
                    if !std::mem::take(&mut first) {
                        out.push_str(", ");
                    }
                    out.push('"');
                    json(&mut out, key);
                    out.push_str("\": \"");
                    json(&mut out, value);
                    out.push('"');
                });
                out.push_str(" }\n");
            }
            Format::Xml => {
                out.push_str("<Event ");
                fields(event, |key, value| {
                    xml(&mut out, key);
                    out.push_str("=\"");
                    xml(&mut out, value);
                    out.push_str("\" ");
                });
                out.push_str("/>\n");
            }
        }
        out
    }
}

/// The identity FoundationDB gives the one thread of its simulator; a constant here, like
/// everything else in a run.
const THREAD_ID: &str = "5485021409047155873";

/// All fields of an event, in the order of FoundationDB's files.
fn fields(event: &Event, mut field: impl FnMut(&str, &str)) {
    field("Severity", &event.severity.number().to_string());
    if event.severity >= Severity::Error {
        field("ErrorKind", "Unset");
    }
    field("Time", &format!("{:.6}", event.time));
    field("DateTime", &crate::clock::utc(event.time));
    field("Type", &event.kind);
    field("Machine", &event.machine);
    field("ID", "0000000000000000");
    for (key, value) in &event.details {
        field(key, value);
    }
    field("ThreadID", THREAD_ID);
    field("LogGroup", "default");
    if !event.roles.is_empty() {
        field("Roles", &event.roles);
    }
}

fn json(out: &mut String, text: &str) {
    let is_plain = |byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    if text.bytes().all(is_plain) {
        return out.push_str(text);
    }
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            ' '..='~' => out.push(character),
            // FoundationDB writes `\xhh` here, which is not valid JSON; the standard form is easier
            // to read back.
            _ => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
}

fn xml(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\r' | '\n' | '\0' => out.push(' '),
            _ => out.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Event {
        Event::new(Severity::WarnAlways, 123.456_789_1, "MyEvent")
            .on("3.4.3.2:1", "TS")
            .detail("Layer", "Rust")
            .detail("Quote", "a\"b <c>")
            .detail("Back", "a\\b")
            .detail("Line", "a\nb")
            .detail("Utf", "€")
            .sealed()
    }

    #[test]
    fn json_lines_look_like_those_of_fdbserver() {
        insta::assert_snapshot!(Format::Json.line(&event()), @r#"{  "Severity": "30", "Time": "123.456789", "DateTime": "2026-01-01T00:02:03Z", "Type": "MyEvent", "Machine": "3.4.3.2:1", "ID": "0000000000000000", "Layer": "Rust", "Quote": "a\"b <c>", "Back": "a\\\\b", "Line": "a\\x0ab", "Utf": "\\xe2\\x82\\xac", "ThreadID": "5485021409047155873", "LogGroup": "default", "Roles": "TS" }"#);
    }

    #[test]
    fn xml_events_look_like_those_of_fdbserver() {
        insta::assert_snapshot!(Format::Xml.line(&event()), @r#"<Event Severity="30" Time="123.456789" DateTime="2026-01-01T00:02:03Z" Type="MyEvent" Machine="3.4.3.2:1" ID="0000000000000000" Layer="Rust" Quote="a&quot;b &lt;c&gt;" Back="a\\b" Line="a\x0ab" Utf="\xe2\x82\xac" ThreadID="5485021409047155873" LogGroup="default" Roles="TS" />"#);
    }

    #[test]
    fn an_error_carries_its_kind() {
        let event = Event::new(Severity::Error, 0.0, "TestFailure").detail("Reason", "x");
        assert!(
            Format::Json
                .line(&event)
                .contains(r#""Severity": "40", "ErrorKind": "Unset", "Time": "0.000000""#)
        );
    }
}
