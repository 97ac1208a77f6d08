//! What a resolver remembers: for every key, the newest version that wrote it.
//!
//! The history is a step function over the key space: sorted segments, each with two versions, that
//! of the key it begins with and that of all other keys in it. Nearly every write is of a single
//! key, which is one segment that way: its other keys keep the version they had. A transaction
//! conflicts when a key of one of its read ranges is newer than its read version. Segments live in
//! small sorted chunks that know their own maximum, so a read over a wide range looks at one number
//! per chunk instead of every recently written key. Segments older than the window are merged away
//! once the set has doubled, which keeps the cost per write constant.
//!
//! A batch is resolved as FoundationDB does it: first every transaction against the history, then,
//! in order, against the writes of the transactions before it in the same batch. The difference
//! shows in what is reported: every conflicting range of the history, but only the first one inside
//! the batch.

use crate::proto::{KeyRange, Version};
use crate::server::small_key::SmallKey;
use crate::server::versioned_map::is_single_key;

/// Chunks are split when they reach this many segments.
const CHUNK_SEGMENTS_MAX: usize = 64;

/// What a resolver needs to know about a transaction.
#[derive(Clone, Debug, Default)]
pub struct ResolveTransaction {
    /// The version its reads saw.
    pub read_snapshot: Version,
    /// What it read, each with its index among the client's read conflict ranges.
    pub reads: Vec<(u32, KeyRange)>,
    /// What it wrote.
    pub writes: Vec<KeyRange>,
    /// Whether the conflicting ranges are wanted.
    pub report_conflicts: bool,
}

/// A resolver's verdict on one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No conflict here.
    Commit,
    /// It conflicts; the indices are those of its read ranges, if they were requested.
    Conflict(Vec<u32>),
    /// It read before the window.
    TooOld,
}

/// The history of writes inside the window.
#[derive(Debug)]
pub struct ConflictSet {
    history: Segments,
    batch: Segments,
    oldest: Version,
    /// The number of segments at which the old ones are merged away.
    sweep_at: usize,
}

impl ConflictSet {
    /// A history in which everything was last written at `version`: what a new generation starts
    /// with.
    pub fn new(version: Version) -> ConflictSet {
        ConflictSet {
            history: Segments::new(version),
            batch: Segments::new(0),
            oldest: version,
            sweep_at: 1024,
        }
    }

    /// Resolves a batch at `version` and adds the writes of the transactions that may commit.
    /// Transactions that read before `oldest` are too old.
    pub fn resolve(
        &mut self,
        version: Version,
        oldest: Version,
        transactions: &[ResolveTransaction],
    ) -> Vec<Verdict> {
        self.oldest = self.oldest.max(oldest);
        let mut verdicts: Vec<Verdict> = transactions
            .iter()
            .map(|transaction| self.check_history(transaction))
            .collect();
        if transactions.len() > 1 {
            self.batch.reset(0);
            for (transaction, verdict) in transactions.iter().zip(&mut verdicts) {
                if *verdict != Verdict::Commit {
                    continue;
                }
                let hit = transaction
                    .reads
                    .iter()
                    .find(|(_, range)| self.batch.newer(range, 0));
                if let Some((index, _)) = hit {
                    let report = transaction.report_conflicts.then_some(*index);
                    *verdict = Verdict::Conflict(report.into_iter().collect());
                    continue;
                }
                for range in &transaction.writes {
                    self.batch.write(range, 1);
                }
            }
        }
        for (transaction, verdict) in transactions.iter().zip(&verdicts) {
            if *verdict == Verdict::Commit {
                for range in &transaction.writes {
                    self.history.write(range, version);
                }
            }
        }
        if self.history.len >= self.sweep_at {
            self.history.merge_before(self.oldest);
            self.sweep_at = (self.history.len * 2).max(1024);
        }
        verdicts
    }

    fn check_history(&self, transaction: &ResolveTransaction) -> Verdict {
        if transaction.reads.is_empty() {
            return Verdict::Commit;
        }
        if transaction.read_snapshot < self.oldest {
            return Verdict::TooOld;
        }
        let newer = |range: &KeyRange| self.history.newer(range, transaction.read_snapshot);
        if transaction.report_conflicts {
            let conflicts: Vec<u32> = transaction
                .reads
                .iter()
                .filter(|(_, range)| newer(range))
                .map(|(index, _)| *index)
                .collect();
            if conflicts.is_empty() {
                Verdict::Commit
            } else {
                Verdict::Conflict(conflicts)
            }
        } else if transaction.reads.iter().any(|(_, range)| newer(range)) {
            Verdict::Conflict(Vec::new())
        } else {
            Verdict::Commit
        }
    }
}

