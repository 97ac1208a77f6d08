//! What a server is given: its own process, and the instruments of the run.
//!
//! The instruments are the same for all servers of a cluster and no part of what it simulates: the
//! knobs, buggify and stress, whether faults are on, and where to record what commits.
//! FoundationDB's simulator keeps them in global variables. A server reads them and cannot learn
//! from them what another server does.

use crate::history::History;
use crate::keeper::Keeper;
use crate::knobs::{BUGGIFY_CHANCE, Knobs, LiveKnobs};
use crate::process::Process;
use crate::process::exceptions::Quiet;
use crate::proto::Version;
use crate::server::config::ClusterConfig;
use crate::truth::Recoveries;
use shaketable_kernel::{ProcessId, Stream, Time};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The instruments of a run, shared by the servers of one cluster and by what injects faults.
pub struct Instruments {
    knobs: LiveKnobs,
    /// Artificial waits are left out: for a database that is part of an ordinary program.
    instant: bool,
    buggify: bool,
    stress: bool,
    stress_factor: f64,
    rival_chance: f64,
    sites: RefCell<Sites>,
    faults_enabled: Cell<bool>,
    /// Whether no fault happens for the rest of the run.
    faults_ended: Cell<bool>,
    rejections: Stream,
    history: Option<History>,
    keeper: Option<Rc<dyn Keeper>>,
    begins_after: Version,
    quiet: Quiet,
    recoveries: Recoveries,
    /// Until when each disk is stalled.
    stalls: RefCell<BTreeMap<ProcessId, Time>>,
}

struct Site {
    active: bool,
    stream: Stream,
}

/// The sites that were reached. There are few, and a place in the code asks for its own again and
/// again, by the same text at the same address: that is found without comparing names.
#[derive(Default)]
struct Sites {
    all: Vec<(&'static str, Site)>,
    /// By the address of a name, rounded: which site it is the name of, probably.
    guesses: [u8; GUESSES],
}

/// How many addresses of names are told apart.
const GUESSES: usize = 32;

impl Sites {
    /// The site of this name; whether it is active is drawn when it is reached for the first time.
    fn reached(&mut self, name: &'static str, here: &Process) -> &Site {
        let address = name.as_ptr().addr();
        let place = (address >> 5 ^ address) % GUESSES;
        let guess = usize::from(self.guesses[place]);
        let guessed = self.all.get(guess);
        if guessed.is_some_and(|(known, _)| std::ptr::eq(*known, name)) {
            return &self.all[guess].1;
        }
        let known = self.all.iter().position(|(known, _)| *known == name);
        let index = known.unwrap_or_else(|| {
            let stream = here.stream(&format!("buggify {name}"));
            let active = stream.chance(BUGGIFY_CHANCE);
            self.all.push((name, Site { active, stream }));
            self.all.len() - 1
        });
        self.guesses[place] = u8::try_from(index).unwrap_or(0);
        &self.all[index].1
    }
}

impl Instruments {
    /// For a cluster with this configuration. `rejections` decides which requests for a read
    /// version are rejected.
    pub fn new(config: &ClusterConfig, rejections: Stream) -> Rc<Instruments> {
        Rc::new(Instruments {
            knobs: LiveKnobs::new(config.knobs.clone()),
            instant: config.instant,
            buggify: config.buggify,
            stress: config.stress,
            stress_factor: config.stress_factor,
            rival_chance: config.rival_chance,
            sites: RefCell::default(),
            faults_enabled: Cell::new(false),
            faults_ended: Cell::new(false),
            rejections,
            quiet: Quiet::new(),
            recoveries: Recoveries::default(),
            stalls: RefCell::default(),
            history: config.history.clone(),
            keeper: config.keeper.clone(),
            begins_after: config.begins_after,
        })
    }

    /// The current knobs.
    pub fn knobs(&self) -> Rc<Knobs> {
        self.knobs.get()
    }

    /// The knobs as they change over time.
    pub fn live_knobs(&self) -> &LiveKnobs {
        &self.knobs
    }

    /// Whether artificial waits are left out.
    pub fn is_instant(&self) -> bool {
        self.instant
    }

    /// Whether buggify strikes here and now. A site is active in a quarter of the runs, and an
    /// active site strikes a quarter of the times. Each site has its own random stream, so that a
    /// new site changes nothing about the others.
    pub fn buggify(&self, here: &Process, site: &'static str) -> bool {
        self.buggify_with_chance(here, site, BUGGIFY_CHANCE)
    }

