//! Keys with versionstamps: the version of a commit is in the row that it wrote.
//!
//! Such a row, seen later, proves that its commit landed, and at which version. Two commits of the
//! same version may have written alike rows, so a row that one has taken is no proof for another.

use super::looks::Looks;
use super::{Doubtful, Landed};
use crate::atomic;
use shaketable_record::{Bytes, Mutation};
use std::collections::BTreeSet;

/// How many bytes a versionstamp has, and how many of them are the version.
const STAMP_BYTES: usize = 10;
const VERSION_BYTES: usize = 8;

/// The parts of a key with a versionstamp: what is before it, and what is after it.
fn around_stamp(key: &Bytes) -> Option<(&[u8], &[u8])> {
    let (key, offset) = key.kept().split_last_chunk::<4>()?;
    let offset = u32::from_le_bytes(*offset) as usize;
    Some((key.get(..offset)?, key.get(offset + STAMP_BYTES..)?))
}

/// The rows with a versionstamp between these parts, with their versions.
fn stamped_rows<'a>(
    looks: &'a Looks,
    before: &'a [u8],
    after: &'a [u8],
) -> impl Iterator<Item = (i64, &'a [u8], &'a Bytes)> {
    let rows = looks.rows.range(before.to_vec()..);
    rows.take_while(move |(key, _)| key.starts_with(before))
        .filter_map(move |(key, value)| {
            let stamp = key[before.len()..].first_chunk::<VERSION_BYTES>()?;
            let rest = key.get(before.len() + STAMP_BYTES..)?;
            (rest == after).then_some((i64::from_be_bytes(*stamp), key.as_slice(), value))
        })
}

/// The version of a doubtful commit, if a row with its versionstamp was seen.
pub(super) fn stamp_of(looks: &Looks, one: &Doubtful, taken: &BTreeSet<Vec<u8>>) -> Option<i64> {
    let lowest = one.read_version.unwrap_or(0);
    one.mutations.iter().find_map(|mutation| match mutation {
        Mutation::Atomic { key, operand, name } if name == atomic::VERSIONSTAMPED_KEY => {
            let (before, after) = around_stamp(key)?;
            let mut rows = stamped_rows(looks, before, after);
            rows.find(|(version, key, value)| {
                *version > lowest && *value == operand && !taken.contains(*key)
            })
            .map(|(version, _, _)| version)
        }
        _ => None,
    })
}

/// Completes the keys with versionstamps of a commit, as they were seen later.
pub(super) fn complete(looks: &Looks, one: &mut Landed, taken: &mut BTreeSet<Vec<u8>>) {
    for mutation in &mut one.mutations {
        let Mutation::Atomic { key, operand, name } = mutation else {
            continue;
        };
        if name != atomic::VERSIONSTAMPED_KEY {
            continue;
        }
        let Some((before, after)) = around_stamp(key) else {
            continue;
        };
        let seen = stamped_rows(looks, before, after)
            .find(|(version, key, value)| {
                *version == one.version && *value == operand && !taken.contains(*key)
            })
            .map(|(_, key, _)| key.to_vec());
        let whole = seen.unwrap_or_else(|| {
            let stamp = one.version.to_be_bytes();
            [before, &stamp, &[0, 0], after].concat()
        });
        taken.insert(whole.clone());
        *key = Bytes::whole(&whole);
    }
}
