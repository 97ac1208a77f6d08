//! Recruiting a generation: which process plays which role, and the requests that make them do so.
//!
//! Roles are recruited in the order in which they need one another: sequencer, logs, resolvers,
//! commit proxies, GRV proxies. Each goes to one of the fittest processes that can be reached. Logs
//! are spread over zones, because that is what makes a commit survive the loss of a zone; the other
//! roles hold nothing that the next recovery needs.

use super::{Generation, Interrupted, Recovery};
use crate::proto::{ClientDbInfo, Key, Version};
use crate::server::commit_proxy::CommitProxySpec;
use crate::server::coordinator::CoreState;
use crate::server::distribution;
use crate::server::grv_proxy::GrvProxySpec;
use crate::server::layout::{Configuration, Fitness};
use crate::server::messages::{LockedLog, LogInterface};
use crate::server::metadata::Metadata;
use crate::server::resolver::ResolverInterface;
use crate::server::worker::{Recruit, Recruited, recruit_endpoint};
use shaketable_kernel::{First, ProcessId, first_of};
use std::collections::BTreeSet;
use std::rc::Rc;

impl Recovery<'_> {
    /// Recruits every role of the new generation.
    pub(super) async fn recruit(
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
            epoch,
            orders: self.orders.clone(),
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

        let quorum = self.around.coordinators.known();
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
                coordinators: (quorum.number > 0).then(|| quorum.connection_string.clone()),
            },
            logs,
            commit_proxies,
            failures,
            roles,
        })
    }

    /// Asks a process to play a role, without delay. A process that can no longer be reached is not
    /// waited for: another can play the role.
    pub(super) fn ask(
        &self,
        process: ProcessId,
        recruit: Recruit,
    ) -> impl Future<Output = Result<Recruited, Interrupted>> + use<> {
        let here = self.here();
        let failed = here.on_failed(process);
        let answer = here.request_reliably(&recruit_endpoint(here, process), recruit);
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
    pub(super) fn side(&self, process: ProcessId) -> Option<String> {
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
