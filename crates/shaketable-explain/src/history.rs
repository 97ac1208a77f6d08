//! A record with an index: who wrote what when, who read what, and what became of it.
//!
//! Findings ask a few questions again and again: which commits changed this key, and from what to
//! what; what did this attempt read, and at which version; which attempt came next. [`History`]
//! answers them, by replaying everything that committed once, in commit order. Commits are compared
//! by their [`CommittedId`], which is the order in which they took effect.

use crate::atomic;
use shaketable_record::{
    Answer, Attempt, AttemptId, Bytes, Call, Commit, Committed, CommittedId, End, Fate, Mutation,
    Operation, OperationId, Range, Record,
};
use std::collections::BTreeMap;
use std::ops::Bound;

/// A record with an index.
pub struct History<'a> {
    pub record: &'a Record,
    operations: Vec<Vec<OperationId>>,
    next: Vec<Option<AttemptId>>,
    changes: BTreeMap<&'a [u8], Vec<Change>>,
    clients: BTreeMap<Option<u32>, Vec<AttemptId>>,
}

/// What a commit did to a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The commit.
    pub committed: CommittedId,
    /// How it was done.
    pub how: How,
    /// The value before.
    pub before: Option<Bytes>,
    /// The value after.
    pub after: Option<Bytes>,
}

/// How a key was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Set,
    Clear,
    ClearRange,
    Atomic,
}

/// A read of one key or of a range.
#[derive(Clone, Debug)]
pub struct Read<'a> {
    pub operation: OperationId,
    pub attempt: AttemptId,
    /// The first key.
    pub begin: &'a [u8],
    /// The first key that was not read.
    pub end: Vec<u8>,
    /// Whether it asked for one key.
    pub point: bool,
    pub snapshot: bool,
    /// The version that it read at.
    pub version: i64,
}

impl Read<'_> {
    /// Whether it would have shown this key.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.begin <= key && key < &self.end[..]
    }
}

impl<'a> History<'a> {
    /// Indexes a record.
    pub fn new(record: &'a Record) -> History<'a> {
        let mut operations = vec![Vec::new(); record.attempts.len()];
        for (id, operation) in (0..).zip(&record.operations) {
            operations[operation.attempt as usize].push(id);
        }
        let mut next = vec![None; record.attempts.len()];
        let mut clients: BTreeMap<Option<u32>, Vec<AttemptId>> = BTreeMap::new();
        for (id, attempt) in (0..).zip(&record.attempts) {
            if let Some(retry) = attempt.retries {
                next[retry.attempt as usize] = Some(id);
            }
            clients.entry(attempt.client).or_default().push(id);
        }
        let mut changes = BTreeMap::new();
        for (id, committed) in (0..).zip(&record.committed) {
            apply(&mut changes, id, committed);
        }
        History {
            record,
            operations,
            next,
            changes,
            clients,
        }
    }

    pub fn attempt(&self, id: AttemptId) -> &'a Attempt {
        &self.record.attempts[id as usize]
    }

