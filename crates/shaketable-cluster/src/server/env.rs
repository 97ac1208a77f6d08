//! What every server of a cluster is given: the kernel, the knobs of the run, buggify, and where to
//! record what commits.

use crate::history::History;
use crate::knobs::{BUGGIFY_CHANCE, Knobs, LiveKnobs};
use crate::server::config::ClusterConfig;
use shaketable_kernel::{Kernel, ProcessId, Stream, Time};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Shared by the servers of one cluster. Cheap to clone.
#[derive(Clone)]
pub struct Env(Rc<Inner>);

struct Inner {
    kernel: Kernel,
    knobs: LiveKnobs,
    /// Artificial waits are left out: for a database that is part of an ordinary program.
    instant: bool,
    buggify: bool,
    stress: bool,
    sites: RefCell<BTreeMap<&'static str, Site>>,
    faults_enabled: Cell<bool>,
    rejections: Stream,
    history: Option<History>,
    /// The last time no commit batch was under way.
    quiet: Cell<Quiet>,
    /// Until when each disk is stalled.
    stalls: RefCell<BTreeMap<ProcessId, Time>>,
}

/// From the end of the last commit batch until the next one began, if one has.
#[derive(Clone, Copy)]
struct Quiet {
    from: Time,
    until: Option<Time>,
}

struct Site {
    active: bool,
    stream: Stream,
}

