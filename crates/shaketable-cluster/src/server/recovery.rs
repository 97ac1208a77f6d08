//! Recovery: how one generation of the transaction system ends and the next begins.
//!
//! 1. Take the right to write from the coordinators. The ballot is the number of the new
//!    generation.
//! 2. Lock enough logs of the old generation that it can never commit again. A commit was
//!    acknowledged only if all logs had it, so the *recovery version*, the lowest of the newest
//!    versions on the locked logs, keeps everything that was acknowledged. Anything beyond it never
//!    happened.
//! 3. Recruit the new generation. Its logs begin with everything the old ones still held, so that
//!    the old ones are not needed again, and with an empty batch 100,000,000 versions later.
//! 4. Write the new logs to the coordinators. From here on the new generation is the one that
//!    counts.
//!
//! The third step is in `recruitment`.

mod recruitment;

use crate::process::Process;
use crate::proto::{ClientDbInfo, Mutation, MutationKind, Value, Version};
use crate::server::commit_proxy::{CommitProxyHandle, assign_tags};
use crate::server::controller::Surroundings;
use crate::server::coordinator::{CoreState, Quorum};
use crate::server::distribution;
use crate::server::layout::Configuration;
use crate::server::messages::{
    Beginning, ChangeCoordinators, Epoch, LockLog, LockedLog, LogBatch, LogEntry, LogInterface, Tag,
};
use crate::server::metadata::{COORDINATORS_KEY, Metadata};
use crate::server::role::WaitFailure;
use crate::server::worker::{Recruit, Recruited, lock_log_endpoint};
use bytes::Bytes;
use shaketable_kernel::{Endpoint, Priority, ProcessId, channel};
use std::collections::BTreeSet;
use std::rc::Rc;

/// How long a recovery that has locked enough logs waits for the others, in seconds.
const LOCK_GRACE: f64 = 0.2;
/// The pause before a log that did not answer is asked again, in seconds.
const LOCK_RETRY: f64 = 0.5;

/// A generation that has begun.
pub struct Generation {
    /// Its number.
    pub epoch: Epoch,
    /// How many there are of each role.
    pub configuration: Configuration,
    /// What the coordinators know of it.
    pub core: Rc<CoreState>,
    /// What clients know of it.
    pub client_info: ClientDbInfo,
    /// The logs.
    pub logs: Rc<[LogInterface]>,
    /// The commit proxies.
    pub commit_proxies: Vec<CommitProxyHandle>,
    /// The endpoints that break when its roles end.
    pub failures: Vec<Endpoint<WaitFailure>>,
    /// Which process plays which role.
    pub roles: Vec<(&'static str, ProcessId)>,
}

/// A process that is needed could not be reached; the recovery must be tried again.
#[derive(Debug)]
pub struct Interrupted;

impl From<crate::server::coordinator::Outvoted> for Interrupted {
    fn from(_: crate::server::coordinator::Outvoted) -> Interrupted {
        Interrupted
    }
}

/// Ends the current generation, if there is one, and begins the next. `ballot` is the lowest number
/// it may have, and grows. Commit proxies ask for other coordinators at `orders`.
pub async fn recover(
    around: &Surroundings,
    ballot: &mut u64,
    orders: &Endpoint<ChangeCoordinators>,
) -> Result<Generation, Interrupted> {
    let env = &around.env;
    let here = env.process();
    let (epoch, old) = around.coordinators.read(*ballot).await?;
    *ballot = epoch + 1;
    let recovery = Recovery {
        around,
        epoch,
        orders,
    };

    let (old, mut left) = match old {
        Some(old) => {
            let left = recovery.lock(&old).await;
            (old, left)
        }
        None => recovery.first_generation().await?,
    };
    let locked_at = here.now();
    let recovery_version = left.durable;
    if let Some(last) = old.beginnings.last() {
        assert!(last.epoch < epoch, "generations are counted up");
        assert!(
            last.version <= recovery_version,
            "a generation ends with a version of its own"
        );
    }
    let mut metadata = metadata_at(&left);
    let configuration = Configuration::read(&metadata);
    left.popped
        .retain(|tag, _| metadata.servers().any(|(server, _)| server == *tag));
    for (tag, _) in metadata.servers() {
        left.popped.entry(tag).or_insert(recovery_version);
    }

    let passed = here.now().since(old.began_at) * env.knobs().versions_per_second as f64;
    let reached = recovery_version.max(old.began_with + passed as Version);
    let further = if env.buggify("recovery jumps further ahead") {
        here.stream("recovery").below(10_000_000) as Version
    } else {
        0
    };
    let began_with = reached + env.knobs().max_versions_in_flight + further;
    let entries = note_coordinators(&mut metadata, &around.coordinators.known());
    let first = LogBatch::new(recovery_version, began_with, entries);
    left.batches.push(Rc::new(first));

    let mut generation = recovery
        .recruit(&configuration, &old, began_with, Rc::new(left), metadata)
        .await?;
    let mut core = CoreState {
        began_with,
        began_at: locked_at,
        ..(*generation.core).clone()
    };
    core.beginnings.push(Beginning {
        epoch,
        recovery_version,
        version: began_with,
    });
    let core = Rc::new(core);
    generation.core = core.clone();
    around.coordinators.write(epoch, core.clone()).await?;
    // Report all of them: earlier recoveries may have ended without knowing that they had
    // succeeded.
    for beginning in &core.beginnings {
        let (version, recovery_version) = (beginning.version, beginning.recovery_version);
        env.recoveries().note(version, recovery_version);
        if let Some(history) = env.history() {
            history.recover(version, recovery_version);
        }
    }

    // Readers of the old generation may rely on a proof that is this old.
    if !env.is_instant() {
        here.sleep_until(locked_at.after(env.knobs().required_min_recovery_duration))
            .await;
    }
    Ok(generation)
}

/// The metadata after everything the logs hold.
fn metadata_at(left: &LockedLog) -> Metadata {
    let mut metadata = left.metadata.clone();
    for batch in &left.batches {
        metadata.apply_batch(batch);
    }
    metadata
}

/// What the database is to be told of its coordinators, if it does not know them.
fn note_coordinators(metadata: &mut Metadata, quorum: &Quorum) -> Vec<LogEntry> {
    let mut entries = Vec::new();
    let noted = metadata.get(COORDINATORS_KEY);
    let is_news = |noted: &Value| **noted != *quorum.connection_string.as_bytes();
    // A layout may have its own words for the first ones.
    if noted.is_none_or(|noted| quorum.number > 0 && is_news(noted)) {
        let mutation = Mutation {
            kind: MutationKind::SetValue,
            param1: COORDINATORS_KEY.into(),
            param2: Bytes::copy_from_slice(quorum.connection_string.as_bytes()),
        };
        assign_tags(metadata, mutation, &mut entries);
    }
    entries
}

struct Recovery<'a> {
    around: &'a Surroundings,
    epoch: Epoch,
    orders: &'a Endpoint<ChangeCoordinators>,
}

