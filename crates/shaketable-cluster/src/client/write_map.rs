//! What a transaction has written so far, as a read must see it.
//!
//! The key space is cut into segments: keys with operations of their own, and between them ranges
//! that are either unmodified or cleared. Each segment also knows whether it belongs to the write
//! conflict ranges, and whether a versionstamp has made it unreadable. An entry describes a key
//! *and* the keys after it up to the next entry, so that a range costs two entries however many
//! keys it spans.
//!
//! A clone is a snapshot: a read that waits for the database goes on with the writes it began with.

use super::chunks::{Chunks, Keyed, Position};
use super::operations::{Operation, OperationStack, is_stamped};
use crate::data::key::{AFTER_ALL, ALL_END, KeyBound, is_key_after, same};
use crate::proto::{Key, KeyRange, MutationKind};
use bytes::Bytes;

/// The writes of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct WriteMap {
    entries: Chunks<Entry>,
    is_empty: bool,
}

/// What is known about a key and about the keys that follow it.
#[derive(Clone, Debug)]
struct Entry {
    key: Key,
    stack: OperationStack,
    is_conflict: bool,
    is_unreadable: bool,
    following_cleared: bool,
    following_conflict: bool,
    following_unreadable: bool,
}

/// What happens at a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteSegment {
    UnmodifiedRange,
    ClearedRange,
    IndependentWrite,
    DependentWrite,
}

impl WriteMap {
    pub(crate) fn new() -> Self {
        let edge = |key| Entry::range(key, false, false, false);
        WriteMap {
            entries: Chunks::new(vec![edge(Bytes::new()), edge(ALL_END), edge(AFTER_ALL)]),
            is_empty: true,
        }
    }

