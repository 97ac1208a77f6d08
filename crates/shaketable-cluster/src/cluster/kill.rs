//! Killing parts of a cluster, and what prevents killing too much.
//!
//! FoundationDB's simulator never destroys data that no database could be expected to keep. Before
//! it kills, it asks whether what is left still holds a copy of everything, and if not, it reboots
//! instead. This module does the same:
//!
//! * a majority of the coordinators is protected for the whole run, and of those that come after
//!   them;
//! * the zones that have lost their disks, and whose data has not been copied elsewhere yet, stay
//!   fewer than the replicas;
//! * nothing is lost while a shard may have fewer replicas than it should;
//! * enough zones stay alive to place all replicas;
//! * while faults are off nothing is killed, except that a single process may be rebooted.
//!
//! The same rules say what may [break for good](Cluster::break_for_good) in a run that asks whether
//! the rest of the cluster gets on.

use super::Cluster;
use crate::server::layout::Configuration;
use crate::server::messages::{Epoch, Tag};
use shaketable_kernel::{Kernel, KillKind, ProcessId, Stream};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// What to kill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One process.
    Process(ProcessId),
    /// All processes of a zone.
    Zone(String),
    /// All processes of a datacenter.
    Datacenter(String),
}

/// A zone that is lost for the rest of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenZone {
    /// Its name.
    pub zone: String,
    /// Whether its processes are dead; they are cut off otherwise.
    pub is_dead: bool,
}

/// What has been killed so far.
pub(super) struct Losses {
    stream: Stream,
    /// Coordinators that must survive.
    protected: RefCell<BTreeSet<ProcessId>>,
    /// Zones that will never come back.
    dead_zones: RefCell<BTreeSet<String>>,
    /// Zones whose disks were lost: the storage servers that were there, and the generation at that
    /// time.
    lost_zones: RefCell<BTreeMap<String, (Vec<Tag>, Epoch)>>,
}

impl Losses {
    pub(super) fn new(kernel: &Kernel, coordinators: &[ProcessId]) -> Losses {
        let stream = kernel.stream("kills");
        let mut order = coordinators.to_vec();
        stream.shuffle(&mut order);
        let majority = order.into_iter().take(coordinators.len() / 2 + 1);
        Losses {
            stream,
            protected: RefCell::new(majority.collect()),
            dead_zones: RefCell::default(),
            lost_zones: RefCell::default(),
        }
    }
}

impl Cluster {
    /// Kills, or does as much of it as is allowed; returns what really happened to which process.
    /// The list may be empty.
    pub fn kill(&self, target: &Target, kind: KillKind) -> Vec<(ProcessId, KillKind)> {
        self.kill_drawing(target, kind, &self.losses().stream)
    }

    /// The same, for a caller with its own random stream: the length of a reboot is drawn from
    /// there.
    pub fn kill_drawing(
        &self,
        target: &Target,
        kind: KillKind,
        stream: &Stream,
    ) -> Vec<(ProcessId, KillKind)> {
        let Some(victims) = self.victims(target, kind) else {
            return Vec::new();
        };
        let one_process = matches!(target, Target::Process(_));
        let loses_disks = kind.deletes() || !kind.reboots();
        let kind = if loses_disks && !self.can_lose(&victims, !kind.reboots()) {
            match target {
                Target::Process(_) => KillKind::RebootProcess,
                _ => KillKind::Reboot,
            }
        } else {
            kind
        };
        if kind.deletes() || !kind.reboots() {
            self.note_loss(&victims, !kind.reboots());
        }
        let kernel = self.kernel();
        let away = self.draw_seconds_away(&victims, one_process, stream);
        victims
            .into_iter()
            .zip(away)
            .map(|(process, away)| {
                if kind.reboots() {
                    kernel.reboot(process, kind, away);
                } else {
                    kernel.kill(process, kind);
                }
                (process, kind)
            })
            .collect()
    }

    /// Protects a majority of processes that are about to become coordinators.
    pub fn protect_coordinators(&self, processes: &[ProcessId]) {
        let majority = processes.iter().take(processes.len() / 2 + 1);
        self.losses().protected.borrow_mut().extend(majority);
    }

    /// Draws a zone that the others can do without for the rest of the run, and how it breaks;
    /// `None` if at the moment there is none.
    pub fn zone_to_break(&self, stream: &Stream) -> Option<BrokenZone> {
        let mut zones = self.zones();
        stream.shuffle(&mut zones);
        let is_dead = stream.chance(0.5);
        let zone = zones.into_iter().find(|zone| {
            let victims = self.processes_of(&Target::Zone(zone.clone()));
            self.can_lose(&victims, true)
        })?;
        Some(BrokenZone { zone, is_dead })
    }

