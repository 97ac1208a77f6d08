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

use crate::process::Process;
use crate::proto::{ClientDbInfo, Key, Version};
use crate::server::commit_proxy::{CommitProxyHandle, CommitProxySpec};
use crate::server::controller::Surroundings;
use crate::server::coordinator::CoreState;
use crate::server::distribution;
use crate::server::grv_proxy::GrvProxySpec;
use crate::server::layout::{Configuration, Fitness};
use crate::server::messages::{Beginning, Epoch, LockLog, LockedLog, LogBatch, LogInterface, Tag};
use crate::server::metadata::Metadata;
use crate::server::resolver::ResolverInterface;
use crate::server::role::WaitFailure;
use crate::server::worker::{Recruit, Recruited, lock_log_endpoint, recruit_endpoint};
use shaketable_kernel::{Endpoint, First, Priority, ProcessId, channel, first_of};
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
/// it may have, and grows.
pub async fn recover(around: &Surroundings, ballot: &mut u64) -> Result<Generation, Interrupted> {
    let env = &around.env;
    let here = env.process();
    let (epoch, old) = around.coordinators.read(*ballot).await?;
    *ballot = epoch + 1;
    let recovery = Recovery { around, epoch };

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
    let metadata = metadata_at(&left);
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
    let first = LogBatch::new(recovery_version, began_with, Vec::new());
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
    if let Some(history) = env.history() {
        // Report all of them: earlier recoveries may have ended without knowing that they had
        // succeeded.
        for beginning in &core.beginnings {
            history.recover(beginning.version, beginning.recovery_version);
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

struct Recovery<'a> {
    around: &'a Surroundings,
    epoch: Epoch,
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
                let (clock, from, sender) = (here.clone(), here.id(), sender.clone());
                let (id, epoch) = (*id, self.epoch);
                here.spawn(Priority::ClusterController, async move {
                    loop {
                        match endpoint.request_reliably(from, LockLog { id, epoch }).await {
                            Ok(locked) => {
                                let _ = sender.send(locked);
                                return;
                            }
                            Err(_) => clock.sleep(LOCK_RETRY).await,
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
            began_with: 0,
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

    async fn recruit(
        &self,
        configuration: &Configuration,
        old: &CoreState,
        version: Version,
        left: Rc<LockedLog>,
        metadata: Metadata,
    ) -> Result<Generation, Interrupted> {
        let epoch = self.epoch;
        let here = self.here();
        let mut failures = Vec::new();
        let mut roles = Vec::new();

        let state = metadata.database_state().clone();
        let place = self.places(Fitness::Stateless, 1, 0)[0];
        let recruit = Recruit::Sequencer(epoch, version, state);
        let Recruited::Sequencer(sequencer) = self.ask(place, recruit).await? else {
            return Err(Interrupted);
        };
        failures.push(sequencer.failure.clone());
        roles.push(("sequencer", place));

        let places = self.log_places(configuration)?;
        let answers: Vec<_> = places
            .iter()
            .zip(0..)
            .map(|(place, number)| {
                // Unique even though an earlier attempt may have left logs behind.
                let id = epoch << 16 | number;
                self.ask(*place, Recruit::Log(epoch, id, version, left.clone()))
            })
            .collect();
        let mut logs = Vec::new();
        for (answer, place) in answers.into_iter().zip(&places) {
            let Recruited::Log(log, failure) = answer.await? else {
                return Err(Interrupted);
            };
            logs.push(log);
            failures.push(failure);
            roles.push(("tlog", *place));
        }
        let logs: Rc<[LogInterface]> = logs.into();
        let zones: BTreeSet<String> = logs
            .iter()
            .map(|log| here.describe(log.process).zone.clone())
            .collect();
        assert!(
            zones.len() >= configuration.log_replicas,
            "each replica of a log is in a zone of its own"
        );

        let places = self.places(Fitness::Stateless, configuration.resolvers, 1);
        let splits = distribution::resolver_splits(places.len());
        let mut resolvers: Vec<(Key, ResolverInterface)> = Vec::new();
        for (place, split) in places.into_iter().zip(splits) {
            let recruit = Recruit::Resolver(epoch, version, configuration.commit_proxies);
            let Recruited::Resolver(resolver) = self.ask(place, recruit).await? else {
                return Err(Interrupted);
            };
            failures.push(resolver.failure.clone());
            roles.push(("resolver", place));
            resolvers.push((split, resolver));
        }

        let storages = old.interfaces(here);
        let spec = CommitProxySpec {
            index: 0,
            sequencer: sequencer.clone(),
            resolvers: resolvers.into(),
            logs: logs.clone(),
            version,
            metadata,
            storages,
        };
        let mut commit_proxies = Vec::new();
        let places = self.places(Fitness::Stateless, configuration.commit_proxies, 2);
        for (index, place) in places.into_iter().enumerate() {
            let spec = Box::new(CommitProxySpec {
                index,
                ..spec.clone()
            });
            let recruited = self.ask(place, Recruit::CommitProxy(epoch, spec)).await?;
            let Recruited::CommitProxy(proxy) = recruited else {
                return Err(Interrupted);
            };
            failures.push(proxy.failure.clone());
            roles.push(("commitproxy", place));
            commit_proxies.push(proxy);
        }

        let spec = GrvProxySpec {
            sequencer,
            logs: logs.clone(),
            commit_empty_batch: commit_proxies[0].commit_empty_batch.clone(),
        };
        let mut grv_proxies = Vec::new();
        for place in self.places(Fitness::Stateless, configuration.grv_proxies, 3) {
            let recruited = self
                .ask(place, Recruit::GrvProxy(epoch, spec.clone()))
                .await?;
            let Recruited::GrvProxy(proxy, failure) = recruited else {
                return Err(Interrupted);
            };
            failures.push(failure);
            roles.push(("grvproxy", place));
            grv_proxies.push(proxy);
        }

        let storages = old
            .storages
            .iter()
            .map(|(_, process)| ("storage", *process));
        let controller = [("clustercontroller", self.here().id())];
        let client_roles = controller.into_iter().chain(roles.iter().copied());
        let log_ids = logs.iter().map(|log| (log.id, log.process)).collect();
        let core = CoreState {
            logs: log_ids,
            log_replicas: configuration.log_replicas.min(logs.len()),
            ..old.clone()
        };
        Ok(Generation {
            epoch,
            configuration: *configuration,
            core: Rc::new(core),
            client_info: ClientDbInfo {
                generation: epoch,
                grv_proxies: grv_proxies.into(),
                commit_proxies: commit_proxies
                    .iter()
                    .map(|proxy| proxy.interface.clone())
                    .collect(),
                roles: client_roles.chain(storages).collect(),
                configuration: Rc::new(configuration.numbers()),
            },
            logs,
            commit_proxies,
            failures,
            roles,
        })
    }

    /// Asks a process to play a role, without delay. A process that can no longer be reached is not
    /// waited for: another can play the role.
    fn ask(
        &self,
        process: ProcessId,
        recruit: Recruit,
    ) -> impl Future<Output = Result<Recruited, Interrupted>> + use<> {
        let here = self.here();
        let failed = here.on_failed(process);
        let answer = recruit_endpoint(here, process).request_reliably(here.id(), recruit);
        async move {
            match first_of(answer, failed).await {
                First::Left(Ok(recruited)) => Ok(recruited),
                First::Left(Err(_)) | First::Right(()) => Err(Interrupted),
            }
        }
    }

    /// Returns processes for roles among the fittest, beginning at an offset so that roles spread.
    /// If there are not enough, a process plays several roles.
    fn places(&self, fitness: Fitness, count: usize, offset: usize) -> Vec<ProcessId> {
        let candidates = self.candidates(fitness);
        let best = candidates.first().map_or(0, |(fitness, _)| *fitness);
        let fittest: Vec<ProcessId> = candidates
            .into_iter()
            .filter(|(fitness, _)| *fitness == best)
            .map(|(_, process)| process)
            .collect();
        (0..count)
            .map(|index| fittest[(index + offset) % fittest.len()])
            .collect()
    }

    /// Reachable processes with their fitness, fittest first. The one this runs on is always among
    /// them.
    fn candidates(&self, fitness: Fitness) -> Vec<(u32, ProcessId)> {
        let here = self.here();
        let reachable = |process: &&ProcessId| {
            **process == here.id() || here.is_truly_alive(**process) && !here.is_failed(**process)
        };
        let reachable: Vec<ProcessId> = self
            .around
            .servers
            .iter()
            .filter(reachable)
            .copied()
            .collect();
        // With two regions, the first one available has all roles; logs spill over to the
        // satellites.
        let regions = &self.around.layout.regions;
        let datacenter = |process: ProcessId| here.describe(process).datacenter.clone();
        let home = regions
            .iter()
            .find(|region| reachable.iter().any(|one| datacenter(*one) == **region));
        let distance = |process: ProcessId| match home {
            None => 0,
            Some(home) if datacenter(process) == *home => 0,
            Some(_) if regions.contains(&datacenter(process)) => 200,
            Some(_) => 100,
        };
        let mut candidates: Vec<(u32, ProcessId)> = reachable
            .into_iter()
            .map(|process| {
                let unfit = fitness.of(&here.describe(process).class);
                (unfit + distance(process), process)
            })
            .collect();
        candidates.sort_by_key(|(unfit, _)| *unfit);
        candidates
    }

    /// Returns the datacenter of a process if it is one of two regions; `None` for all satellites
    /// together.
    fn side(&self, process: ProcessId) -> Option<String> {
        let spec = self.here().describe(process);
        let regions = &self.around.layout.regions;
        Some(spec.datacenter.clone()).filter(|datacenter| regions.contains(datacenter))
    }

    /// Returns processes for the logs, in at least as many zones as there are replicas: a
    /// configuration with fewer logs than replicas gets one log per replica.
    fn log_places(&self, configuration: &Configuration) -> Result<Vec<ProcessId>, Interrupted> {
        let here = self.here();
        let wanted = configuration.logs.max(configuration.log_replicas);
        let mut chosen: Vec<ProcessId> = Vec::new();
        let mut others: Vec<ProcessId> = Vec::new();
        let mut zones: Vec<String> = Vec::new();
        // With two regions, one has half of the logs and the satellites have the others.
        let mut in_region = 0;
        for (_, process) in self.candidates(Fitness::Log) {
            let zone = here.describe(process).zone.clone();
            let region = self.side(process).is_some();
            let full = region && in_region >= wanted.div_ceil(2);
            if chosen.len() < wanted && !full && !zones.contains(&zone) {
                in_region += usize::from(region);
                zones.push(zone);
                chosen.push(process);
            } else {
                others.push(process);
            }
        }
        others.truncate(wanted - chosen.len());
        chosen.extend(others);
        if zones.len() < configuration.log_replicas {
            Err(Interrupted)
        } else {
            Ok(chosen)
        }
    }
}