    /// Whether nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// A cursor at the segment that contains `key`.
    pub(crate) fn cursor(&self, key: &[u8]) -> WriteCursor<'_> {
        WriteCursor::at(&self.entries, key)
    }

    /// Writes to one key. Without `conflict`, an existing conflict stays.
    pub(crate) fn mutate(&mut self, key: Key, operation: Operation, conflict: bool) {
        self.is_empty = false;
        let kind = operation.kind;
        let stamped = is_stamped(kind);
        let dependent = kind != MutationKind::SetValue && !stamped;

        let cursor = self.cursor(&key);
        let WriteCursor { at, next, .. } = cursor;
        let entry = cursor.entry();
        let is_known = same(&entry.key, &key);
        let in_cleared_range = cursor.is_cleared_range();
        let was_unreadable = cursor.is_unreadable();
        let mut new = Entry {
            key,
            stack: OperationStack::default(),
            is_conflict: conflict || cursor.is_conflict(),
            is_unreadable: was_unreadable || stamped,
            following_cleared: entry.following_cleared,
            following_conflict: entry.following_conflict,
            following_unreadable: entry.following_unreadable,
        };
        let overwrites =
            !was_unreadable && kind != MutationKind::SetVersionstampedKey && !dependent;
        if is_known && !overwrites {
            new.stack = entry.stack.clone();
        }
        if new.stack.is_empty() && in_cleared_range && dependent {
            new.stack.push(Operation {
                kind: MutationKind::SetValue,
                value: None,
            });
            new.stack.fold_in(operation);
        } else if !new.is_unreadable && !new.stack.is_empty() {
            new.stack.fold_in(operation);
        } else {
            new.stack.push(operation);
        }
        if is_known {
            self.entries.replace(at, new);
        } else {
            self.entries.insert_before(next, new);
        }
    }

    /// Clears a range. What was unreadable in it becomes readable.
    pub(crate) fn clear(&mut self, begin: Key, end: Key, conflict: bool) {
        self.is_empty = false;
        if conflict {
            self.clear_with_conflict(begin, end);
        } else {
            self.clear_without_conflict(begin, end);
        }
    }

    fn clear_with_conflict(&mut self, begin: Key, end: Key) {
        let mut cursor = self.cursor(&begin);
        let insert_begin =
            !cursor.is_cleared_range() || !cursor.is_conflict() || cursor.is_unreadable();
        cursor.advance_to_end_of_range(&end);

        let same = cursor.is_conflict() && !cursor.is_unreadable();
        let insert_end = (cursor.is_unmodified_range() || !same) && !cursor.starts_entry_at(&end);
        let merge_end = cursor.is_cleared_range() && cursor.begins_at(&end) && same;
        let after = cursor.range_entry(&end);
        self.replace(&begin, &end, insert_begin, merge_end);
        if insert_begin {
            self.entries.insert(Entry::range(begin, true, true, false));
        }
        if insert_end {
            self.entries.insert(after);
        }
    }

    /// Clears a range but leaves every conflict in it as it was.
    fn clear_without_conflict(&mut self, begin: Key, end: Key) {
        let mut cursor = self.cursor(&begin);
        let insert_begin = !cursor.is_cleared_range() || cursor.is_unreadable();
        let mut conflict = cursor.is_conflict();
        let mut changes = Vec::new();
        if insert_begin {
            changes.push((begin.clone(), conflict));
        }
        while cursor.end_key() < KeyBound::new(&end) {
            cursor.next();
            if cursor.is_conflict() != conflict {
                conflict = !conflict;
                changes.push((cursor.begin_key().to_key(), conflict));
            }
        }
        if cursor.end_key() == KeyBound::new(&end) {
            cursor.next();
        }
        let entry = cursor.entry();
        let insert_end = ((cursor.is_unmodified_range() || cursor.is_unreadable())
            && !cursor.starts_entry_at(&end))
            || (entry.is_conflict
                && !entry.following_conflict
                && cursor.begins_at(&end)
                && !cursor.starts_entry());
        let merge_end = cursor.is_cleared_range()
            && cursor.begins_at(&end)
            && cursor.is_conflict() == conflict
            && !cursor.is_unreadable();
        let after = cursor.range_entry(&end);
        self.replace(&begin, &end, insert_begin, merge_end);
        for (key, conflict) in changes {
            self.entries
                .insert(Entry::range(key, true, conflict, false));
        }
        if insert_end {
            self.entries.insert(after);
        }
    }

    /// Makes a range unmodified (its writes have been handed over) and unreadable.
    pub(crate) fn add_unreadable_range(&mut self, begin: Key, end: Key) {
        let mut cursor = self.cursor(&begin);
        let insert_begin =
            !cursor.is_unmodified_range() || cursor.is_conflict() || !cursor.is_unreadable();
        cursor.advance_to_end_of_range(&end);

        let same = !cursor.is_conflict() && cursor.is_unreadable();
        let insert_end = (cursor.is_cleared_range() || !same) && !cursor.starts_entry_at(&end);
        let merge_end = cursor.is_unmodified_range() && cursor.begins_at(&end) && same;
        let after = cursor.range_entry(&end);
        self.replace(&begin, &end, insert_begin, merge_end);
        if insert_begin {
            self.entries.insert(Entry::range(begin, false, false, true));
        }
        if insert_end {
            self.entries.insert(after);
        }
    }

    /// Adds a write conflict range without writing.
    pub(crate) fn add_conflict_range(&mut self, begin: Key, end: Key) {
        self.is_empty = false;
        let mut cursor = self.cursor(&begin);
        let mut insertions = Vec::new();
        if !cursor.entry().is_all_conflict() {
            let entry = cursor.entry();
            insertions.push(Entry {
                key: begin,
                stack: cursor.operations().cloned().unwrap_or_default(),
                is_conflict: true,
                following_conflict: true,
                ..*entry
            });
        }
        while cursor.end_key() < KeyBound::new(&end) {
            cursor.next();
            if cursor.starts_entry() && !cursor.entry().is_all_conflict() {
                let mut entry = cursor.entry().clone();
                entry.is_conflict = true;
                entry.following_conflict = true;
                insertions.push(entry);
            }
        }
        if !cursor.entry().is_all_conflict() {
            let mut rest = Entry {
                stack: OperationStack::default(),
                ..cursor.entry().clone()
            };
            cursor.next();
            if !cursor.starts_entry_at(&end) {
                rest.key = end;
                rest.is_conflict = false;
                rest.following_conflict = false;
                insertions.push(rest);
            }
        }
        for entry in insertions {
            self.entries.insert(entry);
        }
    }

    /// The write conflict ranges, joined into the longest possible ones.
    pub(crate) fn conflict_ranges(&self) -> Vec<KeyRange> {
        let mut ranges: Vec<KeyRange> = Vec::new();
        let mut cursor = self.cursor(&[]);
        while cursor.begin_key() < KeyBound::new(&ALL_END) {
            if cursor.is_conflict() {
                let (begin, end) = (cursor.begin_key(), cursor.end_key().to_key());
                match ranges.last_mut() {
                    Some(last) if KeyBound::new(&last.end) == begin => last.end = end,
                    _ => ranges.push(KeyRange {
                        begin: begin.to_key(),
                        end,
                    }),
                }
            }
            cursor.next();
        }
        ranges
    }

    /// Removes the entries of a range: the one at `begin` only with `replace_begin`, the one at
    /// `end` only with `merge_end`.
    fn replace(&mut self, begin: &[u8], end: &[u8], replace_begin: bool, merge_end: bool) {
        let bound = |key, after| {
            if after {
                KeyBound::after(key)
            } else {
                KeyBound::new(key)
            }
        };
        self.entries
            .remove(bound(begin, !replace_begin), bound(end, merge_end));
    }
}

impl Entry {
    /// An entry that is only the beginning of a range.
    fn range(key: Key, cleared: bool, conflict: bool, unreadable: bool) -> Entry {
        Entry {
            key,
            stack: OperationStack::default(),
            is_conflict: conflict,
            is_unreadable: unreadable,
            following_cleared: cleared,
            following_conflict: conflict,
            following_unreadable: unreadable,
        }
    }

    fn is_all_conflict(&self) -> bool {
        self.is_conflict && self.following_conflict
    }
}

impl Keyed for Entry {
    fn key(&self) -> &[u8] {
        &self.key
    }
}

/// A place in the sequence of segments. Every key belongs to exactly one segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteCursor<'a> {
    entries: &'a Chunks<Entry>,
    at: Position,
    next: Position,
    /// Whether the cursor is at the range after the entry's key instead of at the key.
    in_range: bool,
}