    fn buggify_with_chance(&self, here: &Process, site: &'static str, chance: f64) -> bool {
        let stressed = self.is_stressed() && crate::stress::SITES.contains(&site);
        let drawn = (self.buggify || stressed) && self.draw(here, site, chance, stressed);
        here.decide(drawn, || (format!("buggify {site}"), here.name()))
    }

    #[inline]
    fn draw(&self, here: &Process, site: &'static str, chance: f64, stressed: bool) -> bool {
        let mut sites = self.sites.borrow_mut();
        let site = sites.reached(site, here);
        (site.active && self.buggify || stressed) && site.stream.chance(chance)
    }

    #[inline]
    fn is_stressed(&self) -> bool {
        self.stress && self.faults_enabled()
    }

    /// The active sites of this run, among those that were reached.
    pub fn active_sites(&self) -> Vec<&'static str> {
        let sites = self.sites.borrow();
        let active = sites.all.iter().filter(|(_, site)| site.active);
        let mut names: Vec<&'static str> = active.map(|(name, _)| *name).collect();
        names.sort_unstable();
        names
    }

    /// Whether faults are on; FoundationDB's `speedUpSimulation` is the opposite.
    pub fn faults_enabled(&self) -> bool {
        self.faults_enabled.get()
    }

    /// Switches faults on or off.
    pub fn set_faults_enabled(&self, enabled: bool) {
        self.faults_enabled.set(enabled);
    }

    /// Ends all faults for the rest of the run; disks that are stalled work again.
    pub fn end_faults(&self) {
        self.faults_ended.set(true);
        self.stalls.borrow_mut().clear();
    }

    /// Whether all faults have ended for the rest of the run.
    pub fn have_faults_ended(&self) -> bool {
        self.faults_ended.get()
    }

    /// Stalls the disk of a process until that moment.
    pub fn stall_disk(&self, process: ProcessId, until: Time) {
        self.stalls.borrow_mut().insert(process, until);
    }
}

/// What a server on one process is given. Cheap to clone.
#[derive(Clone)]
pub struct Env {
    process: Process,
    instruments: Rc<Instruments>,
}

impl Env {
    /// For a server on a process.
    pub fn new(process: Process, instruments: &Rc<Instruments>) -> Env {
        Env {
            process,
            instruments: instruments.clone(),
        }
    }

    /// The process it runs on.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The current knobs.
    pub fn knobs(&self) -> Rc<Knobs> {
        self.instruments.knobs()
    }

    /// The disk outside of the simulation, if there is one.
    pub fn keeper(&self) -> Option<&Rc<dyn Keeper>> {
        self.instruments.keeper.as_ref()
    }

    /// All versions of the cluster are higher than this one.
    pub fn begins_after(&self) -> Version {
        self.instruments.begins_after
    }

    /// Where to record what commits, if a checker is attached.
    pub fn history(&self) -> Option<&History> {
        self.instruments.history.as_ref()
    }

    /// The recoveries, for those who ask what became of a commit.
    pub(crate) fn recoveries(&self) -> &Recoveries {
        &self.instruments.recoveries
    }

    /// Whether artificial waits are left out.
    pub fn is_instant(&self) -> bool {
        self.instruments.is_instant()
    }

    /// Whether buggify strikes here and now; see [`Instruments::buggify`].
    pub fn buggify(&self, site: &'static str) -> bool {
        self.instruments.buggify(&self.process, site)
    }

    /// The same, with other odds that an active site strikes.
    pub fn buggify_with_chance(&self, site: &'static str, chance: f64) -> bool {
        self.instruments
            .buggify_with_chance(&self.process, site, chance)
    }

    /// Whether rare but legal outcomes are frequent.
    pub fn is_stressed(&self) -> bool {
        self.instruments.is_stressed()
    }

    /// Whether stress strikes here and now, with this chance.
    #[inline]
    pub fn stresses(&self, site: &'static str, chance: f64) -> bool {
        self.can_stress() && {
            let drawn = self.draws_stress(site, chance);
            let name = || (format!("stress {site}"), self.process.name());
            self.process.decide(drawn, name)
        }
    }