impl Recovery<'_> {
    /// The process of the controller.
    fn here(&self) -> &Process {
        self.around.env.process()
    }

    /// Locks enough of the old logs, and returns what they hold of the old generation.
    async fn lock(&self, old: &CoreState) -> LockedLog {
        let here = self.here();
        let (sender, mut receiver) = channel();
        let _askers: Vec<_> = old
            .logs
            .iter()
            .map(|(id, process)| {
                let endpoint = lock_log_endpoint(here, *process);
                let (asker, sender) = (here.clone(), sender.clone());
                let (id, epoch) = (*id, self.epoch);
                here.spawn(Priority::ClusterController, async move {
                    loop {
                        match asker
                            .request_reliably(&endpoint, LockLog { id, epoch })
                            .await
                        {
                            Ok(locked) => {
                                let _ = sender.send(locked);
                                return;
                            }
                            Err(_) => asker.sleep(LOCK_RETRY).await,
                        }
                    }
                })
            })
            .collect();
        // Enough are locked when the missing logs span fewer zones than there are replicas.
        let enough = |locked: &[LockedLog]| {
            let missing = old
                .logs
                .iter()
                .filter(|(id, _)| locked.iter().all(|log| log.id != *id));
            let zones: BTreeSet<String> = missing
                .map(|(_, process)| here.describe(*process).zone.clone())
                .collect();
            // With two regions, the satellites hold everything that the region's own logs do.
            let whole = !self.around.layout.regions.is_empty()
                && old.logs.iter().any(|(_, one)| {
                    let side = self.side(*one);
                    let mut beside = old
                        .logs
                        .iter()
                        .filter(|(_, other)| self.side(*other) == side);
                    beside.clone().count() >= old.log_replicas
                        && beside.all(|(id, _)| locked.iter().any(|log| log.id == *id))
                });
            whole || zones.len() < old.log_replicas
        };
        let mut locked: Vec<LockedLog> = Vec::new();
        while locked.is_empty() || !enough(&locked) {
            locked.extend(receiver.recv().await);
        }
        let grace = here.now().after(LOCK_GRACE);
        while locked.len() < old.logs.len() {
            let left = grace.since(here.now());
            match here.timeout(left, receiver.recv()).await {
                Some(more) => locked.extend(more),
                None => break,
            }
        }
        locked.iter().for_each(LockedLog::assert_whole);
        let durable = locked
            .iter()
            .map(|log| log.durable)
            .min()
            .expect("at least one is locked");
        let acknowledged = locked
            .iter()
            .map(|log| log.known_committed)
            .max()
            .unwrap_or(0);
        assert!(
            durable >= acknowledged,
            "a recovery would lose version {acknowledged}, which was acknowledged, and end at {durable}"
        );
        let mut left = locked.swap_remove(0);
        left.batches.retain(|batch| batch.version <= durable);
        let left = LockedLog {
            durable,
            known_committed: durable,
            ..left
        };
        left.assert_whole();
        left
    }

    /// What a new database begins with: storage servers, and the metadata that describes them.
    async fn first_generation(&self) -> Result<(Rc<CoreState>, LockedLog), Interrupted> {
        let env = &self.around.env;
        let layout = &self.around.layout;
        let mut storages = Vec::new();
        for (tag, index) in (1..).zip(&layout.storages) {
            let process = self.around.servers[*index];
            match self.ask(process, Recruit::Storage(tag)).await? {
                Recruited::Storage(tag) => storages.push((tag, process)),
                _ => return Err(Interrupted),
            }
        }
        let first = distribution::first_batch(env, layout, &storages);
        let core = CoreState {
            logs: Vec::new(),
            log_replicas: 0,
            next_tag: storages.len() as Tag + 1,
            beginnings: Vec::new(),
            began_with: env.begins_after(),
            began_at: env.process().now(),
            storages: storages.clone(),
        };
        let left = LockedLog {
            durable: first.version,
            known_committed: first.version,
            id: 0,
            discarded: 0,
            metadata: Metadata::default(),
            popped: storages.iter().map(|(tag, _)| (*tag, 0)).collect(),
            batches: vec![Rc::new(first)],
        };
        Ok((Rc::new(core), left))
    }
}
