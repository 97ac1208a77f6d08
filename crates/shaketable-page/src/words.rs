//! Keys, values, calls, answers and fates in words.
//!
//! Everything that is shown of them is written here, so that the page and the Perfetto trace use
//! the same words. What is returned has no control characters and none that change the direction
//! of text: those are escaped, because they could make a line look like another one.

use shaketable_record::text::key_text;
use shaketable_record::{Answer, Bytes, Call, End, Event, Mutation, Range, Record, Selector};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Longer texts are cut. The page is for looking; the record has everything that was kept.
const VALUE_CHARACTERS_MAX: usize = 240;
/// Eight bytes that make a larger number are shown as bytes.
const COUNTER_MAX: u64 = 1 << 40;
/// How many rows of a range are shown.
const ROWS_SHOWN_MAX: usize = 20;

/// Writes in words what a record holds.
pub(crate) struct Words<'a> {
    /// The prefixes of directories with their paths, longest first.
    directories: Vec<(&'a [u8], String)>,
    /// The keys that were put into words: most of them come again and again.
    keys: RefCell<BTreeMap<Bytes, String>>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(record: &'a Record) -> Words<'a> {
        let mut directories: Vec<_> = record
            .header
            .directories
            .iter()
            .filter(|(prefix, _)| prefix.is_whole() && !prefix.is_empty())
            .map(|(prefix, path)| (prefix.kept(), plain(&path.join("/"))))
            .collect();
        directories.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Words {
            directories,
            keys: RefCell::default(),
        }
    }

    /// A key: in its directory if it is in one, as a tuple if it is one.
    pub(crate) fn key(&self, key: &Bytes) -> String {
        if let Some(text) = self.keys.borrow().get(key) {
            return text.clone();
        }
        let text = self.key_in_words(key);
        self.keys.borrow_mut().insert(key.clone(), text.clone());
        text
    }

    fn key_in_words(&self, key: &Bytes) -> String {
        let whole = key.kept();
        let directory = self
            .directories
            .iter()
            .find(|(prefix, _)| whole.starts_with(prefix));
        let mut text = match directory {
            Some((prefix, path)) if prefix.len() == whole.len() => format!("/{path}"),
            Some((prefix, path)) => format!("/{path} {}", key_text(&whole[prefix.len()..])),
            None => key_text(whole),
        };
        if !key.is_whole() {
            let _ = write!(text, " ({} bytes)", key.len());
        }
        plain(&text)
    }

    /// Keys from the first to the second, or what they have in common: the only one that is in
    /// between, a tuple, a prefix.
    pub(crate) fn range(&self, range: &Range) -> String {
        self.stretch(&range.begin, &range.end)
            .unwrap_or_else(|| format!("{} … {}", self.key(&range.begin), self.key(&range.end)))
    }

    /// The name of a range that has one.
    fn stretch(&self, begin: &Bytes, end: &Bytes) -> Option<String> {
        if !begin.is_whole() || !end.is_whole() {
            return None;
        }
        let (first, last) = (begin.kept(), end.kept());
        if last.strip_prefix(first) == Some(&[0]) {
            return Some(self.key(begin));
        }
        // What the tuple layer calls the range of a tuple or of a subspace.
        if let (Some(of), Some(to)) = (first.strip_suffix(&[0]), last.strip_suffix(&[0xff]))
            && of == to
            && !of.is_empty()
        {
            return Some(format!("everything in {}", self.key(&Bytes::whole(of))));
        }
        let (byte, rest) = first.split_last()?;
        if byte.checked_add(1) == last.last().copied() && last.strip_prefix(rest)?.len() == 1 {
            return Some(format!("everything from {}", self.key(begin)));
        }
        None
    }

    fn selector(&self, selector: &Selector) -> String {
        let key = self.key(&selector.key);
        match (selector.or_equal, selector.offset) {
            (false, 1) => key,
            (true, 1) => format!("after {key}"),
            (false, 0) => format!("last before {key}"),
            (true, 0) => format!("last up to {key}"),
            (or_equal, offset) => {
                let sign = if or_equal { "after " } else { "" };
                format!("{sign}{key} {:+}", offset - 1)
            }
        }
    }

    /// What was asked.
    pub(crate) fn call(&self, call: &Call) -> String {
        let isolation = |snapshot: &bool| if *snapshot { " at snapshot" } else { "" };
        match call {
            Call::GetReadVersion => "get read version".into(),
            Call::SetReadVersion(version) => format!("set read version {version}"),
            Call::Get { key, snapshot } => {
                format!("get {}{}", self.key(key), isolation(snapshot))
            }
            Call::GetKey { selector, snapshot } => {
                format!("get key {}{}", self.selector(selector), isolation(snapshot))
            }
            Call::GetRange(range) | Call::GetMappedRange(range) => {
                let mapped = matches!(call, Call::GetMappedRange(_));
                let plain = |selector: &Selector| !selector.or_equal && selector.offset == 1;
                let named = (plain(&range.begin) && plain(&range.end))
                    .then(|| self.stretch(&range.begin.key, &range.end.key))
                    .flatten();
                let keys = named.unwrap_or_else(|| {
                    let (begin, end) = (&range.begin, &range.end);
                    format!("{} … {}", self.selector(begin), self.selector(end))
                });
                let mapped = if mapped { "mapped " } else { "" };
                let mut text = format!("get {mapped}range {keys}");
                if range.limit > 0 {
                    let _ = write!(text, ", at most {}", range.limit);
                }
                if range.iteration > 1 {
                    let _ = write!(text, ", batch {}", range.iteration);
                }
                if range.reverse {
                    text.push_str(", last first");
                }
                text.push_str(isolation(&range.snapshot));
                text
            }
            Call::Set { key, value } => self.set(key, value),
            Call::Clear { range } => format!("clear {}", self.range(range)),
            Call::Atomic { key, operand, name } => self.atomic(key, operand, name),
            Call::AddConflictRange { range, write } => {
                let kind = if *write { "write" } else { "read" };
                format!("add {kind} conflict {}", self.range(range))
            }
            Call::Watch { key } => format!("watch {}", self.key(key)),
            Call::Commit => "commit".into(),
            Call::OnError(code) => format!("on error {}", error(*code)),
            Call::Cancel => "cancel".into(),
            Call::Reset => "reset".into(),
            Call::GetVersionstamp => "get versionstamp".into(),
            Call::SetOption { name, value } => match value {
                Some(value) => format!("set option {} = {}", plain(name), value_text(value)),
                None => format!("set option {}", plain(name)),
            },
            Call::Other(name) => plain(name),
        }
    }

    fn set(&self, key: &Bytes, value: &Bytes) -> String {
        format!("set {} = {}", self.key(key), value_text(value))
    }

    fn atomic(&self, key: &Bytes, operand: &Bytes, name: &str) -> String {
        let name = plain(name).replace('_', " ");
        format!("{name} {} by {}", self.key(key), value_text(operand))
    }

    /// A change of the database, in the words of the call that asked for it.
    pub(crate) fn mutation(&self, mutation: &Mutation) -> String {
        match mutation {
            Mutation::Set { key, value } => self.set(key, value),
            Mutation::Clear { range } => format!("clear {}", self.range(range)),
            Mutation::Atomic { key, operand, name } => self.atomic(key, operand, name),
        }
    }

    /// What was answered; empty if there is nothing to say.
    pub(crate) fn answer(&self, answer: &Answer) -> String {
        match answer {
            Answer::Nothing => String::new(),
            Answer::Version(version) => format!("version {version}"),
            Answer::Key(key) => self.key(key),
            Answer::Value(Some(value)) => value_text(value),
            Answer::Value(None) => "no value".into(),
            Answer::Rows { rows, count, more } => {
                let mut text = match count {
                    0 => "no rows".into(),
                    1 => "1 row".into(),
                    count => format!("{count} rows"),
                };
                if *more {
                    text.push_str(", and there are more");
                }
                for (key, value) in rows.iter().take(ROWS_SHOWN_MAX) {
                    let _ = write!(text, "\n{} = {}", self.key(key), value_text(value));
                }
                let hidden = (*count as usize).saturating_sub(rows.len().min(ROWS_SHOWN_MAX));
                if hidden > 0 && *count > 0 {
                    let _ = write!(text, "\n… and {hidden} more that are not shown");
                }
                text
            }
            Answer::Error(code) => error(*code),
            Answer::Dropped => "dropped before the answer came".into(),
            Answer::Pending => "no answer before the run ended".into(),
        }
    }
}

/// A value: as text if it is text, as a number if it is a counter, else as bytes.
pub(crate) fn value_text(value: &Bytes) -> String {
    let bytes = value.kept();
    if bytes.is_empty() && !value.is_empty() {
        return format!("{} bytes", value.len());
    }
    let printable = bytes
        .iter()
        .all(|byte| (b' '..=b'~').contains(byte) && *byte != b'"');
    // Counters are kept as FoundationDB adds them: little-endian. Few other values of that size
    // are small numbers.
    if let Ok(number) = <[u8; 8]>::try_from(bytes).map(i64::from_le_bytes)
        && value.is_whole()
        && number.unsigned_abs() < COUNTER_MAX
    {
        return format!("{number} (8 bytes)");
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if !printable && text.chars().all(|c| !c.is_control()) => format!("{text:?}"),
        _ => format!("\"{}\"", bytes.escape_ascii()),
    };
    let mut text = cut(&plain(&text), VALUE_CHARACTERS_MAX);
    if !value.is_whole() {
        let _ = write!(text, " ({} bytes)", value.len());
    }
    text
}

/// How an attempt ended, for a person.
pub(crate) fn end(end: End) -> String {
    match end {
        End::Committed => "committed".into(),
        End::Failed(code) => format!("failed with {}", error(code)),
        End::Retried(code) => format!("retried after {}", error(code)),
        End::Reset => "reset".into(),
        End::Cancelled => "cancelled".into(),
        End::Dropped => "dropped without a commit".into(),
        End::DroppedInCommit => "dropped while its commit was under way".into(),
        End::Open => "still open when the run ended".into(),
    }
}

/// The details of an event, on one line each.
pub(crate) fn details(event: &Event) -> String {
    let lines: Vec<String> = event
        .details
        .iter()
        .map(|(name, value)| format!("{}: {}", plain(name), cut(&plain(value), 400)))
        .collect();
    lines.join("\n")
}

/// An error with the name that FoundationDB gives it.
pub(crate) fn error(code: i32) -> String {
    let name = match code {
        1000 => "operation_failed",
        1004 => "timed_out",
        1006 => "all_alternatives_failed",
        1007 => "transaction_too_old",
        1009 => "future_version",
        1020 => "not_committed",
        1021 => "commit_unknown_result",
        1025 => "transaction_cancelled",
        1026 => "connection_failed",
        1031 => "transaction_timed_out",
        1032 => "too_many_watches",
        1034 => "watches_disabled",
        1036 => "accessed_unreadable",
        1037 => "process_behind",
        1038 => "database_locked",
        1039 => "cluster_version_changed",
        1042 => "proxy_memory_limit_exceeded",
        1051 => "batch_transaction_throttled",
        1078 => "grv_proxy_memory_limit_exceeded",
        1101 => "operation_cancelled",
        1102 => "future_released",
        1213 => "tag_throttled",
        1223 => "proxy_tag_throttled",
        1235 => "transaction_throttled_hot_shard",
        1242 => "transaction_rejected_range_locked",
        1510 => "io_error",
        2000 => "client_invalid_operation",
        2002 => "commit_read_incomplete",
        2004 => "key_outside_legal_range",
        2005 => "inverted_range",
        2006 => "invalid_option_value",
        2007 => "invalid_option",
        2010 => "read_version_already_set",
        2011 => "version_invalid",
        2012 => "range_limits_invalid",
        2017 => "used_during_commit",
        2018 => "invalid_mutation_type",
        2020 => "transaction_invalid_version",
        2021 => "no_commit_version",
        2023 => "transaction_read_only",
        2101 => "transaction_too_large",
        2102 => "key_too_large",
        2103 => "value_too_large",
        2130 => "tenant_name_required",
        2131 => "tenant_not_found",
        4100 => "internal_error",
        _ => return format!("error {code}"),
    };
    format!("{code} {name}")
}

/// The text with control characters escaped, and those that change the direction of text.
pub(crate) fn plain(text: &str) -> String {
    let turns_or_hides = |c: char| {
        matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let harmless = |c: char| !c.is_control() && !turns_or_hides(c);
    let is_common = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if is_common || text.chars().all(harmless) {
        return text.to_owned();
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match harmless(c) {
            true => plain.push(c),
            false => plain.extend(c.escape_default()),
        }
    }
    plain
}

/// At most this many characters of it.
fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shaketable_record::{Header, RangeCall};

    fn whole(bytes: &[u8]) -> Bytes {
        Bytes::whole(bytes)
    }

    #[test]
    fn a_key_is_shown_in_its_directory() {
        let record = Record {
            header: Header {
                directories: vec![
                    (whole(b"\x15\x01"), vec!["app".into()]),
                    (
                        whole(b"\x15\x01\x15\x02"),
                        vec!["app".into(), "jobs".into()],
                    ),
                ],
                ..Header::default()
            },
            ..Record::default()
        };
        let words = Words::new(&record);
        assert_eq!(
            words.key(&whole(b"\x15\x01\x15\x02\x02a\x00")),
            r#"/app/jobs ("a",)"#
        );
        assert_eq!(words.key(&whole(b"\x15\x01")), "/app");
        assert_eq!(words.key(&whole(b"other")), "\"other\"");
        assert_eq!(
            words.key(&Bytes::shortened(&[b'a'; 900], 3)),
            "\"aaa\" (900 bytes)"
        );
    }

    #[test]
    fn values_are_text_counters_or_bytes() {
        assert_eq!(value_text(&whole(b"hello")), "\"hello\"");
        assert_eq!(value_text(&whole("Grüße".as_bytes())), "\"Grüße\"");
        assert_eq!(value_text(&whole(&83_i64.to_le_bytes())), "83 (8 bytes)");
        assert_eq!(value_text(&Bytes::shortened(b"secret", 0)), "6 bytes");
        assert_eq!(value_text(&whole(b"12345678")), "\"12345678\"");
        assert_eq!(value_text(&whole(b"a\"b")), r#""a\"b""#);
        assert!(
            value_text(&Bytes::shortened(&[b'x'; 9000], 8000))
                .chars()
                .count()
                < 270
        );
    }

    #[test]
    fn calls_and_answers_are_sentences() {
        let record = Record::default();
        let words = Words::new(&record);
        let selector = |key: &[u8]| Selector {
            key: whole(key),
            or_equal: false,
            offset: 1,
        };
        let range = Call::GetRange(RangeCall {
            begin: selector(b"a"),
            end: selector(b"c"),
            limit: 10,
            target_bytes: 0,
            mode: 0,
            iteration: 2,
            snapshot: true,
            reverse: true,
        });
        assert_eq!(
            words.call(&range),
            "get range \"a\" … \"c\", at most 10, batch 2, last first at snapshot"
        );
        let single = Range {
            begin: whole(b"k"),
            end: whole(b"k\0"),
        };
        assert_eq!(words.call(&Call::Clear { range: single }), "clear \"k\"");
        assert_eq!(
            words.call(&Call::OnError(1020)),
            "on error 1020 not_committed"
        );
        let rows = Answer::Rows {
            rows: vec![(whole(b"a"), whole(b"1"))],
            count: 3,
            more: true,
        };
        assert_eq!(
            words.answer(&rows),
            "3 rows, and there are more\n\"a\" = \"1\"\n… and 2 more that are not shown"
        );
    }

    #[test]
    fn a_range_with_a_name_is_called_by_it() {
        let record = Record::default();
        let words = Words::new(&record);
        let range = |begin: &[u8], end: &[u8]| {
            words.range(&Range {
                begin: whole(begin),
                end: whole(end),
            })
        };
        assert_eq!(range(b"k", b"k\0"), "\"k\"");
        assert_eq!(
            range(b"\x02jobs\x00\x00", b"\x02jobs\x00\xff"),
            "everything in (\"jobs\",)"
        );
        assert_eq!(range(b"job", b"joc"), "everything from \"job\"");
        assert_eq!(range(b"", b"\xff"), "\"\" … \"\\xff\"");
        assert_eq!(range(b"a", b"c"), "\"a\" … \"c\"");
        assert_eq!(range(b"ab", b"b"), "\"ab\" … \"b\"");
        assert_eq!(range(b"\xff", b"\xff\xff"), "\"\\xff\" … \"\\xff\\xff\"");
    }

    #[test]
    fn text_cannot_hide_or_turn_round() {
        assert_eq!(
            plain("a\0b\u{202e}c\u{200b}"),
            "a\\u{0}b\\u{202e}c\\u{200b}"
        );
        assert_eq!(plain("שלום </script>"), "שלום </script>");
    }
}
