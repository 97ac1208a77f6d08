//! Trace events that a host can always write.
//!
//! FoundationDB's trace log has sharp edges: an empty event name is a failed assertion, a NUL byte
//! ends a C string early, a value over 495 bytes is cut, an event over 4000 bytes is thrown away
//! and fails the run as `TraceEventOverflow`, and a second detail of the same key, or one that is
//! called like a field of the server's own (`Type`, `ID`, `Time`), ends the server. None of that
//! may be the end of a test, so what a workload traces is first brought into a form that passes:
//! nothing is refused, long values are cut where the server would cut them, a key that is taken
//! gets a number (`Type2`), and an event with too many details is split into several of the same
//! name, each with a detail `Part`.
//!
//! Details keep the habits of the published crate: the first letter of a key is capitalised, and a
//! detail with an empty key or an empty value is left out. Every event ends with `RustWorkload=1`,
//! and every error with `RustFailure=1`, so that one word finds them among all that a server
//! writes.

use std::ffi::CString;

/// One event, ready for the host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TraceEvent {
    pub(crate) name: CString,
    pub(crate) details: Vec<(CString, CString)>,
}

/// The server cuts a value here, and appends three dots.
const VALUE_BYTES_MAX: usize = 495;
/// One byte more than the server keeps, so that its dots show that something is missing.
const VALUE_BYTES_SENT: usize = VALUE_BYTES_MAX + 1;
/// Longer keys are not worth reading, and the server does not cut them.
const KEY_BYTES_MAX: usize = 100;
/// The same for names.
const NAME_BYTES_MAX: usize = 200;
/// What details may take of the server's 4000 bytes. The rest is for the fields that it adds: time,
/// type, machine, id, thread and, with an error, a backtrace of up to 500 bytes.
const DETAIL_BYTES_MAX: usize = 2800;
/// The fields that the server writes into every event, or into every error.
const FIELDS_OF_THE_SERVER: [&[u8]; 10] = [
    b"ActorStack",
    b"Backtrace",
    b"DateTime",
    b"ErrorKind",
    b"ID",
    b"Machine",
    b"Severity",
    b"ThreadID",
    b"Time",
    b"Type",
];
/// The name of an event that has none.
const UNNAMED: &str = "UnnamedWorkloadEvent";

/// What tells the events of a workload in Rust from those of the server, and its failures from
/// everything else.
const WORKLOAD_TAG: &[u8] = b"RustWorkload";
const FAILURE_TAG: &[u8] = b"RustFailure";

/// Brings an event into a form the host can write: one event, or several parts of one.
pub(crate) fn compose<'a>(
    name: &[u8],
    is_error: bool,
    details: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<TraceEvent> {
    let name = match name {
        [] => c_string(UNNAMED.as_bytes()),
        name => c_string(cut(name, NAME_BYTES_MAX)),
    };
    let mut parts = vec![Vec::new()];
    let mut room = DETAIL_BYTES_MAX;
    for (key, value) in details {
        let Some(key) = capitalise(key) else { continue };
        if value.is_empty() {
            continue;
        }
        let key = c_string(cut(key.as_bytes(), KEY_BYTES_MAX));
        let key = free_key(key, parts.last().map_or(&[], Vec::as_slice));
        let value = c_string(cut(value.as_bytes(), VALUE_BYTES_SENT));
        let cost = key.as_bytes().len() + written_length(value.as_bytes());
        if cost > room {
            parts.push(Vec::new());
            room = DETAIL_BYTES_MAX;
        }
        room -= cost;
        if let Some(part) = parts.last_mut() {
            part.push((key, value));
        }
    }
    let count = parts.len();
    let mark = |number: usize, details: &[(CString, CString)]| {
        (
            free_key(c_string(b"Part"), details),
            c_string(format!("{number} of {count}").as_bytes()),
        )
    };
    parts
        .into_iter()
        .enumerate()
        .map(|(index, mut details)| {
            if count > 1 {
                details.push(mark(index + 1, &details));
            }
            tag(&mut details, is_error);
            TraceEvent {
                name: name.clone(),
                details,
            }
        })
        .collect()
}

