//! What the database answered a workload, and how long it took, as the crate `shaketable` has
//! counted it.
//!
//! The crate writes one event for each phase of each client, on every host, and where the host does
//! not know the lines itself, one for each place that calls the database. Here the events are read
//! back and added up.

use crate::coverage::Covered;
use crate::library::{Lines, LinesError};
use serde::{Deserialize, Serialize};
use shaketable_record::seen::Stack;
use std::collections::BTreeMap;

/// The event with the answers of all calls.
pub(super) const EVENT: &str = "WorkloadCalls";
/// The event with the answers of the calls of one place.
pub(super) const LINE_EVENT: &str = "WorkloadLine";

/// Its details that name a call, and what the call is named in reports.
const NAMES: [(&str, &str); 5] = [
    ("Commit", "commit"),
    ("Read", "read"),
    ("RangeRead", "range read"),
    ("ReadVersion", "read version"),
    ("Watch", "watch"),
];
/// What the detail with the times of a call ends with.
const TIMES: &str = "Times";

/// What became of all calls of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Answers {
    /// How often each code was the answer; 0 is success.
    pub codes: BTreeMap<i32, u64>,
    /// How many successful calls took how long: the bucket of a time, four to each doubling of
    /// microseconds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub times: BTreeMap<u32, u64>,
}

impl Answers {
    /// How many calls were answered.
    pub fn count(&self) -> u64 {
        self.codes.values().sum()
    }

    /// The time, in seconds, below which this share of the successful calls lies; none if none took
    /// any.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let all: u64 = self.times.values().sum();
        let wanted = (all as f64 * share).ceil().max(1.0) as u64;
        let mut so_far = 0;
        for (bucket, count) in &self.times {
            so_far += count;
            if so_far >= wanted {
                return Some(middle(*bucket));
            }
        }
        None
    }
}

/// The time in the middle of a bucket, in seconds.
fn middle(bucket: u32) -> f64 {
    let doublings = f64::from(bucket / 4).exp2();
    doublings * (1.0 + (f64::from(bucket % 4) + 0.5) / 4.0) * 1e-6
}

/// Adds what an event says.
pub(super) fn add(calls: &mut BTreeMap<String, Answers>, details: &[(String, String)]) {
    for (key, value) in details {
        let is_times = key.ends_with(TIMES);
        let call = key.strip_suffix(TIMES).unwrap_or(key);
        let Some((_, name)) = NAMES.iter().find(|(detail, _)| *detail == call) else {
            continue;
        };
        let answers = calls.entry((*name).to_owned()).or_default();
        match is_times {
            true => add_pairs(&mut answers.times, value),
            false => add_pairs(&mut answers.codes, value),
        }
    }
}

/// Adds pairs such as `0=12 1020=3`; what is none is skipped.
fn add_pairs<K: Ord + std::str::FromStr>(counts: &mut BTreeMap<K, u64>, text: &str) {
    for pair in text.split(' ') {
        if let Some((key, count)) = pair.split_once('=')
            && let (Ok(key), Ok(count)) = (key.parse(), count.parse::<u64>())
        {
            *counts.entry(key).or_default() += count;
        }
    }
}

/// The calls of one kind from one place: the library, its build id, the addresses, the call.
type Caller = (String, String, Vec<u64>, &'static str);

/// What became of the calls of each place, by the code.
#[derive(Debug, Default)]
pub(super) struct Callers(BTreeMap<Caller, BTreeMap<i32, u64>>);

impl Callers {
    /// Adds what an event says; one that is none is skipped.
    pub(super) fn add(&mut self, details: &[(String, String)]) -> Option<()> {
        let text = |key: &str| {
            let mut all = details.iter();
            all.find_map(|(name, value)| (name == key).then_some(value.as_str()))
        };
        let (_, call) = NAMES.iter().find(|(name, _)| text("Call") == Some(*name))?;
        let addresses = text("Stack")?.split(' ');
        let addresses = addresses.map(|address| u64::from_str_radix(address, 16).ok());
        let (library, build_id) = (text("Library")?.to_owned(), text("BuildId")?.to_owned());
        let caller = (library, build_id, addresses.collect::<Option<_>>()?, *call);
        add_pairs(self.0.entry(caller).or_default(), text("Codes")?);
        Some(())
    }

    /// The same by lines, which are looked up in the libraries. Without the library, or in one that
    /// was built again, there are none.
    pub(super) fn coverage(&self) -> Vec<Covered> {
        let mut libraries: BTreeMap<(&str, &str), Result<Lines, LinesError>> = BTreeMap::new();
        let mut coverage = Vec::new();
        for ((library, build_id, addresses, call), codes) in &self.0 {
            let stack = Stack {
                library: library.clone(),
                build_id: build_id.clone(),
                addresses: addresses.clone(),
            };
            let lines = libraries
                .entry((library, build_id))
                .or_insert_with(|| Lines::load(&stack));
            let place = lines.as_ref().ok().and_then(|lines| lines.place(&stack));
            let Some(place) = place else {
                continue;
            };
            let met = codes.iter().map(|(code, count)| match code {
                0 => ("ok".to_owned(), *count),
                code => (code.to_string(), *count),
            });
            let one = Covered {
                line: format!("{}:{}", place.file, place.line),
                call: (*call).to_owned(),
                met: met.collect(),
            };
            Covered::merge(&mut coverage, &[one]);
        }
        coverage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_add_up_and_have_quantiles() {
        let details = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            pairs.iter().map(owned).collect()
        };
        let mut calls = BTreeMap::new();
        let first = [
            ("Commit", "0=9 1020=1"),
            ("CommitTimes", "39=8 80=1"),
            ("Other", "7=7"),
        ];
        add(&mut calls, &details(&first));
        add(&mut calls, &details(&[("Commit", "0=1 nonsense 1021=2")]));
        let commit = &calls["commit"];
        assert_eq!(
            commit.codes,
            BTreeMap::from([(0, 10), (1020, 1), (1021, 2)])
        );
        assert_eq!((commit.count(), calls.len()), (13, 1));
        // A bucket is an eighth of a doubling wide on either side of its middle.
        let median = commit.quantile(0.5).unwrap();
        assert!((0.000_89..0.001_03).contains(&median), "{median}");
        assert!(commit.quantile(0.99).unwrap() > 1.0);
        assert_eq!(Answers::default().quantile(0.5), None);
    }

    #[test]
    fn places_without_a_library_have_no_lines() {
        let details = |stack: &str| {
            [
                ("Library", "/nowhere/libgone.so"),
                ("BuildId", "ab01"),
                ("Stack", stack),
                ("Call", "Commit"),
                ("Codes", "0=3 1021=1"),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
        };
        let mut callers = Callers::default();
        assert_eq!(callers.add(&details("1f 2e")), Some(()));
        assert_eq!(callers.add(&details("1f 2e")), Some(()));
        assert_eq!(callers.add(&details("no number")), None);
        let counts: Vec<_> = callers.0.values().cloned().collect();
        assert_eq!(counts, [BTreeMap::from([(0, 6), (1021, 2)])]);
        assert_eq!(callers.coverage(), []);
    }
}
