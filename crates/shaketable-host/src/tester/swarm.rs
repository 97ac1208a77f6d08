//! Swarm: each seed draws how it is run.
//!
//! A test that is run in one way finds the bugs of that way. If every seed has every fault at full
//! strength, those faults hide what a quieter cluster would show: clients that only wait for a
//! recovery do not meet each other. If no seed has buggify, a range read is never short. So a seed
//! also decides what may go wrong in it:
//!
//! * buggify is on in four seeds of five, the odds of FoundationDB's own test harness;
//! * three seeds in ten run everything else as the test file says;
//! * one in twenty is quiet: no buggify, no fault workload, no broken connection;
//! * the others vary what the file allows. Each fault workload, named by the file or added, may be
//!   left out or be weaker than the file says, never stronger; connections may hold; there may be
//!   fewer or more clients than usual; and some of those with buggify are under stress.
//!
//! Knobs come with buggify, which draws them as FoundationDB does, and are not drawn again here.
//!
//! What the file, a case or the user says about one of these stays as they say. Every draw is made
//! whether or not it is used, from streams of its own that depend on the seed alone: pinning one
//! thing changes no other, and without a swarm a run is what it would be if there were none. A case
//! of the seed draws the same as the seed, whatever streams it gives another seed.

use crate::testfile::TestFile;
use crate::verdict::Swarm;
use shaketable_cluster::faults::FaultWorkload;
use shaketable_kernel::Stream;

/// How often FoundationDB's test harness switches buggify on.
const BUGGIFY: f64 = 0.8;
/// How many of the seeds without buggify are quiet.
const QUIET: f64 = 0.25;
/// How many of the seeds that are not quiet run as the file says.
const AS_THE_FILE_SAYS: f64 = 0.3 / 0.95;
/// How many of the varied seeds with buggify are under stress: a tenth of all.
const STRESS: f64 = 0.2;
/// How many of the varied seeds have another number of clients than FoundationDB would draw.
const OTHER_CLIENTS: f64 = 0.25;
/// That number, at least and below.
const CLIENTS: (u32, u32) = (2, 13);
/// In how many of the varied seeds no connection breaks by chance.
const LASTING_CONNECTIONS: f64 = 0.2;
/// In how many of the varied seeds each fault workload is left out.
const LEFT_OUT: f64 = 0.35;
/// How often a fault workload of a varied seed has its full strength.
const FULL_STRENGTH: f64 = 0.5;

/// What a seed draws about the way it is run.
pub(super) struct Draw {
    seed: u64,
    pub(super) swarm: Swarm,
    pub(super) buggify: bool,
    /// Whether what is rare is frequent, if there is buggify and the file allows faults.
    pub(super) stress: bool,
    /// The number of clients, if it is not as usual.
    pub(super) clients: Option<u32>,
    /// Whether connections break by chance.
    pub(super) connections_break: bool,
}

impl Draw {
    /// What the seed draws, or what holds without a swarm.
    pub(super) fn new(is_on: bool, seed: u64) -> Draw {
        if !is_on {
            return Draw {
                seed,
                swarm: Swarm::Off,
                buggify: false,
                stress: false,
                clients: None,
                connections_break: true,
            };
        }
        let random = Stream::new(seed, "swarm");
        let buggify = random.chance(BUGGIFY);
        let (quiet, as_file_says) = (random.chance(QUIET), random.chance(AS_THE_FILE_SAYS));
        let (stress, lasting) = (random.chance(STRESS), random.chance(LASTING_CONNECTIONS));
        let (other, clients) = (
            random.chance(OTHER_CLIENTS),
            random.range(CLIENTS.0, CLIENTS.1),
        );
        let swarm = match (buggify, quiet, as_file_says) {
            (false, true, _) => Swarm::Quiet,
            (_, _, true) => Swarm::AsTheFileSays,
            _ => Swarm::Varied,
        };
        let is_varied = swarm == Swarm::Varied;
        Draw {
            seed,
            swarm,
            buggify,
            stress: is_varied && stress,
            clients: (is_varied && other).then_some(clients),
            connections_break: swarm != Swarm::Quiet && !(is_varied && lasting),
        }
    }

