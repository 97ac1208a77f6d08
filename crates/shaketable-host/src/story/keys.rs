//! Keys, ranges and values as people read them.
//!
//! A key in a directory is shown below the directory's path, a tuple as a tuple, a counter as its
//! number. What the record does not have whole is shown with its full length.

use super::{Story, cut};
use shaketable_record::text::key_text;
use shaketable_record::{Bytes, Range, RangeCall, Selector};
use std::fmt::Write;

/// How much of a key or a value is shown when a line shows more than one.
const PART_CHARACTERS_MAX: usize = 40;

impl Story<'_> {
    /// A key, below the path of its directory if it is in one.
    pub fn key(&self, key: &Bytes) -> String {
        let directories = self.record.header.directories.iter();
        let directory = directories
            .filter(|(prefix, _)| key.kept().starts_with(prefix.kept()) && !prefix.is_empty())
            .max_by_key(|(prefix, _)| prefix.len());
        let text = match directory {
            Some((prefix, path)) => {
                let rest = &key.kept()[prefix.len()..];
                let path = path.join("/");
                match rest {
                    [] => format!("{path}/"),
                    rest => format!("{path}/{}", key_text(rest)),
                }
            }
            None => key_text(key.kept()),
        };
        match key.is_whole() {
            true => text,
            false => format!("{text}… ({} bytes)", key.len()),
        }
    }

    /// A range: a single key as that key, what begins with a prefix as the prefix.
    pub fn range(&self, range: &Range) -> String {
        let (begin, end) = (range.begin.kept(), range.end.kept());
        if end.strip_suffix(&[0]) == Some(begin) {
            return self.key(&range.begin);
        }
        if let (Some(prefix), Some(same)) = (begin.strip_suffix(&[0]), end.strip_suffix(&[0xff]))
            && prefix == same
        {
            return format!("{}…", self.key(&Bytes::whole(prefix)));
        }
        format!(
            "{} to {}",
            part(&self.key(&range.begin)),
            part(&self.key(&range.end))
        )
    }

    pub(super) fn range_call(&self, call: &RangeCall) -> String {
        let edge = |selector: &Selector| !selector.or_equal && selector.offset == 1;
        let mut text = match edge(&call.begin) && edge(&call.end) {
            true => self.range(&Range {
                begin: call.begin.key.clone(),
                end: call.end.key.clone(),
            }),
            false => format!(
                "{} to {}",
                part(&self.selector(&call.begin)),
                part(&self.selector(&call.end))
            ),
        };
        if call.limit > 0 {
            let _ = write!(text, ", limit {}", call.limit);
        }
        if call.reverse {
            text.push_str(", reverse");
        }
        if call.snapshot {
            text.push_str(" (snapshot)");
        }
        text
    }

    pub(super) fn selector(&self, selector: &Selector) -> String {
        let key = self.key(&selector.key);
        match (selector.or_equal, selector.offset) {
            (false, 1) => format!("≥ {key}"),
            (true, 1) => format!("> {key}"),
            (true, 0) => format!("≤ {key}"),
            (false, 0) => format!("< {key}"),
            (or_equal, offset) => {
                let from = if or_equal { "≤" } else { "<" };
                format!("{from} {key} {offset:+}")
            }
        }
    }
}

/// A value: text as text, a small number as a number, a tuple as a tuple, anything else as bytes.
pub(super) fn value_text(value: &Bytes) -> String {
    let kept = value.kept();
    if !value.is_whole() {
        return match kept {
            [] => format!("{} bytes", value.len()),
            kept => format!(
                "{}… ({} bytes)",
                part(&format!("\"{}", kept.escape_ascii())),
                value.len()
            ),
        };
    }
    let is_text = kept.iter().all(|byte| matches!(byte, b' '..=b'~'));
    if !is_text && let Some(number) = small_number(kept) {
        return number.to_string();
    }
    part(&key_text(kept))
}

/// A number of eight or four bytes with the low ones first, as counters are kept, if it is small.
fn small_number(value: &[u8]) -> Option<i64> {
    let number = match value.len() {
        8 => i64::from_le_bytes(value.try_into().ok()?),
        4 => i64::from(i32::from_le_bytes(value.try_into().ok()?)),
        _ => return None,
    };
    // A tuple may be as long, but is a large number.
    (number.unsigned_abs() < 1 << (5 * value.len())).then_some(number)
}

pub(super) fn hexadecimal(bytes: &Bytes) -> String {
    let digits = bytes.kept().iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

pub(super) fn part(text: &str) -> String {
    cut(text, PART_CHARACTERS_MAX)
}