    pub fn operation(&self, id: OperationId) -> &'a Operation {
        &self.record.operations[id as usize]
    }

    pub fn committed(&self, id: CommittedId) -> &'a Committed {
        &self.record.committed[id as usize]
    }

    /// All attempts with their ids.
    pub fn attempts(&self) -> impl Iterator<Item = (AttemptId, &'a Attempt)> + use<'a> {
        (0..).zip(&self.record.attempts)
    }

    /// The calls of an attempt, in order.
    pub fn operations_of(&self, attempt: AttemptId) -> &[OperationId] {
        &self.operations[attempt as usize]
    }

    /// The attempts of the same transaction before this one, the nearest first.
    pub fn earlier_attempts(&self, attempt: AttemptId) -> impl Iterator<Item = AttemptId> + '_ {
        let before = |id: &AttemptId| Some(self.attempt(*id).retries?.attempt);
        std::iter::successors(before(&attempt), before)
    }

    /// The attempts of the same transaction after this one.
    pub fn later_attempts(&self, attempt: AttemptId) -> impl Iterator<Item = AttemptId> + '_ {
        let after = |id: &AttemptId| self.next[*id as usize];
        std::iter::successors(after(&attempt), after)
    }

    /// All attempts of a client, in the order of beginning.
    pub fn attempts_of(&self, client: Option<u32>) -> &[AttemptId] {
        self.clients.get(&client).map_or(&[], Vec::as_slice)
    }

    /// What was committed, if the attempt's commit took effect.
    pub fn landed(&self, attempt: AttemptId) -> Option<CommittedId> {
        match self.attempt(attempt).commit.as_ref()?.fate {
            Fate::Landed(id) => Some(id),
            _ => None,
        }
    }

    /// The commit of an attempt, if it asked for one.
    pub fn commit(&self, attempt: AttemptId) -> Option<&'a Commit> {
        self.attempt(attempt).commit.as_ref()
    }

    /// The client of a commit.
    pub fn client_of(&self, committed: CommittedId) -> Option<u32> {
        self.attempt(self.committed(committed).attempt?).client
    }

    pub fn version_of(&self, committed: CommittedId) -> i64 {
        self.committed(committed).version
    }

    /// Everything that changed a key, in commit order.
    pub fn changes(&self, key: &[u8]) -> &[Change] {
        self.changes.get(key).map_or(&[], Vec::as_slice)
    }

    /// The keys of a range that ever had a value, with their changes.
    pub fn changes_in<'s>(
        &'s self,
        begin: &'s [u8],
        end: &'s [u8],
    ) -> impl Iterator<Item = (&'a [u8], &'s [Change])> {
        let some = (begin < end).then(|| self.changes.range::<[u8], _>(bounds(begin, end)));
        some.into_iter()
            .flatten()
            .map(|(key, changes)| (*key, changes.as_slice()))
    }

    /// The keys that a commit changed, with how.
    pub fn keys_of(&self, committed: CommittedId) -> Vec<(&'a [u8], &Change)> {
        let mut keys: Vec<(&'a [u8], &Change)> = Vec::new();
        for mutation in &self.committed(committed).mutations {
            let (begin, end) = span(mutation);
            if begin >= &end[..] {
                continue;
            }
            for (key, changes) in self.changes.range::<[u8], _>(bounds(begin, &end)) {
                let at = changes.partition_point(|change| change.committed < committed);
                // A key that the same commit changed more than once counts with all of it.
                let last = changes[at..]
                    .iter()
                    .take_while(|change| change.committed == committed)
                    .last();
                if let Some(change) = last
                    && !keys.iter().any(|(known, _)| known == key)
                {
                    keys.push((key, change));
                }
            }
        }
        keys
    }

    /// The last change of a key that a read at this version sees.
    pub fn change_seen(&self, key: &[u8], version: i64) -> Option<&Change> {
        let changes = self.changes(key);
        let seen = changes.partition_point(|change| self.version_of(change.committed) <= version);
        changes[..seen].last()
    }

    /// The value of a key that a read at this version sees.
    pub fn value_at(&self, key: &[u8], version: i64) -> Option<&Bytes> {
        self.change_seen(key, version)?.after.as_ref()
    }

    /// What changed a key after a version, and before a commit.
    pub fn changed_between(
        &self,
        key: &[u8],
        after: i64,
        before: CommittedId,
    ) -> impl Iterator<Item = &Change> {
        self.changes(key).iter().filter(move |change| {
            self.version_of(change.committed) > after && change.committed < before
        })
    }

    /// What an attempt read and was answered.
    pub fn reads(&self, attempt: AttemptId) -> impl Iterator<Item = Read<'a>> + '_ {
        let ids = self.operations_of(attempt);
        ids.iter().filter_map(|id| self.read(*id))
    }

    /// An operation as a read, if it is one that was answered.
    pub fn read(&self, id: OperationId) -> Option<Read<'a>> {
        let operation = self.operation(id);
        let version = self.attempt(operation.attempt).read_version?;
        let (begin, end, point, snapshot): (&'a [u8], Vec<u8>, bool, bool) =
            match (&operation.call, &operation.answer) {
                (Call::Get { key, snapshot }, Answer::Value(_)) => {
                    (key.kept(), after(key.kept()), true, *snapshot)
                }
                // Everything between the key to begin at and the key that was found was looked at.
                (Call::GetKey { selector, snapshot }, Answer::Key(found)) => {
                    let (asked, found) = (selector.key.kept(), found.kept());
                    match found < asked {
                        true => (found, asked.to_vec(), false, *snapshot),
                        false => (asked, after(found), false, *snapshot),
                    }
                }
                (
                    Call::GetRange(call) | Call::GetMappedRange(call),
                    Answer::Rows { rows, more, .. },
                ) => {
                    let mut begin = call.begin.key.kept();
                    let mut end = call.end.key.kept().to_vec();
                    if let (true, Some((last, _))) = (*more, rows.last()) {
                        match call.reverse {
                            true => begin = last.kept(),
                            false => end = after(last.kept()),
                        }
                    }
                    (begin, end, false, call.snapshot)
                }
                _ => return None,
            };
        Some(Read {
            operation: id,
            attempt: operation.attempt,
            begin,
            end,
            point,
            snapshot,
            version,
        })
    }

    /// The call of an attempt that last wrote a key.
    pub fn writer(&self, attempt: AttemptId, key: &[u8]) -> Option<OperationId> {
        let ids = self.operations_of(attempt);
        let exact = ids.iter().rev().find(|id| {
            written(&self.operation(**id).call)
                .is_some_and(|(begin, end)| begin <= key && key < &end[..])
        });
        // A key with a versionstamp is complete only in the commit.
        exact.copied().or_else(|| {
            let stamped = |id: &&OperationId| {
                matches!(&self.operation(**id).call, Call::Atomic { name, .. }
                    if name == atomic::VERSIONSTAMPED_KEY)
            };
            ids.iter().rev().find(stamped).copied()
        })
    }

    /// Whether a value tells what was stored: not empty, and not what the same line of the client
    /// stores most of the time.
    pub fn identifies(&self, attempt: AttemptId, key: &[u8], value: &Bytes) -> bool {
        let place = self.writer(attempt, key).map(|id| self.operation(id).place);
        let client = self.attempt(attempt).client;
        let (mut same, mut all) = (0, 0);
        for operation in &self.record.operations {
            if let Call::Set { value: other, .. } = &operation.call
                && Some(operation.place) == place
                && self.attempt(operation.attempt).client == client
            {
                all += 1;
                same += usize::from(other == value);
            }
        }
        !value.is_empty() && (all < 4 || 2 * same < all)
    }

    /// Whether the result of a commit was not heard, or not believed.
    pub fn is_doubtful(&self, attempt: AttemptId) -> bool {
        let commit = self.attempt(attempt).commit.is_some();
        commit
            && match self.attempt(attempt).end {
                End::Committed | End::Open => false,
                End::Failed(error) | End::Retried(error) => is_unknown(error),
                End::DroppedInCommit | End::Reset | End::Cancelled | End::Dropped => true,
            }
    }

    /// The error that the client was given for its commit.
    pub fn commit_error(&self, attempt: AttemptId) -> Option<i32> {
        match self.operation(self.commit(attempt)?.operation).answer {
            Answer::Error(error) => Some(error),
            _ => None,
        }
    }

    /// Whether the conflict ranges of a commit contain a key.
    pub fn conflicts_on(&self, attempt: AttemptId, key: &[u8]) -> bool {
        self.commit(attempt)
            .is_some_and(|commit| commit.reads.iter().any(|range| contains(range, key)))
    }
}

