//! Options of a workload: how a TOML value becomes text, and which ones were read.
//!
//! A workload of FoundationDB receives its options as text, and must read every one of them while
//! it is being created: reading an option empties it, and an option that is not empty afterwards
//! stops the run. That rule is what catches a misspelt option in a test file, so it is kept to the
//! letter, including its corner cases: a second read returns the empty text and not the default,
//! and an option given as `''` counts as read.
//!
//! One difference is deliberate. FoundationDB prints strings back through its TOML library, which
//! doubles backslashes and destroys strings of 78 characters and more; here a string is handed over
//! as it was meant.
//!
//! An array is text with commas, as FoundationDB 8.0 reads it; 7.4 prints it as TOML, with brackets
//! and quotes, which no workload of its own understands.

use crate::printf;
use std::cell::RefCell;
use toml_edit::Value;

/// One option of a workload block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadOption {
    /// The key, as written.
    pub key: String,
    /// The text a workload reads.
    pub text: String,
    /// Its line in the test file; 0 if it comes from no file.
    pub line: usize,
}

/// The options of one workload instance; reading consumes them.
#[derive(Debug, Default)]
pub struct Options {
    remaining: RefCell<Vec<WorkloadOption>>,
}

impl Options {
    /// Options that were not read yet.
    pub fn new(options: &[WorkloadOption]) -> Self {
        Options {
            remaining: RefCell::new(options.to_vec()),
        }
    }

    /// Reads an option, or `default` when the file does not have it. The text is empty from then
    /// on.
    pub fn take(&self, key: &str, default: &str) -> String {
        match self.take_if_present(key) {
            Some(text) => text,
            None => default.to_owned(),
        }
    }

    /// Reads an option the file may not have.
    pub fn take_if_present(&self, key: &str) -> Option<String> {
        let mut options = self.remaining.borrow_mut();
        let option = options.iter_mut().find(|option| option.key == key)?;
        Some(std::mem::take(&mut option.text))
    }

    /// The options that were not read, in the order of the file.
    pub fn unread(&self) -> Vec<WorkloadOption> {
        let options = self.remaining.borrow();
        options
            .iter()
            .filter(|option| !option.text.is_empty())
            .cloned()
            .collect()
    }
}

/// The text under which a workload reads a TOML value.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.value().clone(),
        Value::Integer(number) => number.value().to_string(),
        Value::Float(number) => float(*number.value()),
        Value::Boolean(truth) => truth.value().to_string(),
        Value::Datetime(moment) => moment.value().to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(text_of).collect();
            items.join(",")
        }
        Value::InlineTable(table) => {
            let fields: Vec<String> = table
                .iter()
                .map(|(key, value)| format!("{key}={}", nested(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
    }
}

/// Inside a table a string keeps its quotes.
fn nested(value: &Value) -> String {
    match value {
        Value::String(text) => Value::from(text.value().as_str()).to_string(),
        other => text_of(other),
    }
}

fn float(number: f64) -> String {
    let text = printf::g17(number);
    if text.contains(['.', 'e', 'n', 'i']) {
        text
    } else {
        text + ".0"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(toml: &str) -> String {
        text_of(&toml.parse::<Value>().unwrap())
    }

    #[test]
    fn values_read_as_they_do_in_fdbserver() {
        for (toml, text) in [
            ("true", "true"),
            ("false", "false"),
            ("42", "42"),
            ("0x10", "16"),
            ("1_000", "1000"),
            ("-7", "-7"),
            ("30.0", "30.0"),
            ("0.1", "0.10000000000000001"),
            ("1e22", "1e+22"),
            ("1.0", "1.0"),
            ("'literal text'", "literal text"),
            ("\"basic text\"", "basic text"),
            ("\"€\"", "€"),
            ("''", ""),
            ("[1, 2, 3]", "1,2,3"),
            ("['a', \"b\"]", "a,b"),
            ("[true, false]", "true,false"),
            ("[]", ""),
            ("[[1, 2], [3]]", "1,2,3"),
            ("{ a = 'x', b = [1, 2] }", "{a=\"x\",b=1,2}"),
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ] {
            assert_eq!(read(toml), text, "{toml}");
        }
    }

    #[test]
    fn strings_that_fdbserver_garbles_arrive_whole() {
        assert_eq!(read(r#""back\\slash""#), r"back\slash");
        assert_eq!(read(r#""a\tb""#), "a\tb");
        assert_eq!(read(r#""say \"hi\"""#), "say \"hi\"");
        let long = "7".repeat(100);
        assert_eq!(read(&format!("\"{long}\"")), long);
    }

    #[test]
    fn an_option_is_read_once_and_empty_afterwards() {
        let options = Options::new(&[WorkloadOption {
            key: "rounds".into(),
            text: "5".into(),
            line: 1,
        }]);
        assert_eq!(options.unread().len(), 1);
        assert_eq!(options.take("rounds", "9"), "5");
        assert_eq!(options.take("rounds", "9"), "", "not the default");
        assert_eq!(options.take("absent", "9"), "9");
        assert!(options.unread().is_empty());
    }

    #[test]
    fn an_empty_option_counts_as_read() {
        let options = Options::new(&[WorkloadOption {
            key: "prefix".into(),
            text: String::new(),
            line: 1,
        }]);
        assert!(options.unread().is_empty());
    }
}