/// Adds the tags, unless the author has said something else under their names.
fn tag(details: &mut Vec<(CString, CString)>, is_error: bool) {
    let failure = is_error.then_some(FAILURE_TAG);
    for tag in [Some(WORKLOAD_TAG), failure].into_iter().flatten() {
        if !details.iter().any(|(key, _)| key.as_bytes() == tag) {
            details.push((c_string(tag), c_string(b"1")));
        }
    }
}

/// A key that neither the server nor one of these details has, with the first number that makes it
/// so.
fn free_key(key: CString, details: &[(CString, CString)]) -> CString {
    let is_taken = |key: &CString| {
        FIELDS_OF_THE_SERVER.contains(&key.as_bytes())
            || details.iter().any(|(other, _)| other == key)
    };
    if !is_taken(&key) {
        return key;
    }
    (2_usize..)
        .map(|number| c_string(&[key.as_bytes(), number.to_string().as_bytes()].concat()))
        .find(|numbered| !is_taken(numbered))
        .unwrap_or(key)
}

/// A C string of these bytes, in which a NUL is written as the server writes other bytes that
/// cannot be printed.
pub(crate) fn c_string(bytes: &[u8]) -> CString {
    let mut safe = Vec::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            0 => safe.extend_from_slice(b"\\x00"),
            byte => safe.push(byte),
        }
    }
    // Without NUL bytes this cannot fail; an empty string would still be a sound result.
    CString::new(safe).unwrap_or_default()
}

/// The first bytes, and no half character if the bytes are text.
fn cut(bytes: &[u8], length: usize) -> &[u8] {
    if bytes.len() <= length {
        return bytes;
    }
    let is_inside_character = |&at: &usize| bytes[at] & 0b1100_0000 == 0b1000_0000;
    let end = (length.saturating_sub(3)..=length)
        .rev()
        .find(|at| !is_inside_character(at))
        .unwrap_or(length);
    &bytes[..end]
}

fn capitalise(key: &str) -> Option<String> {
    let mut rest = key.chars();
    let first = rest.next()?;
    Some(first.to_uppercase().chain(rest).collect())
}

