//! One move: the new servers join, they report that they hold everything, the old ones leave.

use super::records::{Shard, overlapping, read_shards};
use super::{Distributor, Interrupted};
use crate::data::key::KeyBound;
use crate::error::Error;
use crate::proto::{KeyRange, Version};
use crate::server::messages::{CommitEmptyBatch, Tag, WaitShardsHeld};
use crate::server::metadata::{Team, key_servers_key};
use crate::server::storage;
use std::collections::BTreeSet;

/// How long a fetch may take before the move is given up, in seconds.
const FETCH_TIMEOUT: f64 = 60.0;

impl Distributor {
    /// Moves a range to a team. Does nothing if it is already there. The caller has the turn.
    pub(super) async fn move_range(
        &self,
        range: &KeyRange,
        team: &[Tag],
    ) -> Result<(), Interrupted> {
        self.assert_in_distinct_zones(team);
        let joined = self
            .transact(async |transaction| {
                let shards = read_shards(transaction).await?;
                for shard in overlapping(&shards, range) {
                    let serving = &shard.team.serving;
                    let fetching: Vec<Tag> = team
                        .iter()
                        .filter(|tag| !serving.contains(tag))
                        .copied()
                        .collect();
                    let begin = shard.range.begin.clone().max(range.begin.clone());
                    transaction.set(
                        key_servers_key(&begin),
                        Team::new(serving, &fetching).encode(),
                    );
                    if shard.range.end > range.end {
                        transaction.set(key_servers_key(&range.end), shard.team.encode());
                    }
                }
                Ok(())
            })
            .await?;
        self.wait_until_held(range, team, joined).await?;
        self.transact(async |transaction| {
            let shards = read_shards(transaction).await?;
            let joined = |shard: &&Shard| team.iter().all(|tag| shard.team.all.contains(tag));
            if !overlapping(&shards, range).all(|shard| joined(&shard)) {
                return Err(Error::OPERATION_FAILED); // another move came first
            }
            let first = key_servers_key(&range.begin);
            let end = key_servers_key(&range.end);
            transaction.clear_range(KeyBound::after(&first).to_key(), end);
            transaction.set(first, Team::new(team, &[]).encode());
            Ok(())
        })
        .await
        .map(drop)
    }

    fn assert_in_distinct_zones(&self, team: &[Tag]) {
        let core = self.controller.core();
        let members = core.storages.iter().filter(|(tag, _)| team.contains(tag));
        let mut zones = BTreeSet::new();
        for (tag, process) in members {
            let zone = self.here.describe(*process).zone.clone();
            assert!(
                zones.insert(zone),
                "replica {tag} shares a zone with another"
            );
        }
    }

    async fn wait_until_held(
        &self,
        range: &KeyRange,
        team: &[Tag],
        after: Version,
    ) -> Result<(), Interrupted> {
        let generation = self.controller.generation().ok_or(Interrupted)?;
        // A fetch waits for a version that cannot be undone; versions advance only with commits.
        for _ in 0..2 {
            let proxy = &generation.commit_proxies[0].commit_empty_batch;
            self.here
                .request(proxy, CommitEmptyBatch)
                .await
                .map_err(|_| Interrupted)?;
            self.transact(async |transaction| transaction.get_read_version().await.map(drop))
                .await?;
            self.here.sleep(0.05).await;
        }
        let core = self.controller.core();
        let waits: Vec<_> = core
            .storages
            .iter()
            .filter(|(tag, _)| team.contains(tag))
            .map(|(_, process)| {
                let endpoint = storage::wait_shards_held(&self.here, *process);
                let range = range.clone();
                self.here
                    .request(&endpoint, WaitShardsHeld { range, after })
            })
            .collect();
        for wait in waits {
            let held = self.here.timeout(FETCH_TIMEOUT, wait).await;
            held.ok_or(Interrupted)?.map_err(|_| Interrupted)?;
        }
        Ok(())
    }
}
