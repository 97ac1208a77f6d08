//! The resolvers' promise, checked on the history alone: a committed transaction's read conflict
//! ranges were not written between its read version and its own place in the order.

use super::{Committed, Violation};
use crate::proto::{KeyRange, Versionstamp};

pub(super) fn verify(committed: &[Committed]) -> Result<(), Violation> {
    for (index, reader) in committed.iter().enumerate() {
        let read_snapshot = reader.transaction.read_snapshot;
        let seen = Versionstamp {
            version: read_snapshot,
            batch_index: u16::MAX,
        };
        let first_unseen = committed.partition_point(|other| other.stamp <= seen);
        for writer in &committed[first_unseen.min(index)..index] {
            if let Some(range) = overlap(
                &reader.transaction.read_conflict_ranges,
                &writer.transaction.write_conflict_ranges,
            ) {
                return Err(Violation::MissedConflict {
                    stamp: reader.stamp,
                    read_snapshot,
                    range: format!("{:?}..{:?}", range.begin, range.end),
                    writer: writer.stamp,
                });
            }
        }
    }
    Ok(())
}

/// Returns a range from the first list that overlaps one of the second.
fn overlap<'a>(reads: &'a [KeyRange], writes: &[KeyRange]) -> Option<&'a KeyRange> {
    let touch = |read: &KeyRange| {
        writes
            .iter()
            .any(|write| read.begin < write.end && write.begin < read.end)
    };
    reads.iter().find(|read| touch(read))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::CommitTransaction;

    fn committed(
        version: i64,
        read_snapshot: i64,
        reads: (&'static str, &'static str),
        writes: (&'static str, &'static str),
    ) -> Committed {
        let range = |(begin, end): (&'static str, &'static str)| KeyRange {
            begin: begin.into(),
            end: end.into(),
        };
        let transaction = CommitTransaction {
            read_snapshot,
            read_conflict_ranges: vec![range(reads)],
            write_conflict_ranges: vec![range(writes)],
            ..CommitTransaction::default()
        };
        Committed {
            stamp: Versionstamp {
                version,
                batch_index: 0,
            },
            transaction,
        }
    }

    #[test]
    fn a_write_between_read_and_commit_is_found() {
        let writer = committed(20, 5, ("x", "y"), ("b", "c"));
        let blind = committed(30, 20, ("b", "c"), ("z", "zz"));
        let missed = committed(30, 19, ("a", "bb"), ("z", "zz"));
        let beside = committed(30, 19, ("a", "b"), ("z", "zz"));
        assert_eq!(verify(&[writer.clone(), blind]), Ok(()));
        assert_eq!(verify(&[writer.clone(), beside]), Ok(()));
        assert!(matches!(
            verify(&[writer, missed]),
            Err(Violation::MissedConflict { .. })
        ));
    }
}