impl Env {
    /// For the servers of a cluster with this configuration.
    pub fn new(kernel: &Kernel, config: &ClusterConfig) -> Env {
        Env(Rc::new(Inner {
            kernel: kernel.clone(),
            knobs: LiveKnobs::new(config.knobs.clone()),
            instant: config.instant,
            buggify: config.buggify,
            stress: config.stress,
            sites: RefCell::default(),
            faults_enabled: Cell::new(false),
            rejections: kernel.stream("grv rejection"),
            quiet: Cell::new(Quiet {
                from: Time::ZERO,
                until: Some(Time::ZERO),
            }),
            stalls: RefCell::default(),
            history: config.history.clone(),
        }))
    }

    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.0.kernel
    }

    /// The current knobs.
    pub fn knobs(&self) -> Rc<Knobs> {
        self.0.knobs.get()
    }

    /// The knobs as they change over time.
    pub fn live_knobs(&self) -> &LiveKnobs {
        &self.0.knobs
    }

    /// Where to record what commits, if a checker is attached.
    pub fn history(&self) -> Option<&History> {
        self.0.history.as_ref()
    }

    /// Whether artificial waits are left out.
    pub fn is_instant(&self) -> bool {
        self.0.instant
    }

    /// Whether buggify strikes here and now. A site is active in a quarter of the runs, and an
    /// active site strikes a quarter of the times. Each site has its own random stream, so that a
    /// new site changes nothing about the others.
    pub fn buggify(&self, site: &'static str) -> bool {
        self.buggify_with_chance(site, BUGGIFY_CHANCE)
    }

    /// The same, with other odds that an active site strikes.
    pub fn buggify_with_chance(&self, site: &'static str, chance: f64) -> bool {
        let stressed = self.is_stressed() && crate::stress::SITES.contains(&site);
        if !self.0.buggify && !stressed {
            return false;
        }
        let mut sites = self.0.sites.borrow_mut();
        let site = sites.entry(site).or_insert_with(|| {
            let stream = self.0.kernel.stream(&format!("buggify {site}"));
            Site {
                active: stream.chance(BUGGIFY_CHANCE),
                stream,
            }
        });
        (site.active && self.0.buggify || stressed) && site.stream.chance(chance)
    }

    /// Whether rare but legal outcomes are frequent.
    pub fn is_stressed(&self) -> bool {
        self.0.stress && self.faults_enabled()
    }

    /// Whether stress strikes here and now, with this chance.
    pub fn stresses(&self, site: &'static str, chance: f64) -> bool {
        self.is_stressed() && {
            let stream = self.0.kernel.stream(&format!("stress {site}"));
            stream.chance(chance)
        }
    }

    /// The same, for something that lasts: returns for how many seconds, if it strikes.
    pub fn stresses_for(&self, site: &'static str, (chance, longest): (f64, f64)) -> Option<f64> {
        let length = || self.0.kernel.stream(&format!("stress {site}")).uniform();
        self.stresses(site, chance).then(|| longest * length())
    }

    /// The active sites of this run, among those that were reached.
    pub fn active_sites(&self) -> Vec<&'static str> {
        let sites = self.0.sites.borrow();
        sites
            .iter()
            .filter(|(_, site)| site.active)
            .map(|(name, _)| *name)
            .collect()
    }

    /// Whether faults are on; FoundationDB's `speedUpSimulation` is the opposite.
    pub fn faults_enabled(&self) -> bool {
        self.0.faults_enabled.get()
    }

    /// Switches faults on or off.
    pub fn set_faults_enabled(&self, enabled: bool) {
        self.0.faults_enabled.set(enabled);
    }

    /// Returns how much of the time since `then` passed with no commit batch under way. While one
    /// is under way, this time stands still.
    pub fn quiet_seconds_since(&self, then: Time) -> f64 {
        let Quiet { from, until } = self.0.quiet.get();
        let until = until.unwrap_or_else(|| self.0.kernel.now());
        until.since(from.max(then)).max(0.0)
    }

    /// Called by the sequencer: records whether a commit batch is under way.
    pub fn note_batches(&self, under_way: bool) {
        let (now, quiet) = (self.0.kernel.now(), self.0.quiet.get());
        self.0.quiet.set(if under_way {
            Quiet {
                from: quiet.from,
                until: quiet.until.or(Some(now)),
            }
        } else {
            Quiet {
                from: now,
                until: None,
            }
        });
    }

    /// Stalls the disk of a process for this many seconds.
    pub fn stall_disk(&self, process: ProcessId, seconds: f64) {
        let until = self.0.kernel.now().after(seconds);
        self.0.stalls.borrow_mut().insert(process, until);
    }

    /// Takes as long as the disk of a process needs to write and to sync; the write takes `writing`
    /// seconds.
    pub async fn sync_disk(&self, process: ProcessId, writing: f64) {
        if self.0.instant {
            return;
        }
        let stalled = self.0.stalls.borrow().get(&process).copied();
        let stalled = stalled.map_or(0.0, |until| until.since(self.0.kernel.now()));
        let slow = if self.buggify("disk is slow to sync") {
            self.0.kernel.stream("slow disk").uniform()
        } else {
            0.0
        };
        let wait = stalled.max(writing) + slow;
        if wait > 0.0 {
            self.0.kernel.sleep(wait).await;
        }
        self.0.kernel.disk(process).sync().await;
    }

    /// Whether a GRV proxy rejects this request: one in a hundred while faults are on.
    pub fn rejects_read_version(&self) -> bool {
        self.0.faults_enabled.get() && self.0.rejections.chance(0.01)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: u64 = 2_000;
    const VISITS: u32 = 40;

    fn env(seed: u64, buggify: bool) -> Env {
        let config = ClusterConfig {
            buggify,
            ..ClusterConfig::single_process(false)
        };
        Env::new(&Kernel::simulation(seed), &config)
    }

    /// How often a site strikes in one run.
    fn strikes(env: &Env, site: &'static str) -> u32 {
        (0..VISITS).map(|_| u32::from(env.buggify(site))).sum()
    }

    #[test]
    fn a_site_is_active_in_a_quarter_of_the_runs_strikes_a_quarter_of_the_times_and_is_named() {
        let mut active = 0;
        let mut struck = 0;
        for seed in 0..RUNS {
            let env = env(seed, true);
            let times = strikes(&env, "here");
            if env.active_sites() == ["here"] {
                active += 1;
                struck += times;
            } else {
                assert_eq!((times, env.active_sites()), (0, vec![]), "seed {seed}");
            }
        }
        let share = f64::from(active) / RUNS as f64;
        assert!((0.22..0.28).contains(&share), "active in {share}");
        let share = f64::from(struck) / f64::from(active * VISITS);
        assert!((0.24..0.26).contains(&share), "struck in {share}");
    }

    #[test]
    fn a_site_more_changes_nothing_about_another() {
        for seed in 0..200 {
            let alone = strikes(&env(seed, true), "here");
            let crowded = env(seed, true);
            strikes(&crowded, "there");
            assert_eq!(strikes(&crowded, "here"), alone, "seed {seed}");
        }
    }

    #[test]
    fn nothing_strikes_without_buggify() {
        for seed in 0..200 {
            let env = env(seed, false);
            assert_eq!(strikes(&env, "here"), 0, "seed {seed}");
            assert!(env.active_sites().is_empty());
        }
    }
}
