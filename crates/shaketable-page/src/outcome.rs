//! What became of an attempt, as one of a few cases that have a colour and a letter each.
//!
//! The code under test knows how an attempt ended; the record also knows what became of its commit.
//! Where the two differ the outcome says so: `UnknownLanded` is a commit that took effect although
//! its client never heard of it, the beginning of many a bug.

use serde::Serialize;
use shaketable_record::{Attempt, Call, End, Fate};

/// What became of an attempt. The order is that of the legend, and of what is drawn where several
/// share a pixel: the later one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Outcome {
    /// It only read.
    ReadOnly,
    /// It committed, and its client knows.
    Committed,
    /// It was given up before a commit, with writes.
    Dropped,
    /// It was open when the run ended.
    Open,
    /// Refused with 1020.
    Conflict,
    /// It failed with another error.
    Error,
    /// Its client does not know its fate, and neither does the record.
    Unknown,
    /// Its client does not know, and it did not commit.
    UnknownLost,
    /// Its client does not know, and it did commit.
    UnknownLanded,
}

impl Outcome {
    pub(crate) const ALL: [Outcome; 9] = [
        Outcome::ReadOnly,
        Outcome::Committed,
        Outcome::Dropped,
        Outcome::Open,
        Outcome::Conflict,
        Outcome::Error,
        Outcome::Unknown,
        Outcome::UnknownLost,
        Outcome::UnknownLanded,
    ];

    /// The outcome of an attempt with these calls.
    pub(crate) fn of<'a>(attempt: &Attempt, calls: impl IntoIterator<Item = &'a Call>) -> Outcome {
        let fate = attempt.commit.as_ref().map(|commit| commit.fate);
        match (attempt.end, fate) {
            (End::Committed, Some(Fate::ReadOnly)) => Outcome::ReadOnly,
            (End::Committed, _) => Outcome::Committed,
            (_, Some(Fate::Landed(_))) => Outcome::UnknownLanded,
            (End::Failed(1020) | End::Retried(1020), _) => Outcome::Conflict,
            (End::Failed(1021 | 1031 | 1039) | End::Retried(1021 | 1031 | 1039), Some(fate))
            | (End::DroppedInCommit | End::Cancelled | End::Reset, Some(fate)) => match fate {
                Fate::Lost => Outcome::UnknownLost,
                Fate::ReadOnly => Outcome::ReadOnly,
                _ => Outcome::Unknown,
            },
            (End::Failed(_) | End::Retried(_), _) => Outcome::Error,
            (End::Open, _) => Outcome::Open,
            _ if calls.into_iter().any(writes) => Outcome::Dropped,
            _ => Outcome::ReadOnly,
        }
    }

    /// One or two characters that stand on a bar, for those who do not see its colour.
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Outcome::ReadOnly => "R",
            Outcome::Committed => "C",
            Outcome::Dropped => "D",
            Outcome::Open => "O",
            Outcome::Conflict => "X",
            Outcome::Error => "E",
            Outcome::Unknown => "U?",
            Outcome::UnknownLost => "U−",
            Outcome::UnknownLanded => "U+",
        }
    }

    /// A name of a few words, for legends and tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Outcome::ReadOnly => "read only",
            Outcome::Committed => "committed",
            Outcome::Dropped => "given up",
            Outcome::Open => "open at the end",
            Outcome::Conflict => "conflict (1020)",
            Outcome::Error => "other error",
            Outcome::Unknown => "unknown",
            Outcome::UnknownLost => "unknown, lost",
            Outcome::UnknownLanded => "unknown, landed",
        }
    }

    /// What it means, in a sentence.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Outcome::ReadOnly => "The attempt wrote nothing.",
            Outcome::Committed => "The attempt committed, and its client was told so.",
            Outcome::Dropped => "The attempt had writes and was given up before a commit.",
            Outcome::Open => "The attempt was still open when the run ended.",
            Outcome::Conflict => {
                "Refused with 1020: another commit wrote what this attempt had read."
            }
            Outcome::Error => "The attempt failed with another error, and did not commit.",
            Outcome::Unknown => {
                "Its client does not know whether it committed, and the record cannot tell."
            }
            Outcome::UnknownLost => "Its client does not know whether it committed. It did not.",
            Outcome::UnknownLanded => "Its client does not know whether it committed. It did.",
        }
    }
}

fn writes(call: &Call) -> bool {
    matches!(
        call,
        Call::Set { .. } | Call::Clear { .. } | Call::Atomic { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use shaketable_record::{Bytes, Commit};

    fn outcome(end: End, fate: Option<Fate>, calls: &[Call]) -> Outcome {
        let commit = fate.map(|fate| Commit {
            operation: 0,
            reads: Vec::new(),
            writes: Vec::new(),
            mutations: Vec::new(),
            fate,
            conflict: None,
        });
        let attempt = Attempt {
            client: None,
            phase: None,
            transaction: 0,
            number: 1,
            retries: None,
            begun: 0.0,
            ended: None,
            read_version: None,
            commit,
            end,
        };
        Outcome::of(&attempt, calls)
    }

    #[test]
    fn the_true_fate_decides_where_the_client_cannot_know() {
        use Fate::{Landed, Lost, ReadOnly, Unknown};
        let cases = [
            (End::Committed, Some(Landed(0)), Outcome::Committed),
            (End::Committed, Some(ReadOnly), Outcome::ReadOnly),
            (End::Retried(1020), Some(Lost), Outcome::Conflict),
            (End::Retried(1021), Some(Landed(0)), Outcome::UnknownLanded),
            (End::Retried(1021), Some(Lost), Outcome::UnknownLost),
            (End::Retried(1021), Some(Unknown), Outcome::Unknown),
            (End::Failed(1031), None, Outcome::Error),
            (End::Failed(1007), Some(Lost), Outcome::Error),
            (
                End::DroppedInCommit,
                Some(Landed(0)),
                Outcome::UnknownLanded,
            ),
            (End::DroppedInCommit, Some(Lost), Outcome::UnknownLost),
            (End::Dropped, None, Outcome::ReadOnly),
            (End::Open, None, Outcome::Open),
        ];
        for (end, fate, expected) in cases {
            assert_eq!(outcome(end, fate, &[]), expected, "{end:?} {fate:?}");
        }
    }

    #[test]
    fn writes_that_were_given_up_are_told_apart_from_reads() {
        let write = Call::Set {
            key: Bytes::whole(b"k"),
            value: Bytes::whole(b"v"),
        };
        assert_eq!(outcome(End::Dropped, None, &[write]), Outcome::Dropped);
        assert_eq!(
            outcome(End::Reset, None, &[Call::Commit]),
            Outcome::ReadOnly
        );
    }

    #[test]
    fn every_outcome_stands_at_its_place_with_a_letter_of_its_own() {
        for (place, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, place);
            let same = Outcome::ALL
                .iter()
                .filter(|other| other.letter() == outcome.letter());
            assert_eq!(same.count(), 1, "{outcome:?}");
        }
    }
}