/// A step function from keys to versions. There is always a boundary at the empty key.
#[derive(Debug)]
struct Segments {
    chunks: Vec<Chunk>,
    /// Where each chunk begins: side by side, because a search through the chunks themselves would
    /// wait for another place in memory at every step.
    begins: Vec<SmallKey>,
    len: usize,
}

#[derive(Debug)]
struct Chunk {
    segments: Vec<Segment>,
    newest: Version,
}

/// The keys from one boundary up to the next. The first is never older than the rest: versions only
/// grow, and a write of the rest either wrote the first as well or came before it.
#[derive(Debug)]
struct Segment {
    begin: SmallKey,
    /// The version that wrote the first key.
    first: Version,
    /// The version that wrote all others.
    rest: Version,
}

impl Segment {
    fn new(begin: SmallKey, version: Version) -> Segment {
        Segment {
            begin,
            first: version,
            rest: version,
        }
    }

    /// The version that wrote a key of this segment.
    fn version_of(&self, key: &SmallKey) -> Version {
        if self.begin == *key {
            self.first
        } else {
            self.rest
        }
    }
}

impl Chunk {
    fn refresh(&mut self) {
        let versions = self.segments.iter().map(|segment| segment.first);
        self.newest = versions.max().unwrap_or(0);
    }

    fn raise(&mut self, version: Version) {
        assert!(self.newest <= version, "versions grow");
        self.newest = version;
    }
}

impl Segments {
    fn new(version: Version) -> Segments {
        let first = Chunk {
            segments: vec![Segment::new(SmallKey::EMPTY, version)],
            newest: version,
        };
        Segments {
            chunks: vec![first],
            begins: vec![SmallKey::EMPTY],
            len: 1,
        }
    }

    fn reset(&mut self, version: Version) {
        self.chunks.truncate(1);
        self.begins.truncate(1);
        let first = &mut self.chunks[0];
        first.segments.clear();
        first.segments.push(Segment::new(SmallKey::EMPTY, version));
        first.newest = version;
        self.len = 1;
    }

    /// The chunk and index of the segment that holds `key`.
    fn find(&self, key: &SmallKey) -> (usize, usize) {
        let chunk = self.begins.partition_point(|begin| begin <= key) - 1;
        let segments = &self.chunks[chunk].segments;
        (
            chunk,
            segments.partition_point(|segment| segment.begin <= *key) - 1,
        )
    }

    /// Whether any key of the range was written after `version`.
    fn newer(&self, range: &KeyRange, version: Version) -> bool {
        // Nearly every range is one key, and then it is not empty.
        let is_key = is_single_key(&range.begin, &range.end);
        if !is_key && range.begin >= range.end {
            return false;
        }
        let begin = SmallKey::from(&*range.begin);
        let (first, index) = self.find(&begin);
        let segments = &self.chunks[first].segments;
        if segments[index].version_of(&begin) > version {
            return true;
        }
        if is_key {
            return false;
        }
        // Of a segment that begins inside the range the first key is the newest, whether or not the
        // range has any other of its keys.
        let end = SmallKey::from(&*range.end);
        for (number, chunk) in (first..).zip(&self.chunks[first..]) {
            if self.begins[number] >= end {
                return false;
            }
            if chunk.newest > version {
                let from = if number == first { index + 1 } else { 0 };
                let mut inside = chunk.segments[from..]
                    .iter()
                    .take_while(|segment| segment.begin < end);
                if inside.any(|segment| segment.first > version) {
                    return true;
                }
            }
        }
        false
    }

    fn write(&mut self, range: &KeyRange, version: Version) {
        let is_key = is_single_key(&range.begin, &range.end);
        if !is_key && range.begin >= range.end {
            return;
        }
        let begin = SmallKey::from(&*range.begin);
        let (number, index) = self.find(&begin);
        if is_key {
            self.write_key(number, index, begin, version);
        } else {
            let end = SmallKey::from(&*range.end);
            self.write_range(number, index, [begin, end], version);
        }
        if self.chunks[number].segments.len() >= CHUNK_SEGMENTS_MAX {
            self.split(number);
        }
    }

