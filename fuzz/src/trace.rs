//! Trace events: whatever a workload traces becomes one line of JSON that reads back as what was
//! traced.
//!
//! Names, keys and values come from the code under test. A line that is not JSON, or a panic
//! while writing it, would cost the very run that was worth recording.

use arbitrary::{Arbitrary, Result, Unstructured};
use serde_json::Value;
use shaketable_host::trace::{Event, Format, Log, Severity};

/// See the module.
pub fn run(u: &mut Unstructured) -> Result<()> {
    let severity = *u.choose(&[Severity::Debug, Severity::WarnAlways, Severity::Error])?;
    // A run's time is never negative, and ends long before a billion seconds.
    let time = f64::from(u.int_in_range(0..=1_000_000_000_u32)?) / 7.0;
    let mut event = Event::new(severity, time, word(u)?).on(word(u)?, word(u)?);
    for _ in 0..u.int_in_range(0..=12)? {
        event = event.detail(word(u)?, word(u)?);
    }
    check(event);
    Ok(())
}

/// Writes an event in every form and reads it back.
pub fn check(event: Event) {
    let sealed = event.clone().sealed();
    let line = Format::Json.line(&sealed);
    assert_eq!(line.matches('\n').count(), 1, "one line: {event:?}");
    let read: Value = serde_json::from_str(&line)
        .unwrap_or_else(|error| panic!("not JSON ({error}): {line:?} of {event:?}"));
    assert_eq!(
        read["Type"],
        sealed_or_later(&sealed, "Type", &sealed.kind),
        "{event:?}"
    );
    for (key, value) in &sealed.details {
        assert_eq!(
            read[key],
            sealed_or_later(&sealed, key, value),
            "{key:?} of {event:?}"
        );
    }
    let xml = Format::Xml.line(&sealed);
    assert!(
        xml.starts_with("<Event ") && xml.ends_with("/>\n"),
        "{event:?}"
    );
    assert_eq!(xml.matches(['<', '>', '\n']).count(), 3, "{event:?}");

    let kept = serde_json::to_string(&sealed).expect("an event is data");
    let back: Event = serde_json::from_str(&kept).expect("written a moment ago");
    assert_eq!(back, sealed);

    let (first, second) = (Log::default(), Log::default());
    assert_eq!(first.trace(event.clone()), second.trace(event));
    assert_eq!(first.fingerprint(), second.fingerprint());
}

/// What a reader sees of a field: a name that occurs twice reads as the last one.
fn sealed_or_later<'a>(event: &'a Event, key: &str, value: &'a str) -> &'a str {
    let later = event.details.iter().rfind(|(name, _)| name == key);
    match key {
        "ThreadID" | "LogGroup" => later.map_or(value, |_| constant(key)),
        "Roles" if !event.roles.is_empty() => &event.roles,
        _ => later.map_or(value, |(_, value)| value),
    }
}

/// Fields that stand behind the details.
fn constant(key: &str) -> &'static str {
    match key {
        "LogGroup" => "default",
        _ => "5485021409047155873",
    }
}

/// A text that may be long, and of any characters.
fn word(u: &mut Unstructured) -> Result<String> {
    let unit = match u.int_in_range(0..=3)? {
        0 => {
            return Ok(u
                .choose(&["", "Site", "Type", "Roles", "LogGroup", "Held"])?
                .to_string());
        }
        1 => String::arbitrary(u)?,
        2 => u
            .choose(&["€", "\u{1f600}", "\"", "\\", "\0", "]]>", "&<\r\n"])?
            .to_string(),
        _ => "word".to_owned(),
    };
    let times = if u.ratio(1, 4)? {
        u.int_in_range(1..=400)?
    } else {
        1
    };
    Ok(unit.repeat(times))
}