/// How many bytes the server counts for a value: after its escapes, and after its cut.
fn written_length(value: &[u8]) -> usize {
    let escaped: usize = value
        .iter()
        .map(|byte| match byte {
            b'\\' => 2,
            0x20..=0x7e => 1,
            _ => 4,
        })
        .sum();
    escaped.min(VALUE_BYTES_MAX + "...".len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, details: &[(&str, &str)]) -> (String, Vec<(String, String)>) {
        let mut events = compose(name.as_bytes(), false, details.iter().copied());
        assert_eq!(events.len(), 1, "{events:?}");
        let mut event = events.remove(0);
        let tag = event.details.pop().map(|(key, _)| key);
        assert_eq!(tag.as_deref(), Some(c"RustWorkload"));
        let text = |text: CString| text.into_string().expect("text");
        let details = event.details.into_iter();
        (
            text(event.name),
            details.map(|(k, v)| (text(k), text(v))).collect(),
        )
    }

    fn pairs(details: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        details.iter().map(owned).collect()
    }

    #[test]
    fn an_ordinary_event_passes_with_capitalised_keys() {
        let (name, details) = one(
            "Commit",
            &[("layer", "Rust"), ("Client", "3"), ("état", "x")],
        );
        assert_eq!(name, "Commit");
        assert_eq!(
            details,
            pairs(&[("Layer", "Rust"), ("Client", "3"), ("État", "x")])
        );
    }

    #[test]
    fn details_without_key_or_value_are_left_out() {
        let (_, details) = one("E", &[("", "x"), ("Key", ""), ("Kept", "1")]);
        assert_eq!(details, pairs(&[("Kept", "1")]));
    }

    #[test]
    fn every_event_is_tagged_and_every_error_twice() {
        let keys = |is_error, details: &[(&'static str, &'static str)]| -> Vec<String> {
            let events = compose(b"E", is_error, details.iter().copied());
            let details = events.iter().flat_map(|event| &event.details);
            details
                .map(|(key, value)| format!("{key:?}={value:?}"))
                .collect()
        };
        assert_eq!(keys(false, &[]), [r#""RustWorkload"="1""#]);
        assert_eq!(
            keys(true, &[("Key", "x")]),
            [
                r#""Key"="x""#,
                r#""RustWorkload"="1""#,
                r#""RustFailure"="1""#
            ]
        );
        assert_eq!(
            keys(true, &[("rustFailure", "mine")]),
            [r#""RustFailure"="mine""#, r#""RustWorkload"="1""#]
        );
    }

    #[test]
    fn an_event_without_name_gets_one() {
        assert_eq!(one("", &[]).0, UNNAMED);
    }

    #[test]
    fn a_key_that_is_taken_gets_a_number() {
        let (_, details) = one(
            "E",
            &[
                ("key", "1"),
                ("Key", "2"),
                ("Key2", "3"),
                ("key", "4"),
                ("type", "5"),
                ("ID", "6"),
            ],
        );
        assert_eq!(
            details,
            pairs(&[
                ("Key", "1"),
                ("Key2", "2"),
                ("Key22", "3"),
                ("Key3", "4"),
                ("Type2", "5"),
                ("ID2", "6")
            ])
        );
    }

    #[test]
    fn every_part_of_an_event_has_each_key_once() {
        let value = "x".repeat(400);
        let events = compose(b"Big", true, (0..20).map(|_| ("part", value.as_str())));
        assert!(events.len() > 1);
        for event in events {
            let mut keys: Vec<_> = event.details.iter().map(|(key, _)| key).collect();
            let count = keys.len();
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), count, "{:?}", event.details);
        }
    }

    #[test]
    fn nul_bytes_are_written_out() {
        let (name, details) = one("a\0b", &[("k\0", "v\0w")]);
        assert_eq!(name, "a\\x00b");
        assert_eq!(details, pairs(&[("K\\x00", "v\\x00w")]));
    }

    #[test]
    fn long_names_keys_and_values_are_cut_between_characters() {
        let long = "é".repeat(10_000);
        let (name, details) = one(&long, &[(&long, &long)]);
        assert_eq!(name, "é".repeat(NAME_BYTES_MAX / 2));
        assert_eq!(
            details[0].0,
            format!("É{}", "é".repeat(KEY_BYTES_MAX / 2 - 1))
        );
        assert_eq!(details[0].1, "é".repeat(VALUE_BYTES_SENT / 2));
    }

    #[test]
    fn a_value_of_the_servers_length_is_not_cut_and_a_longer_one_shows_it() {
        let exact = "y".repeat(VALUE_BYTES_MAX);
        assert_eq!(one("E", &[("K", &exact)]).1[0].1, exact);
        let longer = "y".repeat(600);
        let sent = &one("E", &[("K", &longer)]).1[0].1;
        assert!(sent.len() > VALUE_BYTES_MAX && sent.len() < longer.len());
    }

    #[test]
    fn an_event_over_the_servers_limit_is_split_and_every_detail_arrives_once() {
        let value = "\u{1}".repeat(300);
        let keys: Vec<String> = (0..40).map(|i| format!("Key{i}")).collect();
        let events = compose(
            b"Big",
            false,
            keys.iter().map(|k| (k.as_str(), value.as_str())),
        );
        assert!(events.len() > 1);
        let mut seen = Vec::new();
        for (index, event) in events.iter().enumerate() {
            let (own, part) = event.details.split_at(event.details.len() - 2);
            let expected = format!("{} of {}", index + 1, events.len());
            assert_eq!(part[0].1.to_str(), Ok(expected.as_str()));
            let written: usize = event
                .details
                .iter()
                .map(|(key, value)| key.as_bytes().len() + written_length(value.as_bytes()))
                .sum();
            assert!(written < 3000, "{written}");
            seen.extend(
                own.iter()
                    .map(|(key, _)| key.to_str().expect("text").to_owned()),
            );
        }
        assert_eq!(seen, keys);
    }
}
