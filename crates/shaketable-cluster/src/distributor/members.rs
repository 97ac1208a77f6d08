//! The storage servers of a cluster: which are gone, which can be given a shard, and how one is
//! made or taken off the list.
//!
//! The list is kept twice: by the coordinators, for the next recovery, and in the database, for the
//! logs, which keep only what listed servers need. A server is on both lists before it can be given
//! a shard, and leaves them only after it can no longer be given one.

use super::records::read_server_list;
use super::{Distributor, Interrupted};
use crate::server::coordinator::CoreState;
use crate::server::layout::Fitness;
use crate::server::messages::Tag;
use crate::server::metadata::server_list_key;
use crate::server::worker::{
    GetStorageTag, Recruit, Recruited, recruit_endpoint, storage_tag_endpoint,
};
use bytes::Bytes;
use shaketable_kernel::{ProcessId, Time};
use std::collections::BTreeSet;

impl Distributor {
    /// Returns the storage servers that are gone for good, or as good as gone, and when to check
    /// again if another may be soon.
    pub(super) async fn gone(&self) -> (BTreeSet<Tag>, Option<Time>) {
        let mut gone = BTreeSet::new();
        let mut next: Option<Time> = None;
        let core = self.controller.core();
        let patience = self
            .controller
            .knobs()
            .data_distribution_failure_reaction_time;
        for (tag, process) in &core.storages {
            let away = *process != self.here.id() && self.here.is_failed(*process);
            if away {
                let now = self.here.now();
                let since = *self.failed_since.borrow_mut().entry(*tag).or_insert(now);
                // A point in time, not the seconds left: a remainder shorter than the clock's tick
                // would never pass.
                let due = since.after(patience);
                if due <= now {
                    gone.insert(*tag);
                } else {
                    next = Some(next.map_or(due, |next| next.min(due)));
                }
                continue;
            }
            self.failed_since.borrow_mut().remove(tag);
            let endpoint = storage_tag_endpoint(&self.here, *process);
            if let Ok(found) = self.here.request(&endpoint, GetStorageTag).await
                && found != Some(*tag)
            {
                gone.insert(*tag);
            }
        }
        (gone, next)
    }

    pub(super) fn healthy(&self) -> Vec<(Tag, ProcessId)> {
        let core = self.controller.core();
        let reachable =
            |process: ProcessId| process == self.here.id() || !self.here.is_failed(process);
        core.storages
            .iter()
            .copied()
            .filter(|(_, process)| reachable(*process))
            .collect()
    }

    /// Picks a team of `count` servers in different zones that keeps those of `keep`.
    pub(super) fn pick(
        &self,
        servers: &[(Tag, ProcessId)],
        keep: &[Tag],
        count: usize,
    ) -> Vec<Tag> {
        let core = self.controller.core();
        let mut team: Vec<Tag> = keep.iter().copied().take(count).collect();
        let zone = |process: ProcessId| self.here.describe(process).zone.clone();
        let mut zones: Vec<String> = core
            .storages
            .iter()
            .filter(|(tag, _)| team.contains(tag))
            .map(|(_, process)| zone(*process))
            .collect();
        for (tag, process) in servers {
            if team.len() < count && !zones.contains(&zone(*process)) {
                zones.push(zone(*process));
                team.push(*tag);
            }
        }
        team
    }

    /// Creates a storage server on a process that has none, or none that counts.
    pub(super) async fn recruit_storage(&self, gone: &BTreeSet<Tag>) -> Result<(), Interrupted> {
        let core = self.controller.core();
        let taken: Vec<ProcessId> = core
            .storages
            .iter()
            .filter(|(tag, _)| !gone.contains(tag))
            .map(|(_, process)| *process)
            .collect();
        let mut candidates: Vec<ProcessId> = self
            .controller
            .servers()
            .iter()
            .copied()
            .filter(|process| !taken.contains(process))
            .filter(|process| *process == self.here.id() || !self.here.is_failed(*process))
            .collect();
        let zone = |process: &ProcessId| self.here.describe(*process).zone.clone();
        let taken_zones: Vec<String> = taken.iter().map(zone).collect();
        candidates.sort_by_key(|process| {
            let class = &self.here.describe(*process).class;
            (
                taken_zones.contains(&zone(process)),
                Fitness::Storage.of(class),
            )
        });
        let process = *candidates.first().ok_or(Interrupted)?;
        // The tag is reserved before it is assigned: if the answer is lost, no other server gets
        // the same tag.
        let tag = core.next_tag;
        self.write_core(|core| core.next_tag = tag + 1).await?;
        let recruit = recruit_endpoint(&self.here, process);
        let asked = self.here.request(&recruit, Recruit::Storage(tag)).await;
        let Ok(Recruited::Storage(tag)) = asked else {
            return Err(Interrupted);
        };
        // Listed before it can be given a shard: the logs keep only what listed servers need.
        let address = Bytes::from(self.here.describe(process).address.to_string());
        self.transact(async |transaction| {
            transaction.set(server_list_key(tag), address.clone());
            Ok(())
        })
        .await?;
        self.write_core(|core| {
            core.storages.retain(|(other, _)| *other != tag);
            core.storages.push((tag, process));
        })
        .await
    }

    /// Removes storage servers from the cluster, unless one of them was given a shard while others
    /// were moved away from them: it may have come back in the meantime. Returns whether it did.
    pub(super) async fn remove_storages(&self, gone: &BTreeSet<Tag>) -> Result<bool, Interrupted> {
        let _turn = self.turn().await;
        if !gone.is_empty() {
            let shards = self.shards().await?;
            let mut tags = shards.iter().flat_map(|shard| shard.team.all.iter());
            if tags.any(|tag| gone.contains(tag)) {
                return Ok(false);
            }
            self.write_core(|core| core.storages.retain(|(tag, _)| !gone.contains(tag)))
                .await?;
        }
        let core = self.controller.core();
        // Taken off the list only once they can no longer be given a shard. The list may also
        // contain others, whose recruiting or removal was interrupted.
        self.transact(async |transaction| {
            for tag in read_server_list(transaction).await? {
                if core.storages.iter().all(|(known, _)| *known != tag) {
                    transaction.clear(server_list_key(tag));
                }
            }
            Ok(())
        })
        .await?;
        Ok(true)
    }

    async fn write_core(&self, change: impl FnOnce(&mut CoreState)) -> Result<(), Interrupted> {
        let mut core = (*self.controller.core()).clone();
        change(&mut core);
        let written = self.controller.write_core(core).await;
        written.map_err(|_| Interrupted)
    }
}
