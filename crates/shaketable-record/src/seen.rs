//! What a client alone can see of a run, a line for each thing, in the trace of a server.
//!
//! Under fdbserver no recorder sees both sides. The workload library itself notes its calls and
//! their answers, and writes each as a trace event [`EVENT`], because the trace is all that is left
//! of such a run. A [`Line`] is written when the thing is over: an operation when its answer was
//! heard, an attempt when it has ended. What was under way when the run ended is missing its last
//! lines, and a reader must not need them.
//!
//! A trace cuts long values, drops large events, and escapes what it likes, so a line travels in
//! pieces ([`pieces`]) and in letters that no trace changes ([`to_text`]): JSON with `'` for `"`,
//! and `%` with two digits for everything that is not plain.

use crate::types::{Answer, Call, End};
use serde::{Deserialize, Serialize};

/// The type of the trace events that carry lines.
pub const EVENT: &str = "WorkloadRecord";
/// The detail with the name of the workload: libraries count their lines, and a test may have two.
pub const WORKLOAD: &str = "Workload";
/// The detail with the number of a line, counted over the library.
pub const NUMBER: &str = "Line";
/// The detail that says which event of its line this is, as `1/2`.
pub const PART: &str = "Of";
/// The beginning of the names of the details with text: `Text0`, `Text1`….
pub const TEXT: &str = "Text";

/// How long the value of a detail may be: a server cuts it at 495 bytes.
const PIECE_BYTES_MAX: usize = 480;
/// How many pieces an event may have: a server drops what is over 4000 bytes.
const PIECES_MAX: usize = 5;

/// One thing that a client has seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The client, from 0.
    #[serde(rename = "c")]
    pub client: u32,
    /// The workload's name.
    #[serde(rename = "w")]
    pub workload: String,
    /// What it has seen.
    #[serde(flatten)]
    pub seen: Seen,
}

/// What a client has seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// A phase began.
    Begun {
        /// `setup`, `start` or `check`.
        phase: String,
        /// When.
        time: f64,
    },
    /// A phase ended.
    Ended {
        /// `setup`, `start` or `check`.
        phase: String,
        /// When.
        time: f64,
        /// Whether it was content.
        passed: bool,
        /// What it failed with.
        error: Option<String>,
    },
    /// A stack from which calls are made, when it is met first.
    Stack {
        /// Its number, counted over the library.
        number: u32,
        /// The stack.
        #[serde(flatten)]
        stack: Stack,
    },
    /// A call, when its answer was heard.
    Operation {
        /// The attempt that it belongs to.
        of: AttemptName,
        /// The order of asking, over the library.
        sequence: u64,
        /// When it was asked for.
        asked: f64,
        /// When its answer was heard, if it has one.
        answered: Option<f64>,
        /// The number of the stack from which it was asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stack: Option<u32>,
        /// What was asked.
        call: Call,
        /// What was answered.
        answer: Answer,
    },
    /// The version that an attempt reads at.
    ReadVersion {
        /// The attempt.
        of: AttemptName,
        /// The version.
        version: i64,
    },
    /// An attempt, when it has ended.
    Attempt {
        /// Which.
        of: AttemptName,
        /// The phase that it began in.
        phase: String,
        /// When its first operation was asked for.
        begun: f64,
        /// When it ended.
        ended: f64,
        /// The error that the attempt before it was retried for.
        retries: Option<i32>,
        /// How it ended.
        end: End,
        /// The version of its commit, if it was told one. Negative if it wrote nothing.
        committed: Option<i64>,
    },
}

/// Where a call comes from, for a reader that has the library's file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stack {
    /// The file of the library, as its host named it.
    pub library: String,
    /// What the linker has made of the file's content, in hexadecimal digits; may be empty.
    pub build_id: String,
    /// The return addresses in the file, the innermost first.
    pub addresses: Vec<u64>,
}

/// An attempt of a transaction, as its library counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptName {
    /// The transaction, from 0.
    #[serde(rename = "t")]
    pub transaction: u32,
    /// Which attempt of it, from 1.
    #[serde(rename = "n")]
    pub number: u32,
}

/// A line in letters that no trace changes.
pub fn to_text(line: &Line) -> String {
    let json = serde_json::to_string(line).unwrap_or_default();
    let mut text = String::with_capacity(json.len());
    for byte in json.bytes() {
        match byte {
            b'"' => text.push('\''),
            b'\'' | b'%' | b'\\' | b'<' | b'>' | b'&' | 0..=0x1f | 0x7f.. => {
                text.push_str(&format!("%{byte:02X}"));
            }
            byte => text.push(byte.into()),
        }
    }
    text
}

/// The line of a text that [`to_text`] made, if it is one.
pub fn from_text(text: &str) -> Option<Line> {
    let mut json = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        json.push(match byte {
            b'\'' => b'"',
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    serde_json::from_slice(&json).ok()
}

/// The text of a line in pieces that fit into details, in groups that fit into events.
pub fn pieces(text: &str) -> Vec<Vec<&str>> {
    // The text is ASCII, so any place will do.
    let mut rest = text;
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(rest.len().min(PIECE_BYTES_MAX));
        all.push(piece);
        rest = more;
    }
    all.chunks(PIECES_MAX).map(<[&str]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bytes;

    fn set(value: &[u8]) -> Line {
        Line {
            client: 1,
            workload: "L'été <&>".to_owned(),
            seen: Seen::Operation {
                of: AttemptName {
                    transaction: 3,
                    number: 1,
                },
                sequence: 9,
                asked: 1.25,
                answered: None,
                stack: Some(2),
                call: Call::Set {
                    key: Bytes::whole(b"\x15\x00\\\"%"),
                    value: Bytes::whole(value),
                },
                answer: Answer::Nothing,
            },
        }
    }

    #[test]
    fn a_line_survives_a_trace() {
        let line = set(b"'\xff\n");
        let text = to_text(&line);
        let plain = |letter: u8| (0x20..0x7f).contains(&letter) && !b"\"\\<>&".contains(&letter);
        assert!(text.bytes().all(plain), "{text}");
        assert_eq!(from_text(&text), Some(line));
    }

    #[test]
    fn a_long_line_goes_in_pieces() {
        let text = to_text(&set(&[0; 3000]));
        let events = pieces(&text);
        assert!(events.len() > 1);
        assert!(events.iter().all(|event| event.len() <= PIECES_MAX));
        assert_eq!(events.concat().concat(), text);
    }

    #[test]
    fn what_is_no_line_is_refused() {
        for text in ["", "hello", "{'c':1}", "%", "%4", "%zz"] {
            assert_eq!(from_text(text), None, "{text}");
        }
    }
}
