//! A run as Joshua's tools read it: the element `<Test>`, with what went wrong inside.

use crate::protocol::Response;
use quick_xml::escape::escape;
use std::path::Path;

/// A run in one line.
pub(super) fn test(file: &Path, joshua_seed: &str, response: &Response, again: &str) -> String {
    let outcome = &response.outcome;
    let flag = |on: bool| if on { "1" } else { "0" }.to_owned();
    let attributes = [
        ("TestFile", file.display().to_string()),
        ("RandomSeed", outcome.seed.to_string()),
        ("JoshuaSeed", joshua_seed.to_owned()),
        ("BuggifyEnabled", flag(outcome.drawn.buggify)),
        ("Ok", flag(outcome.passed())),
        ("Passed", outcome.tests_passed.to_string()),
        ("Failed", outcome.tests_failed.to_string()),
        ("RandomUnseed", outcome.unseed.to_string()),
        (
            "SimElapsedTime",
            format!("{:.6}", outcome.simulated_seconds),
        ),
        ("RealElapsedTime", format!("{:.6}", response.real_seconds)),
    ];
    let mut text = element("Test", &attributes);
    if outcome.passed() {
        return text + "/>";
    }
    text.push('>');
    for failure in &outcome.failures {
        let client = failure
            .client
            .map_or(String::new(), |client| client.to_string());
        let attributes = [
            ("Severity", "40".to_owned()),
            ("Kind", failure.kind.describe().to_owned()),
            ("Test", failure.test.clone()),
            ("Workload", failure.workload.clone()),
            ("Phase", failure.phase.to_string()),
            ("Client", client),
            ("Time", format!("{:.6}", failure.time)),
            ("Message", failure.message.clone()),
            ("Reproduce", again.to_owned()),
        ];
        text.push_str(&element("ShaketableFailure", &attributes));
        text.push_str("/>");
    }
    text + "</Test>"
}

/// The beginning of an element, up to its last attribute; empty ones are left out.
fn element(name: &str, attributes: &[(&str, String)]) -> String {
    let mut text = format!("<{name}");
    for (name, value) in attributes.iter().filter(|(_, value)| !value.is_empty()) {
        text.push_str(&format!(" {name}=\"{}\"", escape(plain(value))));
    }
    text
}

/// A text that stays in its line. XML has no way to write most control characters, and one of them
/// in one result would end `joshua tail --simple` for all.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for char in text.chars() {
        match char {
            '\n' | '\r' | '\t' => plain.push(' '),
            '\0'..' ' | '\u{7f}' | '\u{fffe}' | '\u{ffff}' => plain.extend(char.escape_default()),
            _ => plain.push(char),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn a_run_is_told_in_a_line_of_xml() {
        let file = Path::new("tests/0-atomic.toml");
        let again = "shaketable replay tests/atomic.toml --seed 7";
        insta::assert_snapshot!(test(file, "7", &samples::passing(7), again));
        insta::assert_snapshot!(test(file, "7", &samples::failing(7, "a < \"b\"\nc"), again));
    }

    #[test]
    fn what_xml_cannot_say_is_escaped() {
        assert_eq!(
            plain("key \0\u{1b}[1m\u{ffff} ü"),
            r"key \u{0}\u{1b}[1m\u{ffff} ü"
        );
    }
}