    /// Breaks a zone for the rest of the run: either all of its processes die, or no message
    /// reaches them or leaves them any more.
    pub fn break_for_good(&self, broken: &BrokenZone) {
        let victims = self.processes_of(&Target::Zone(broken.zone.clone()));
        self.note_loss(&victims, true);
        let kernel = self.kernel();
        for process in victims {
            if broken.is_dead {
                kernel.kill(process, KillKind::KillInstantly);
            } else {
                kernel.cut_off(kernel.process(process).address.ip);
            }
        }
    }

    /// Draws what killing would draw, and kills nothing.
    pub fn spare_drawing(&self, target: &Target, kind: KillKind, stream: &Stream) {
        if let Some(victims) = self.victims(target, kind) {
            let one_process = matches!(target, Target::Process(_));
            self.draw_seconds_away(&victims, one_process, stream);
        }
    }

    /// The processes that are meant, if they may be killed at all.
    fn victims(&self, target: &Target, kind: KillKind) -> Option<Vec<ProcessId>> {
        let victims = self.processes_of(target);
        let one_process = matches!(target, Target::Process(_));
        let allowed = self.faults_enabled() || one_process && kind.reboots();
        (!victims.is_empty() && allowed).then_some(victims)
    }

    /// How long each of them stays away, if it comes back.
    fn draw_seconds_away(
        &self,
        victims: &[ProcessId],
        one_process: bool,
        stream: &Stream,
    ) -> Vec<f64> {
        let knobs = self.knobs();
        let machine_delay = if one_process {
            0.0
        } else {
            stream.uniform() * 10.0
        };
        let delays = victims.iter().map(|_| {
            let back = stream.range(knobs.min_reboot_time, knobs.max_reboot_time);
            back + machine_delay
        });
        delays.collect()
    }

    /// The zones of the servers, sorted, except those that will never come back.
    pub fn zones(&self) -> Vec<String> {
        let kernel = self.kernel();
        let dead = self.losses().dead_zones.borrow();
        let mut zones: Vec<String> = self
            .servers()
            .iter()
            .map(|process| kernel.process(*process).zone.clone())
            .filter(|zone| !dead.contains(zone))
            .collect();
        zones.sort();
        zones.dedup();
        zones
    }

    fn processes_of(&self, target: &Target) -> Vec<ProcessId> {
        let kernel = self.kernel();
        let is_meant = |process: &ProcessId| {
            let spec = kernel.process(*process);
            match target {
                Target::Process(one) => one == process,
                Target::Zone(zone) => spec.zone == *zone,
                Target::Datacenter(datacenter) => spec.datacenter == *datacenter,
            }
        };
        self.servers().iter().copied().filter(is_meant).collect()
    }

    fn zones_of(&self, processes: &[ProcessId]) -> BTreeSet<String> {
        processes
            .iter()
            .map(|process| self.kernel().process(*process).zone.clone())
            .collect()
    }

    /// Whether everything would still have a copy, and a place for all its copies.
    fn can_lose(&self, victims: &[ProcessId], for_good: bool) -> bool {
        let losses = self.losses();
        if victims
            .iter()
            .any(|process| losses.protected.borrow().contains(process))
        {
            return false;
        }
        let Some(controller) = self.controller() else {
            return false;
        };
        let Some(generation) = controller.generation() else {
            return false;
        };
        if !controller.is_replicated() {
            return false;
        }
        // Data that has been copied elsewhere since, and that the logs' generation no longer holds,
        // is not at risk.
        losses.lost_zones.borrow_mut().retain(|_, (tags, epoch)| {
            let core = controller.core();
            generation.epoch <= *epoch || core.storages.iter().any(|(tag, _)| tags.contains(tag))
        });
        let Configuration {
            storage_replicas,
            log_replicas,
            ..
        } = generation.configuration;
        let mut lost: BTreeSet<String> = losses.lost_zones.borrow().keys().cloned().collect();
        let doomed = self.zones_of(victims);
        lost.extend(doomed.iter().cloned());
        if lost.len() >= storage_replicas.min(log_replicas) {
            return false;
        }
        let left = self
            .zones()
            .into_iter()
            .filter(|zone| !(for_good && doomed.contains(zone)));
        left.count() > storage_replicas.max(log_replicas)
    }

    fn note_loss(&self, victims: &[ProcessId], for_good: bool) {
        let Some(controller) = self.controller() else {
            return;
        };
        let epoch = controller
            .generation()
            .map_or(0, |generation| generation.epoch);
        let core = controller.core();
        let losses = self.losses();
        for zone in self.zones_of(victims) {
            let tags = core
                .storages
                .iter()
                .filter(|(_, process)| victims.contains(process))
                .map(|(tag, _)| *tag);
            losses
                .lost_zones
                .borrow_mut()
                .insert(zone.clone(), (tags.collect(), epoch));
            if for_good {
                losses.dead_zones.borrow_mut().insert(zone);
            }
        }
    }
}
