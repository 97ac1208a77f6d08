//! What calls of the C API wait for, so that a host can report it when a run does not end.
//!
//! Each operation that works for a future is kept with a description: what was asked, by which
//! process, since when. Where in the code under test the call was made is known only while a host
//! looks at the stack for it ([`crate::CApi::note_places`]), because that costs more than most
//! calls.

use crate::coverage::Counted;
use crate::operation::Operation;
use crate::recorder::Asked;
use shaketable_cluster::proto::Key;
use shaketable_kernel::{ProcessId, Time};

/// What a call asks for.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Ask {
    /// A read version.
    ReadVersion,
    /// The value of a key.
    Get(Key),
    /// The key that a selector stands for, which begins at this key.
    GetKey(Key),
    /// The rows between two keys.
    GetRange(Key, Key),
    /// The rows between two keys, and those that they lead to.
    GetMappedRange(Key, Key),
    /// A change of a key.
    Watch(Key),
    /// The result of a commit.
    Commit,
    /// The end of a pause after an error.
    OnError(i32),
    /// The versionstamp of a commit.
    Versionstamp,
    /// The servers that hold a key.
    Addresses(Key),
    /// The size of the rows between two keys.
    Size(Key, Key),
    /// Keys that cut the rows between two keys into chunks.
    SplitPoints(Key, Key),
    /// A number that the client knows by itself.
    Estimate,
    /// The end of a delay of this many seconds.
    Delay(f64),
}

/// An operation that has not ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outstanding {
    /// What it waits for.
    pub ask: Ask,
    /// The process that waits.
    pub process: ProcessId,
    /// Since when.
    pub since: Time,
    /// Where the call was made, as the host's number for it, if that was noted.
    pub place: Option<usize>,
}

/// An operation that has not ended, and what is kept so that dropping it ends it.
pub(crate) struct Kept {
    pub(crate) outstanding: Outstanding,
    #[expect(dead_code, reason = "it is only kept so that dropping it can end it")]
    pub(crate) operation: Operation,
    /// Its place in the record, if there is one.
    pub(crate) asked: Option<Asked>,
    /// What is counted when it has ended.
    pub(crate) counted: Option<Counted>,
}

/// Looks at the stack and returns a number for the place from which a call is made.
pub type PlaceProbe = fn() -> Option<usize>;

/// How many operations of each process have succeeded. The end of a pause after an error does not
/// count.
#[derive(Default)]
pub(crate) struct Progress(Vec<u64>);

impl Progress {
    pub(crate) fn note(&mut self, done: &Outstanding) {
        if matches!(done.ask, Ask::OnError(_)) {
            return;
        }
        let index = done.process.index();
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] += 1;
    }

    pub(crate) fn of(&self, process: ProcessId) -> u64 {
        self.0.get(process.index()).copied().unwrap_or(0)
    }
}