impl<'a> WriteCursor<'a> {
    fn at(entries: &'a Chunks<Entry>, key: &[u8]) -> Self {
        let next = entries.first_after(key);
        let at = entries.previous(next);
        let entry = entries.get(at);
        let in_range = entry.stack.is_empty() || !same(&entry.key, key);
        WriteCursor {
            entries,
            at,
            next,
            in_range,
        }
    }

    pub(crate) fn segment(&self) -> WriteSegment {
        match (self.in_range, self.entry().following_cleared) {
            (true, false) => WriteSegment::UnmodifiedRange,
            (true, true) => WriteSegment::ClearedRange,
            (false, _) if self.entry().stack.is_dependent() => WriteSegment::DependentWrite,
            (false, _) => WriteSegment::IndependentWrite,
        }
    }

    pub(crate) fn is_unmodified_range(&self) -> bool {
        self.in_range && !self.entry().following_cleared
    }

    pub(crate) fn is_cleared_range(&self) -> bool {
        self.in_range && self.entry().following_cleared
    }

    pub(crate) fn is_conflict(&self) -> bool {
        let entry = self.entry();
        if self.in_range {
            entry.following_conflict
        } else {
            entry.is_conflict
        }
    }

    pub(crate) fn is_unreadable(&self) -> bool {
        let entry = self.entry();
        if self.in_range {
            entry.following_unreadable
        } else {
            entry.is_unreadable
        }
    }

    /// Whether a read here depends on what the database holds.
    pub(crate) fn reads_database(&self) -> bool {
        self.is_unmodified_range() || (!self.in_range && !self.is_independent())
    }

    /// Whether the operations here need no value from the database: they set it, or the keys around
    /// it are cleared.
    pub(crate) fn is_independent(&self) -> bool {
        let entry = self.entry();
        entry.following_cleared || !entry.stack.is_dependent()
    }

    /// The operations, if the cursor is at a key.
    pub(crate) fn operations(&self) -> Option<&'a OperationStack> {
        (!self.in_range).then(|| &self.entry().stack)
    }

    /// The key, if the cursor is at one.
    pub(crate) fn key(&self) -> &'a Key {
        &self.entry().key
    }

    pub(crate) fn begin_key(&self) -> KeyBound<'a> {
        let entry = self.entry();
        if self.starts_entry() {
            KeyBound::new(&entry.key)
        } else {
            KeyBound::after(&entry.key)
        }
    }

    /// The key at which the segment begins, shared with its entry if it is the same key.
    pub(crate) fn to_begin_key(self) -> Key {
        if self.starts_entry() {
            self.key().clone()
        } else {
            self.begin_key().to_key()
        }
    }

    pub(crate) fn end_key(&self) -> KeyBound<'a> {
        if self.in_range {
            KeyBound::new(&self.entries.get(self.next).key)
        } else {
            KeyBound::after(&self.entry().key)
        }
    }

    pub(crate) fn next(&mut self) {
        if !self.in_range && !self.is_followed_directly() {
            self.in_range = true;
        } else {
            self.at = self.next;
            self.next = self.entries.next(self.next);
            self.in_range = self.entry().stack.is_empty();
        }
    }

    pub(crate) fn previous(&mut self) {
        if self.in_range && !self.entry().stack.is_empty() {
            self.in_range = false;
        } else {
            self.next = self.at;
            self.at = self.entries.previous(self.at);
            self.in_range = self.entry().stack.is_empty() || !self.is_followed_directly();
        }
    }

    pub(crate) fn is_same(&self, other: &WriteCursor<'_>) -> bool {
        self.at == other.at && self.in_range == other.in_range
    }

    fn entry(&self) -> &'a Entry {
        self.entries.get(self.at)
    }

    fn is_followed_directly(&self) -> bool {
        is_key_after(&self.entry().key, &self.entries.get(self.next).key)
    }

    /// Whether the segment begins with its entry's own key.
    fn starts_entry(&self) -> bool {
        !self.in_range || self.entry().stack.is_empty()
    }

    fn begins_at(&self, key: &[u8]) -> bool {
        self.begin_key() == KeyBound::new(key)
    }

    fn starts_entry_at(&self, key: &[u8]) -> bool {
        self.starts_entry() && self.begins_at(key)
    }

    /// Moves from the segment in which a range begins to the one in which the keys after it begin.
    fn advance_to_end_of_range(&mut self, end: &[u8]) {
        match self.end_key().cmp(&KeyBound::new(end)) {
            std::cmp::Ordering::Equal => self.next(),
            std::cmp::Ordering::Less => *self = WriteCursor::at(self.entries, end),
            std::cmp::Ordering::Greater => {}
        }
    }

    /// An entry at `end` that continues the range this cursor is in.
    fn range_entry(&self, end: &Key) -> Entry {
        let cleared = self.is_cleared_range();
        Entry::range(
            end.clone(),
            cleared,
            self.is_conflict(),
            self.is_unreadable(),
        )
    }
}

#[cfg(test)]
mod tests;
