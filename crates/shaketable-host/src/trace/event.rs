//! One trace event: severity, time, type, where, and details.

use serde::{Deserialize, Serialize};

/// How serious an event is. An error fails the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are FoundationDB's")]
pub enum Severity {
    Debug,
    Info,
    Warn,
    WarnAlways,
    Error,
}

impl Severity {
    /// The number in trace files.
    pub fn number(self) -> u8 {
        match self {
            Severity::Debug => 5,
            Severity::Info => 10,
            Severity::Warn => 20,
            Severity::WarnAlways => 30,
            Severity::Error => 40,
        }
    }

    /// The severity a workload passes through the C ABI, or `None` for a number that is not a
    /// severity.
    pub fn from_abi(severity: shaketable_abi::FDBSeverity) -> Option<Severity> {
        Some(match severity {
            shaketable_abi::FDB_SEVERITY_DEBUG => Severity::Debug,
            shaketable_abi::FDB_SEVERITY_INFO => Severity::Info,
            shaketable_abi::FDB_SEVERITY_WARN => Severity::Warn,
            shaketable_abi::FDB_SEVERITY_WARN_ALWAYS => Severity::WarnAlways,
            shaketable_abi::FDB_SEVERITY_ERROR => Severity::Error,
            _ => return None,
        })
    }
}

/// Something that happened, before it is written anywhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// How serious it is.
    pub severity: Severity,
    /// Simulated seconds.
    pub time: f64,
    /// What kind of event: `Type` in the file.
    pub kind: String,
    /// Address of the simulated process, `0.0.0.0:0` for none.
    pub machine: String,
    /// Its details, in order.
    pub details: Vec<(String, String)>,
    /// What the process does, such as `TS` for a tester; empty for nothing.
    pub roles: String,
}

/// The address of events that belong to no simulated process.
pub const NOWHERE: &str = "0.0.0.0:0";

/// A longer value is cut here.
const VALUE_BYTES_MAX: usize = 495;
/// A larger event is dropped.
const EVENT_BYTES_MAX: usize = 4000;
/// How much of a dropped event its replacement shows.
const FIRST_BYTES: usize = 300;

/// Whether a detail only says that the event is that of a workload in Rust, or an error of one:
/// a word to search a trace for, and nothing to read.
pub fn is_tag(key: &str) -> bool {
    matches!(key, "RustWorkload" | "RustFailure")
}

impl Event {
    /// An event of the tester itself.
    pub fn new(severity: Severity, time: f64, kind: impl Into<String>) -> Self {
        Event {
            severity,
            time,
            kind: kind.into(),
            machine: NOWHERE.to_owned(),
            details: Vec::new(),
            roles: String::new(),
        }
    }

    /// Adds a detail.
    #[must_use]
    pub fn detail(mut self, key: impl Into<String>, value: impl ToString) -> Self {
        self.details.push((key.into(), value.to_string()));
        self
    }

    /// Sets the process it happened on.
    #[must_use]
    pub fn on(mut self, machine: impl Into<String>, roles: impl Into<String>) -> Self {
        self.machine = machine.into();
        self.roles = roles.into();
        self
    }

    /// The value of a detail.
    pub fn get(&self, key: &str) -> Option<&str> {
        let detail = self.details.iter().find(|(name, _)| name == key);
        detail.map(|(_, value)| value.as_str())
    }

    /// Escapes and cuts the values as FoundationDB does; an event that is too large becomes an
    /// error about itself.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        for (_, value) in &mut self.details {
            if needs_escape(value) {
                *value = escape(value);
            }
            if value.len() > VALUE_BYTES_MAX {
                value.truncate(VALUE_BYTES_MAX);
                value.push_str("...");
            }
        }
        let size = self.size();
        if size <= EVENT_BYTES_MAX {
            return self;
        }
        let mut first: String = self
            .details
            .iter()
            .map(|(key, value)| format!("{key}={value} "))
            .collect();
        first.insert_str(0, &format!("Type={} ", self.kind));
        // Values are plain characters by now; names are as the workload gave them.
        let mut end = FIRST_BYTES.min(first.len());
        while !first.is_char_boundary(end) {
            end -= 1;
        }
        first.truncate(end);
        Event {
            severity: Severity::Error,
            kind: "TraceEventOverflow".to_owned(),
            details: vec![("TraceFirstBytes".to_owned(), first)],
            ..self
        }
    }

    /// Bytes of keys and values, counted as FoundationDB counts them, including the fields every
    /// event has.
    fn size(&self) -> usize {
        const COMMON: usize = "Severity10TimeDateTime2026-01-02T03:04:05ZTypeMachineID0000000000000000ThreadID4713840295134243325".len();
        let details: usize = self
            .details
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        COMMON + format!("{:.6}", self.time).len() + self.kind.len() + self.machine.len() + details
    }
}

fn needs_escape(value: &str) -> bool {
    value
        .bytes()
        .any(|byte| !(0x20..=0x7e).contains(&byte) || byte == b'\\')
}

fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 8);
    for byte in value.bytes() {
        match byte {
            b'\\' => out.push_str("\\\\"),
            0x20..=0x7e => out.push(byte as char),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_and_cut_as_in_fdbserver() {
        let event = Event::new(Severity::WarnAlways, 1.0, "Probe")
            .detail("Quote", "a\"b")
            .detail("Back", "a\\b")
            .detail("Line", "a\nb")
            .detail("Utf", "€")
            .detail("Long", "y".repeat(600))
            .sealed();
        assert_eq!(event.get("Quote"), Some("a\"b"));
        assert_eq!(event.get("Back"), Some(r"a\\b"));
        assert_eq!(event.get("Line"), Some(r"a\x0ab"));
        assert_eq!(event.get("Utf"), Some(r"\xe2\x82\xac"));
        assert_eq!(
            event.get("Long"),
            Some(format!("{}...", "y".repeat(495)).as_str())
        );
    }

    #[test]
    fn an_event_above_the_limit_becomes_an_error_that_shows_its_beginning() {
        let mut event = Event::new(Severity::Info, 1.0, "Big");
        for index in 0..9 {
            event = event.detail(format!("D{index}"), "z".repeat(490));
        }
        let event = event.sealed();
        assert_eq!(event.kind, "TraceEventOverflow");
        assert_eq!(event.severity, Severity::Error);
        assert!(
            event
                .get("TraceFirstBytes")
                .unwrap()
                .starts_with("Type=Big D0=zzz")
        );
    }

    #[test]
    fn an_event_above_the_limit_is_cut_between_two_characters_of_its_name() {
        for shift in 0..3 {
            let name = "x".repeat(shift) + &"€".repeat(1500);
            let event = Event::new(Severity::Info, 1.0, name).sealed();
            let shown = event.get("TraceFirstBytes").unwrap();
            assert!((FIRST_BYTES - 2..=FIRST_BYTES).contains(&shown.len()));
        }
    }
}