    /// With which fraction of its strength a fault workload runs, by its name among those of the
    /// run; `None` if it is left out.
    pub(super) fn strength(&self, name: &str) -> Option<f64> {
        match self.swarm {
            Swarm::Off | Swarm::AsTheFileSays => Some(1.0),
            Swarm::Quiet => None,
            Swarm::Varied => {
                let random = Stream::new(self.seed, &format!("swarm {name}"));
                let (left_out, is_full) = (random.chance(LEFT_OUT), random.chance(FULL_STRENGTH));
                let tenths = if is_full { 10 } else { random.range(1_u32, 10) };
                (!left_out).then_some(f64::from(tenths) / 10.0)
            }
        }
    }
}

/// Whether a file lets anything break: it names a fault workload, or lets some be added.
pub(super) fn allows_faults(file: &TestFile) -> bool {
    let mut tests = file.tests.iter().filter(|test| test.use_db);
    tests.any(|test| {
        let mut workloads = test.workloads.iter();
        test.run_failure_workloads
            || workloads.any(|workload| FaultWorkload::NAMES.contains(&workload.name.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: u64 = 20_000;

    fn share(has: impl Fn(&Draw) -> bool) -> f64 {
        let draws = (0..SEEDS).filter(|seed| has(&Draw::new(true, *seed)));
        draws.count() as f64 / SEEDS as f64
    }

    #[test]
    fn seeds_are_run_in_every_way_as_often_as_documented() {
        let near = |found: f64, wanted: f64| {
            assert!((found - wanted).abs() < 0.015, "{found}, not {wanted}");
        };
        near(share(|draw| draw.buggify), 0.8);
        near(share(|draw| draw.swarm == Swarm::AsTheFileSays), 0.3);
        near(share(|draw| draw.swarm == Swarm::Quiet), 0.05);
        near(share(|draw| draw.stress && draw.buggify), 0.1);
        near(share(|draw| draw.clients.is_some()), 0.16);
        let attrition = |draw: &Draw| draw.strength("Attrition");
        near(share(|draw| attrition(draw).is_none()), 0.05 + 0.65 * 0.35);
        near(
            share(|draw| attrition(draw) < Some(1.0)),
            0.05 + 0.65 * (0.35 + 0.65 * 0.5),
        );
    }

    #[test]
    fn a_quiet_seed_has_nothing_that_breaks() {
        for seed in 0..SEEDS {
            let draw = Draw::new(true, seed);
            if draw.swarm == Swarm::Quiet {
                assert!(!draw.buggify && !draw.stress && !draw.connections_break);
                assert_eq!(draw.strength("Rollback"), None);
            }
        }
    }

    #[test]
    fn faults_are_left_out_each_by_itself() {
        let both = share(|draw| {
            let one = draw.strength("Attrition").is_some();
            one != draw.strength("Rollback").is_some()
        });
        assert!((both - 0.65 * 2.0 * 0.35 * 0.65).abs() < 0.015, "{both}");
    }

    #[test]
    fn a_file_without_faults_allows_none() {
        let allows = |text: &str| allows_faults(&TestFile::parse("x".as_ref(), text).unwrap());
        let cycle = "[[test.workload]]\ntestName = 'Cycle'\n";
        let rollback = "[[test.workload]]\ntestName = 'Rollback'\n";
        let calm = "[[test]]\nrunFailureWorkloads = false\n";
        assert!(allows(&format!("[[test]]\n{cycle}")));
        assert!(!allows(&format!("{calm}{cycle}")));
        assert!(allows(&format!("{calm}{cycle}{rollback}")));
    }
}
