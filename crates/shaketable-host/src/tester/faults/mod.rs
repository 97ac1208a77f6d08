//! The fault workloads: what breaks the cluster while the workloads run. One file each.
//!
//! A test file names them beside its own workloads; like those they are created on every client, read their options then, and take part
//! in the start phase, which ends when they have ended. They act on client 0 alone. Unless the file forbids it, a few more are
//! added that the seed chooses ([`injected`]).

mod attrition;
mod change_config;
mod options;
mod random_clogging;
mod rollback;
mod scene;

pub(super) use scene::Scene;

use crate::testfile::{TestSpec, WorkloadSpec};
use shaketable_kernel::{Kernel, Stream};

/// A fault workload with its options.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fault {
    RandomClogging(random_clogging::RandomClogging),
    Attrition(attrition::Attrition),
    Rollback(rollback::Rollback),
    ChangeConfig(change_config::ChangeConfig),
}

impl Fault {
    /// Reads a block of the test file; the reason if an option has no meaning.
    pub(super) fn read(spec: &WorkloadSpec, random: &Stream) -> Result<Fault, String> {
        let options = options::Reader::new(spec);
        Ok(match spec.name.as_str() {
            "RandomClogging" => {
                Fault::RandomClogging(random_clogging::RandomClogging::read(&options)?)
            }
            "Attrition" => Fault::Attrition(attrition::Attrition::read(&options, random)?),
            "Rollback" => Fault::Rollback(rollback::Rollback::read(&options)?),
            "ChangeConfig" => Fault::ChangeConfig(change_config::ChangeConfig::read(&options)?),
            other => return Err(format!("the workload `{other}` is not played here")),
        })
    }

    /// The name FoundationDB gives it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Fault::RandomClogging(_) => "RandomClogging",
            Fault::Attrition(_) => "Attrition",
            Fault::Rollback(_) => "Rollback",
            Fault::ChangeConfig(_) => "ChangeConfig",
        }
    }

    /// Breaks things until it is done.
    pub(super) async fn start(self, scene: Scene) {
        match self {
            Fault::RandomClogging(fault) => fault.start(&scene).await,
            Fault::Attrition(fault) => fault.start(&scene).await,
            Fault::Rollback(fault) => fault.start(&scene).await,
            Fault::ChangeConfig(fault) => fault.start(&scene).await,
        }
    }
}

/// The faults that the seed adds to those a test names, with FoundationDB's odds.
pub(super) fn injected(test: &TestSpec, named: &[Fault], random: &Stream) -> Vec<Fault> {
    // A change of the configuration and added faults could make a cluster that nobody can expect to live.
    let forbidden = !test.run_failure_workloads
        || !test.use_db
        || named
            .iter()
            .any(|fault| matches!(fault, Fault::ChangeConfig(_)))
        || is_disabled(test, "all");
    if forbidden {
        return Vec::new();
    }
    let mut added: Vec<Fault> = Vec::new();
    let count = |added: &[Fault], name: &str| {
        let all = named.iter().chain(added);
        all.filter(|fault| fault.name() == name).count()
    };
    let may_add = |added: &[Fault], name: &str, chance: fn(f64) -> f64| {
        !is_disabled(test, name) && random.chance(chance(count(added, name) as f64))
    };
    while may_add(&added, "Attrition", |n| 1.0 / (2.0 + n)) {
        added.push(Fault::Attrition(attrition::Attrition::injected()));
    }
    while may_add(&added, "RandomClogging", |n| 0.25 / (1.0 + n)) {
        added.push(Fault::RandomClogging(
            random_clogging::RandomClogging::injected(random),
        ));
    }
    while may_add(&added, "Rollback", |n| {
        if n < 3.0 { 0.1 / (1.0 + n) } else { 0.0 }
    }) {
        added.push(Fault::Rollback(rollback::Rollback::injected(random)));
    }
    added
}

fn is_disabled(test: &TestSpec, name: &str) -> bool {
    test.disabled_failure_workloads
        .iter()
        .any(|disabled| disabled == name)
}

/// The moments of a Poisson process: waits until the next, which lies `mean` seconds after the last on average.
pub(super) async fn poisson(kernel: &Kernel, random: &Stream, last: &mut f64, mean: f64) {
    *last += mean * -(1.0 - random.uniform()).ln();
    let wait = *last - kernel.now().as_secs();
    kernel.sleep(wait.max(0.0)).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testfile::TestFile;
    use std::path::Path;

    fn test(text: &str) -> TestSpec {
        let text = format!(
            "[[test]]\ntestTitle = 'x'\n{text}\n[[test.workload]]\ntestName = 'Rollback'\n"
        );
        TestFile::parse(Path::new("x.toml"), &text)
            .unwrap()
            .tests
            .remove(0)
    }

    #[test]
    fn seeds_add_faults_with_the_odds_of_fdbserver() {
        let spec = test("");
        let runs = 4000;
        let kernel = Kernel::simulation(1);
        let random = kernel.stream("injection");
        let attritions = (0..runs).filter(|_| {
            let added = injected(&spec, &[], &random);
            added.iter().any(|fault| fault.name() == "Attrition")
        });
        let share = attritions.count() as f64 / f64::from(runs);
        assert!((0.45..0.55).contains(&share), "{share}");
    }

    #[test]
    fn a_test_can_forbid_added_faults() {
        let kernel = Kernel::simulation(1);
        let random = kernel.stream("injection");
        for forbids in [
            "runFailureWorkloads = false",
            "disabledFailureInjectionWorkloads = 'all'",
            "useDB = false",
        ] {
            let spec = test(forbids);
            assert!(
                (0..200).all(|_| injected(&spec, &[], &random).is_empty()),
                "{forbids}"
            );
        }
        let spec = test("disabledFailureInjectionWorkloads = 'Attrition, Rollback'");
        let names: Vec<&str> = (0..200)
            .flat_map(|_| injected(&spec, &[], &random))
            .map(|fault| fault.name())
            .collect();
        assert!(!names.is_empty() && names.iter().all(|name| *name == "RandomClogging"));
    }

    #[test]
    fn a_change_of_configuration_keeps_added_faults_away() {
        let kernel = Kernel::simulation(1);
        let random = kernel.stream("injection");
        let named = [Fault::ChangeConfig(change_config::ChangeConfig::default())];
        assert!((0..200).all(|_| injected(&test(""), &named, &random).is_empty()));
    }
}
