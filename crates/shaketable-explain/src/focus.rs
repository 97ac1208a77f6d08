//! What the failed check had looked at.
//!
//! A mistake explains a failure only if the failure could see it. The focus of a run is what its
//! failed phase read: everything, if that was a check; if it failed on its way, what its last two
//! transactions that read anything had read.

use crate::history::{History, Read};
use crate::words::number;
use shaketable_record::{Answer, AttemptId, CommittedId};
use std::cmp::Ordering;

/// How far back a phase that failed on its way is looked at.
const TRANSACTIONS: usize = 2;

/// What the failed phase had read.
pub struct Focus<'a> {
    /// The client that failed.
    pub client: Option<u32>,
    /// When it failed.
    pub time: f64,
    /// Its attempts that count.
    pub attempts: Vec<AttemptId>,
    /// What they read.
    pub reads: Vec<Read<'a>>,
    /// The failure's own words.
    pub message: &'a str,
}

impl<'a> Focus<'a> {
    /// Finds out what the failed phase had read.
    pub fn new(history: &History<'a>) -> Focus<'a> {
        let verdict = &history.record.header.verdict;
        let time = verdict.time.unwrap_or(f64::INFINITY);
        let begun = match verdict.phase.as_deref() {
            Some("check") => history
                .record
                .phases
                .iter()
                .filter(|phase| Some(phase.client) == verdict.client && phase.phase == "check")
                .filter(|phase| phase.begun <= time)
                .map(|phase| phase.begun)
                .next_back(),
            _ => None,
        };
        // Another workload of the same client has phases of its own.
        let of_phase = |id: AttemptId| {
            let phase = history.attempt(id).phase;
            let phase = phase.map(|phase| &history.record.phases[phase as usize]);
            let named = |name: &str, other: &Option<String>| {
                other.as_deref().is_none_or(|other| other == name)
            };
            phase.is_none_or(|phase| {
                named(&phase.phase, &verdict.phase)
                    && (named(&phase.workload, &verdict.workload)
                        || named(&phase.test, &verdict.workload))
            })
        };
        let before = || {
            let all = history.attempts_of(verdict.client).iter().rev();
            all.filter(move |id| history.attempt(**id).begun <= time && of_phase(**id))
        };
        let mut attempts: Vec<AttemptId> = before()
            .take_while(|id| begun.is_some_and(|begun| history.attempt(**id).begun >= begun))
            .copied()
            .collect();
        if attempts
            .iter()
            .all(|id| history.reads(*id).next().is_none())
        {
            let mut transactions = Vec::new();
            attempts = before()
                .filter(|id| history.reads(**id).next().is_some())
                .take_while(|id| {
                    let transaction = history.attempt(**id).transaction;
                    if !transactions.contains(&transaction) {
                        transactions.push(transaction);
                    }
                    transactions.len() <= TRANSACTIONS
                })
                .copied()
                .collect();
        }
        attempts.reverse();
        let reads = attempts.iter().flat_map(|id| history.reads(*id)).collect();
        Focus {
            client: verdict.client,
            time,
            attempts,
            reads,
            message: verdict.message.as_deref().unwrap_or_default(),
        }
    }

    /// The newest version that was looked at.
    pub fn version(&self) -> Option<i64> {
        self.reads.iter().map(|read| read.version).max()
    }

    /// Whether the failed phase looked at a key.
    pub fn touches(&self, key: &[u8]) -> bool {
        self.reads.iter().any(|read| read.covers(key))
    }

    /// The last look at a key.
    pub fn read_of(&self, key: &[u8]) -> Option<&Read<'a>> {
        self.reads.iter().rev().find(|read| read.covers(key))
    }

    /// Whether what was seen of a key is the work of this commit.
    pub fn saw(&self, history: &History<'_>, key: &[u8], committed: CommittedId) -> bool {
        let Some(read) = self.read_of(key) else {
            return false;
        };
        let changes = history.changes(key);
        let seen = changes.partition_point(|c| history.version_of(c.committed) <= read.version);
        let mut real = changes[..seen].iter().filter(|c| c.before != c.after);
        real.next_back()
            .is_some_and(|change| change.committed == committed)
    }

    /// Whether the failed phase was told that a key has no value.
    pub fn missed(&self, history: &History<'_>, key: &[u8]) -> bool {
        self.read_of(key)
            .is_some_and(|read| match &history.operation(read.operation).answer {
                Answer::Value(value) => value.is_none(),
                Answer::Rows { rows, .. } => !rows.iter().any(|(known, _)| known.kept() == key),
                _ => false,
            })
    }

    /// Whether the failure's own words name the number that a key was read as, and one other
    /// number: then that is what was expected, and the answer is how the found one compares with
    /// it.
    pub fn compared(&self, history: &History<'_>, key: &[u8]) -> Option<Ordering> {
        let read = self.read_of(key)?;
        let found = number(history.value_at(key, read.version)?)?;
        self.compare(found)
    }

    /// The same for the number of rows that the read of a range with this key in it returned, in as
    /// many pieces as it took.
    pub fn counted(&self, history: &History<'_>, key: &[u8]) -> Option<Ordering> {
        let read = self.read_of(key).filter(|read| !read.point)?;
        let pieces = self.reads.iter().filter(|other| {
            other.attempt == read.attempt && !other.point && other.version == read.version
        });
        let rows = pieces.map(|piece| match &history.operation(piece.operation).answer {
            Answer::Rows { count, .. } => i64::from(*count),
            _ => 0,
        });
        self.compare(rows.sum())
    }

    fn compare(&self, found: i64) -> Option<Ordering> {
        let words = self
            .message
            .split(|letter: char| !letter.is_ascii_digit() && letter != '-');
        let mut said: Vec<i64> = words.filter_map(|word| word.parse().ok()).collect();
        said.sort_unstable();
        said.dedup();
        match said[..] {
            [low, high] if found == low => Some(low.cmp(&high)),
            [low, high] if found == high => Some(high.cmp(&low)),
            _ => None,
        }
    }

    /// How much the failure's own words speak of a key or a value: 2 if they quote it, 1 if they
    /// have all of its numbers.
    pub fn mentions(&self, text: &str) -> u32 {
        let inner = text.trim_matches(['(', ')', ',', '"']);
        if inner.len() > 2 && self.message.contains(inner) {
            return 2;
        }
        let numbers = |text: &'_ str| -> Vec<String> {
            text.split(|letter: char| !letter.is_ascii_digit())
                .filter(|number| !number.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let (own, said) = (numbers(text), numbers(self.message));
        u32::from(!own.is_empty() && own.iter().all(|number| said.contains(number)))
    }
}