    /// Writes one key, which lies in the segment at `index` of a chunk.
    fn write_key(&mut self, number: usize, index: usize, key: SmallKey, version: Version) {
        let chunk = &mut self.chunks[number];
        chunk.raise(version);
        let around = &mut chunk.segments[index];
        if around.begin == key {
            around.first = version;
            return;
        }
        let segment = Segment {
            begin: key,
            first: version,
            rest: around.rest,
        };
        chunk.segments.insert(index + 1, segment);
        self.len += 1;
    }

    /// Writes a range that begins in the segment at `first_index` of the chunk `first`.
    fn write_range(
        &mut self,
        first: usize,
        first_index: usize,
        [begin, end]: [SmallKey; 2],
        version: Version,
    ) {
        let (last, last_index) = self.find(&end);
        let around_end = &self.chunks[last].segments[last_index];
        // The segment cut by the end keeps its version after the cut.
        let tail = (around_end.begin != end).then(|| Segment::new(end, around_end.rest));
        let keep_begin = self.chunks[first].segments[first_index].begin != begin;
        let from = first_index + usize::from(keep_begin);
        // Everything from (first, from) up to the end is replaced by the new segment and the tail.
        let upto = last_index + usize::from(tail.is_some());
        let new_count = 1 + usize::from(tail.is_some());
        let new = std::iter::once(Segment::new(begin, version)).chain(tail);
        if first == last {
            let chunk = &mut self.chunks[first];
            self.len = self.len + new_count - (upto - from);
            chunk.segments.splice(from..upto, new);
            chunk.raise(version);
        } else {
            let removed_middle: usize = self.chunks[first + 1..last]
                .iter()
                .map(|chunk| chunk.segments.len())
                .sum();
            let removed = self.chunks[first].segments.len() - from + removed_middle + upto;
            self.len = self.len + new_count - removed;
            self.chunks[last].segments.drain(..upto);
            self.chunks[last].refresh();
            self.chunks[first].segments.truncate(from);
            self.chunks[first].segments.extend(new);
            self.chunks[first].refresh();
            let rest = self.chunks[last].segments.first();
            if let Some(segment) = rest {
                self.begins[last].clone_from(&segment.begin);
            }
            let gone = first + 1..last + usize::from(rest.is_none());
            self.chunks.drain(gone.clone());
            self.begins.drain(gone);
        }
    }

    /// Moves the second half of a chunk to a new one.
    fn split(&mut self, number: usize) {
        let chunk = &mut self.chunks[number];
        let segments = chunk.segments.split_off(chunk.segments.len() / 2);
        chunk.refresh();
        let mut second = Chunk {
            segments,
            newest: 0,
        };
        second.refresh();
        let begin = second.segments[0].begin.clone();
        self.begins.insert(number + 1, begin);
        self.chunks.insert(number + 1, second);
    }

