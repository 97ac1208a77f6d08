//! What the resolvers are asked, and one verdict from all their answers.
//!
//! Each resolver is responsible for a part of the key space and sees of every transaction only the
//! conflict ranges in that part. A transaction commits if none of them objects. Changes of metadata
//! go to all of them: they tell the other proxies.

use super::CommitProxy;
use crate::data::key::compare;
use crate::proto::{Commit, Key, KeyRange, Version};
use crate::server::conflict_set::{ResolveTransaction, Verdict};
use crate::server::messages::{CommitVersion, Resolution, ResolveBatch, StateTransaction};
use crate::server::metadata::touches_metadata;
use crate::server::resolver::ResolverInterface;
use shaketable_kernel::Requesting;

impl CommitProxy {
    /// Sends each resolver its part of a batch. Takes the conflict ranges out of the transactions.
    pub(super) fn ask_resolvers(
        &self,
        commits: &mut [Commit],
        commit_version: CommitVersion,
        received: Version,
    ) -> Vec<Requesting<Resolution>> {
        let state: Vec<StateTransaction> = commits
            .iter()
            .enumerate()
            .filter(|(_, commit)| commit.transaction.mutations.iter().any(touches_metadata))
            .map(|(index, commit)| StateTransaction {
                index,
                lock_aware: commit.transaction.lock_aware,
                mutations: commit.transaction.mutations.clone().into(),
            })
            .collect();
        let here = self.role.env().process();
        let ask = |resolver: &ResolverInterface, transactions, state| {
            let batch = ResolveBatch {
                previous: commit_version.previous,
                version: commit_version.version,
                proxy: self.spec.index,
                received,
                transactions,
                state,
            };
            here.request_reliably(&resolver.resolve, batch)
        };
        let whole = commits.iter_mut().map(|commit| {
            let transaction = &mut commit.transaction;
            let reads = std::mem::take(&mut transaction.read_conflict_ranges);
            ResolveTransaction {
                read_snapshot: transaction.read_snapshot,
                reads: (0..).zip(reads).collect(),
                writes: std::mem::take(&mut transaction.write_conflict_ranges),
                report_conflicts: transaction.report_conflicting_keys,
            }
        });
        let resolvers = &self.spec.resolvers;
        if let [(_, only)] = &resolvers[..] {
            return vec![ask(only, whole.collect(), state)];
        }
        let mut parts = vec![Vec::new(); resolvers.len()];
        for (place, transaction) in whole.enumerate() {
            let ResolveTransaction {
                read_snapshot,
                reads,
                writes,
                report_conflicts,
            } = transaction;
            for part in &mut parts {
                part.push(ResolveTransaction {
                    read_snapshot,
                    reads: Vec::new(),
                    writes: Vec::new(),
                    report_conflicts,
                });
            }
            for (index, range) in reads {
                distribute(resolvers, range, |number, range| {
                    parts[number][place].reads.push((index, range));
                });
            }
            for range in writes {
                distribute(resolvers, range, |number, range| {
                    parts[number][place].writes.push(range);
                });
            }
        }
        let parts = resolvers.iter().zip(parts);
        parts
            .map(|((_, resolver), transactions)| ask(resolver, transactions, state.clone()))
            .collect()
    }
}

/// Gives each resolver its part of a range. Nearly every range is a single key, so it goes to one
/// resolver unchanged.
fn distribute(
    resolvers: &[(Key, ResolverInterface)],
    mut range: KeyRange,
    mut give: impl FnMut(usize, KeyRange),
) {
    if compare(&range.begin, &range.end).is_ge() {
        return;
    }
    // The first begins with the empty key.
    let begun =
        1 + resolvers[1..].partition_point(|(begin, _)| compare(begin, &range.begin).is_le());
    for (number, (end, _)) in (begun - 1..).zip(&resolvers[begun..]) {
        if compare(end, &range.end).is_ge() {
            return give(number, range);
        }
        let begin = std::mem::replace(&mut range.begin, end.clone());
        let end = end.clone();
        give(number, KeyRange { begin, end });
    }
    give(resolvers.len() - 1, range);
}

/// Combines the verdicts of several resolvers into one: too old beats conflict beats commit.
pub(super) fn combine<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Verdict {
    let mut combined = Verdict::Commit;
    for verdict in verdicts {
        match (&mut combined, verdict) {
            (_, Verdict::TooOld) => return Verdict::TooOld,
            (Verdict::Conflict(ranges), Verdict::Conflict(more)) => ranges.extend(more),
            (Verdict::Commit, other) => combined = other.clone(),
            (_, Verdict::Commit) | (Verdict::TooOld, _) => {}
        }
    }
    if let Verdict::Conflict(ranges) = &mut combined {
        ranges.sort_unstable();
        ranges.dedup();
    }
    combined
}
