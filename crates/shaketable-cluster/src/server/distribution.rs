//! Data distribution: which storage servers hold which shards.

use crate::proto::{Key, KeyRange, Mutation, MutationKind, Value};
use crate::server::commit_proxy::assign_tags;
use crate::server::controller::Controller;
use crate::server::env::Env;
use crate::server::layout::Layout;
use crate::server::messages::{LogBatch, Payload, Tag};
use crate::server::metadata::{Metadata, Team, key_servers_key, server_list_key};
use crate::server::storage::FIRST_VERSION;
use shaketable_kernel::ProcessId;
use std::pin::Pin;
use std::rc::Rc;

/// What a controller needs from its data distributor. A data distributor reads and writes the
/// database as a client does, which no server can, so it is passed in from outside.
pub trait DataDistributor {
    /// Watches over the storage servers until it is dropped, which is at the end of the generation.
    fn run(self: Rc<Self>) -> Pin<Box<dyn Future<Output = ()>>>;

    /// Moves a range to servers picked at random. Returns whether it did.
    fn move_at_random(self: Rc<Self>, range: KeyRange) -> Pin<Box<dyn Future<Output = bool>>>;
}

/// Makes the data distributor of a controller.
pub type BeginDistribution = Rc<dyn Fn(&Controller) -> Rc<dyn DataDistributor>>;

/// The first batch of a new database: its configuration, its storage servers, its shards.
pub fn first_batch(env: &Env, layout: &Layout, storages: &[(Tag, ProcessId)]) -> LogBatch {
    let here = env.process();
    let stream = here.stream("layout");
    let mut mutations = layout.configuration.write();
    let set = |key: Key, value: Value| Mutation {
        kind: MutationKind::SetValue,
        param1: key,
        param2: value,
    };
    for (tag, process) in storages {
        let address = here.describe(*process).address.to_string();
        mutations.push(set(server_list_key(*tag), address.into()));
    }
    for (key, value) in layout.first_rows {
        mutations.push(set(Key::from_static(key), Value::from_static(value)));
    }
    let begins = [Key::new()]
        .into_iter()
        .chain(layout.boundaries.iter().cloned());
    for begin in begins {
        let mut order = storages.to_vec();
        stream.shuffle(&mut order);
        let team = spread(env, layout, &order);
        mutations.push(set(key_servers_key(&begin), Team::new(&team, &[]).encode()));
    }
    let mut metadata = Metadata::default();
    for mutation in &mutations {
        metadata.apply(mutation);
    }
    let mut entries = Vec::new();
    for mutation in mutations {
        assign_tags(&mut metadata, mutation, &mut entries);
    }
    // The shards go first: everything else is written into them, their own rows too.
    entries.sort_by_key(|entry| !matches!(entry.payload, Payload::Shard(_)));
    LogBatch::new(0, FIRST_VERSION, entries)
}

/// The first servers that are in different zones, one per replica, and equally many in each region.
fn spread(env: &Env, layout: &Layout, servers: &[(Tag, ProcessId)]) -> Vec<Tag> {
    let count = layout.configuration.storage_replicas;
    let in_region = count / layout.regions.len().max(1);
    let mut team = Vec::new();
    let mut zones: Vec<String> = Vec::new();
    let mut datacenters: Vec<String> = Vec::new();
    for (tag, process) in servers {
        let spec = env.process().describe(*process);
        let (zone, datacenter) = (spec.zone.clone(), spec.datacenter.clone());
        let beside = datacenters.iter().filter(|one| **one == datacenter).count();
        let full = !layout.regions.is_empty() && beside >= in_region;
        if team.len() < count && !full && !zones.contains(&zone) {
            datacenters.push(datacenter);
            zones.push(zone);
            team.push(*tag);
        }
    }
    team
}

/// Returns the keys at which the ranges of `count` resolvers begin.
pub fn resolver_splits(count: usize) -> Vec<Key> {
    (0..count)
        .map(|index| match index {
            0 => Key::new(),
            _ => Key::from(vec![(index * 256 / count) as u8]),
        })
        .collect()
}