    /// Joins neighbours that were written before `oldest`: no reader can tell them apart.
    fn merge_before(&mut self, oldest: Version) {
        let mut merged = Segments {
            chunks: Vec::new(),
            begins: Vec::new(),
            len: 0,
        };
        let mut previous_old = false;
        for segment in self.chunks.drain(..).flat_map(|chunk| chunk.segments) {
            if segment.first <= oldest && previous_old {
                continue;
            }
            previous_old = segment.rest <= oldest;
            merged.len += 1;
            match merged.chunks.last_mut() {
                Some(chunk) if chunk.segments.len() < CHUNK_SEGMENTS_MAX / 2 => {
                    chunk.newest = chunk.newest.max(segment.first);
                    chunk.segments.push(segment);
                }
                _ => {
                    merged.begins.push(segment.begin.clone());
                    merged.chunks.push(Chunk {
                        newest: segment.first,
                        segments: vec![segment],
                    });
                }
            }
        }
        *self = merged;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Key;

    fn range(begin: &str, end: &str) -> KeyRange {
        let key = |text: &str| Key::copy_from_slice(text.as_bytes());
        KeyRange {
            begin: key(begin),
            end: key(end),
        }
    }

    fn transaction(
        snapshot: Version,
        reads: &[KeyRange],
        writes: &[KeyRange],
    ) -> ResolveTransaction {
        ResolveTransaction {
            read_snapshot: snapshot,
            reads: (0..).zip(reads.iter().cloned()).collect(),
            writes: writes.to_vec(),
            report_conflicts: true,
        }
    }

    #[test]
    fn a_read_conflicts_with_a_later_write_of_the_same_keys_only() {
        let mut set = ConflictSet::new(100);
        let write = transaction(100, &[], &[range("b", "d")]);
        assert_eq!(set.resolve(200, 0, &[write]), [Verdict::Commit]);
        let cases = [
            (range("a", "b"), 100, Verdict::Commit),
            (range("a", "b\0"), 100, Verdict::Conflict(vec![0])),
            (range("c", "z"), 199, Verdict::Conflict(vec![0])),
            (range("c", "z"), 200, Verdict::Commit),
            (range("d", "z"), 100, Verdict::Commit),
        ];
        for (read, snapshot, expected) in cases {
            let verdict = set.resolve(
                201,
                0,
                &[transaction(snapshot, std::slice::from_ref(&read), &[])],
            );
            assert_eq!(verdict, [expected], "{read:?} at {snapshot}");
        }
    }

    #[test]
    fn history_conflicts_are_all_reported_but_only_the_first_inside_a_batch() {
        let mut set = ConflictSet::new(0);
        set.resolve(
            10,
            0,
            &[transaction(0, &[], &[range("a", "b"), range("c", "d")])],
        );
        let reads = [
            range("a", "b"),
            range("b", "c"),
            range("c", "d"),
            range("e", "f"),
        ];
        let history = transaction(5, &reads, &[range("x", "y")]);
        let writer = transaction(10, &[range("e", "f")], &[range("e", "f"), range("g", "h")]);
        let inside = transaction(
            10,
            &[range("a", "b"), range("g", "h"), range("e", "f")],
            &[],
        );
        let after_rejected = transaction(10, &[range("x", "y")], &[]);
        let verdicts = set.resolve(20, 0, &[history, writer, inside, after_rejected]);
        assert_eq!(
            verdicts,
            [
                Verdict::Conflict(vec![0, 2]),
                Verdict::Commit,
                Verdict::Conflict(vec![1]),
                Verdict::Commit
            ]
        );
    }

    #[test]
    fn only_transactions_that_read_can_be_too_old() {
        let mut set = ConflictSet::new(0);
        let reader = transaction(4, &[range("a", "b")], &[]);
        let blind = transaction(4, &[], &[range("a", "b")]);
        assert_eq!(
            set.resolve(10, 5, &[reader, blind]),
            [Verdict::TooOld, Verdict::Commit]
        );
    }

    /// The model is one version per key. Every second one follows the one before it immediately, so
    /// that many ranges are a single key.
    #[test]
    fn it_agrees_with_one_version_per_key() {
        let mut state = 3u64;
        let mut draw = |n: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        for _ in 0..20 {
            let mut set = ConflictSet::new(0);
            let mut model = vec![0; 5000];
            for version in 1..2000 {
                let mut some = |width: u64| {
                    let begin = draw(4999);
                    (begin as usize, (begin + 1 + draw(width)).min(4999) as usize)
                };
                let (read, write) = (
                    some(2000),
                    if version % 50 == 0 {
                        some(3000)
                    } else {
                        some(3)
                    },
                );
                let key = |n: usize| format!("{:04}{}", n / 2, &"\0"[..n % 2]);
                let to_range = |r: (usize, usize)| range(&key(r.0), &key(r.1));
                let snapshot = version - 1 - draw(40).min(version as u64 - 1) as Version;
                let oldest = version - 100;
                let verdict = set.resolve(
                    version,
                    oldest,
                    &[transaction(snapshot, &[to_range(read)], &[to_range(write)])],
                );
                let conflict = model[read.0..read.1].iter().any(|v| *v > snapshot);
                assert_eq!(verdict[0] != Verdict::Commit, conflict, "version {version}");
                if !conflict {
                    model[write.0..write.1].fill(version);
                }
                let counted: usize = set.history.chunks.iter().map(|c| c.segments.len()).sum();
                assert_eq!(counted, set.history.len);
                let begins = set.history.chunks.iter().map(|c| &c.segments[0].begin);
                assert!(begins.eq(&set.history.begins), "version {version}");
            }
        }
    }
}