/// Whether a commit that fails with this error may have taken effect.
pub fn is_unknown(error: i32) -> bool {
    matches!(error, 1021 | 1031 | 1039 | 1025 | 1101 | 1026)
}

pub fn contains(range: &Range, key: &[u8]) -> bool {
    range.begin.kept() <= key && key < range.end.kept()
}

/// The first key after a key.
pub fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The keys that a call writes.
pub fn written(call: &Call) -> Option<(&[u8], Vec<u8>)> {
    match call {
        Call::Set { key, .. } | Call::Atomic { key, .. } => Some((key.kept(), after(key.kept()))),
        Call::Clear { range } => Some((range.begin.kept(), range.end.kept().to_vec())),
        _ => None,
    }
}

/// The keys of a mutation: from the first up to the second.
pub fn span(mutation: &Mutation) -> (&[u8], Vec<u8>) {
    match mutation {
        Mutation::Set { key, .. } | Mutation::Atomic { key, .. } => (key.kept(), after(key.kept())),
        Mutation::Clear { range } => (range.begin.kept(), range.end.kept().to_vec()),
    }
}

/// Whether a clear is of one key only.
pub fn is_point(range: &Range) -> bool {
    range.end.kept() == after(range.begin.kept())
}

fn bounds<'k>(begin: &'k [u8], end: &'k [u8]) -> (Bound<&'k [u8]>, Bound<&'k [u8]>) {
    (Bound::Included(begin), Bound::Excluded(end))
}

fn apply<'a>(
    changes: &mut BTreeMap<&'a [u8], Vec<Change>>,
    id: CommittedId,
    committed: &'a Committed,
) {
    for mutation in &committed.mutations {
        match mutation {
            Mutation::Set { key, value } => {
                push(changes, key.kept(), id, How::Set, |_| Some(value.clone()));
            }
            Mutation::Atomic { key, operand, name } => {
                push(changes, key.kept(), id, How::Atomic, |before| {
                    atomic::result(name, before, operand)
                });
            }
            Mutation::Clear { range } if is_point(range) => {
                push(changes, range.begin.kept(), id, How::Clear, |_| None);
            }
            Mutation::Clear { range } => {
                if range.begin.kept() >= range.end.kept() {
                    continue;
                }
                let span = bounds(range.begin.kept(), range.end.kept());
                for (_, list) in changes.range_mut::<[u8], _>(span) {
                    let before = list.last().and_then(|last| last.after.clone());
                    if before.is_some() {
                        list.push(Change {
                            committed: id,
                            how: How::ClearRange,
                            before,
                            after: None,
                        });
                    }
                }
            }
        }
    }
}

fn push<'a>(
    changes: &mut BTreeMap<&'a [u8], Vec<Change>>,
    key: &'a [u8],
    committed: CommittedId,
    how: How,
    value: impl FnOnce(Option<&Bytes>) -> Option<Bytes>,
) {
    let list = changes.entry(key).or_default();
    let before = list.last().and_then(|last| last.after.clone());
    let after = value(before.as_ref());
    list.push(Change {
        committed,
        how,
        before,
        after,
    });
}
