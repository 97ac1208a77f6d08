//! Copies of a running simulation: a test file with clients, faults and buggify, copied in its
//! middle.

use shaketable_host::isolation::{CopyCost, Isolation};
use shaketable_host::plan::{Plan, Settings};
use shaketable_host::testfile::TestFile;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Clients of the host itself, because a library would need the program around it; they do what
/// those of `examples/cycle` do.
const RING: &str = "
[[test]]
testTitle = 'Ring'
[[test.workload]]
testName = 'Cycle'
nodeCount = 1000
transactionsPerSecond = 200.0
testDuration = 120.0
[[test.workload]]
testName = 'RandomClogging'
testDuration = 120.0
[[test.workload]]
testName = 'Attrition'
testDuration = 120.0
machinesToKill = 10
machinesToLeave = 3
reboot = true
killDc = false
";

/// A simulation that can be copied.
pub struct Copies {
    isolation: Isolation,
    plan: Plan,
    settings: Settings,
}

impl Copies {
    /// Prepares this process, which must have one thread.
    pub fn prepare() -> Copies {
        let file = TestFile::parse(Path::new("ring.toml"), RING).expect("a test file");
        let isolation = Isolation::prepare(Duration::from_secs(60));
        Copies {
            isolation: isolation.expect("a process that can fork"),
            plan: Plan::load(file, &BTreeMap::new()).expect("it needs no library"),
            settings: Settings {
                swarm: Some(false),
                buggify: Some(true),
                ..Settings::default()
            },
        }
    }

    /// What each of this many copies cost, at this simulated second.
    pub fn measure(&self, moment: f64, copies: usize) -> Vec<CopyCost> {
        let Copies {
            isolation,
            plan,
            settings,
        } = self;
        isolation.measure_copies(plan, settings, 3, moment, copies)
    }
}