    /// The same, for what is lost with the connection to another process: it is counted there.
    #[inline]
    pub fn stresses_towards(&self, lost: &'static str, chance: f64, other: ProcessId) -> bool {
        self.can_stress() && {
            let drawn = self.draws_stress(lost, chance);
            let other = || self.process.describe(other).name.clone();
            self.process
                .decide(drawn, || (format!("{lost} is lost"), other()))
        }
    }

    /// The same, for something that lasts: returns for how many seconds, if it strikes.
    #[inline]
    pub fn stresses_for(&self, site: &'static str, (chance, longest): (f64, f64)) -> Option<f64> {
        if !self.can_stress() {
            return None;
        }
        let length = || self.process.stream(&format!("stress {site}")).uniform();
        let strikes = self.draws_stress(site, chance);
        let drawn = strikes.then(|| longest * length());
        let name = || (format!("stress {site}"), self.process.name());
        self.process.decide_seconds(drawn, longest, name)
    }

    /// Whether the commit that has just arrived meets a rival.
    #[inline]
    pub fn meets_rival(&self) -> bool {
        let (chance, factor) = (
            self.instruments.rival_chance,
            self.instruments.stress_factor,
        );
        chance > 0.0 && self.faults_enabled() && {
            let stream = self.process.stream("rival");
            stream.chance((chance * factor).min(1.0))
        }
    }

    /// Whether stress can strike at all, by chance or because it is forced.
    #[inline]
    fn can_stress(&self) -> bool {
        self.is_stressed() || self.process.names_events()
    }

    #[cold]
    fn draws_stress(&self, site: &'static str, chance: f64) -> bool {
        self.is_stressed() && {
            let stream = self.process.stream(&format!("stress {site}"));
            stream.chance((chance * self.instruments.stress_factor).min(1.0))
        }
    }

    /// Whether faults are on; FoundationDB's `speedUpSimulation` is the opposite.
    pub fn faults_enabled(&self) -> bool {
        self.instruments.faults_enabled()
    }

    /// Returns how much of the time since `then` passed with no commit batch under way; see
    /// [`Quiet`].
    pub fn quiet_seconds_since(&self, then: Time) -> f64 {
        self.instruments.quiet.seconds_since(then, &self.process)
    }

    /// Called by the sequencer: records whether a commit batch is under way; see [`Quiet`].
    pub fn note_batches(&self, under_way: bool) {
        self.instruments
            .quiet
            .note_batches(under_way, &self.process);
    }

    /// Takes as long as the disk of the process needs to write and to sync; the write takes
    /// `writing` seconds.
    pub async fn sync_disk(&self, writing: f64) {
        if self.is_instant() {
            return;
        }
        let here = &self.process;
        let stalled = self.instruments.stalls.borrow().get(&here.id()).copied();
        let stalled = stalled.map_or(0.0, |until| until.since(here.now()));
        let slow = if self.buggify("disk is slow to sync") {
            here.stream("slow disk").uniform()
        } else {
            0.0
        };
        let wait = stalled.max(writing) + slow;
        if wait > 0.0 {
            here.sleep(wait).await;
        }
        here.disk().sync().await;
    }

    /// Whether a GRV proxy rejects this request: one in a hundred while faults are on.
    pub fn rejects_read_version(&self) -> bool {
        let drawn = self.faults_enabled() && self.instruments.rejections.chance(0.01);
        let name = || ("read version is rejected".into(), self.process.name());
        self.process.decide(drawn, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shaketable_kernel::{Kernel, ProcessSpec};

    const RUNS: u64 = 2_000;
    const VISITS: u32 = 40;

    fn env(seed: u64, buggify: bool) -> Env {
        let config = ClusterConfig {
            buggify,
            ..ClusterConfig::single_process(false)
        };
        let kernel = Kernel::simulation(seed);
        let process = kernel.add_process(ProcessSpec::default());
        let instruments = Instruments::new(&config, kernel.stream("grv rejection"));
        Env::new(Process::new(&kernel, process), &instruments)
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
            if env.instruments.active_sites() == ["here"] {
                active += 1;
                struck += times;
            } else {
                assert_eq!(
                    (times, env.instruments.active_sites()),
                    (0, vec![]),
                    "seed {seed}"
                );
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
            assert!(env.instruments.active_sites().is_empty());
        }
    }
}
