//! A simulation as the simulator knows it: the test file that would describe it, and the settings.
//!
//! There is one way into the simulator, with or without a file: what is said in Rust means what the
//! same words mean in a test file, and a workload reads its options in the same way.

use super::Simulation;
use shaketable_abi::v1::Factory;
use shaketable_host::library::Library;
use shaketable_host::plan::{Plan, Settings};
use shaketable_host::testfile::{Configuration, EXTERNAL, TestFile, TestSpec, WorkloadSpec};
use std::iter;

impl Simulation {
    pub(super) fn plan(&self, workload: &str, factory: Factory) -> Plan {
        // SAFETY: `factory` is one of `run.rs` or `body.rs`, which serve the External-workload ABI.
        let library = unsafe { Library::in_process(&self.name, factory) };
        Plan::in_process(self.test_file(workload), library)
    }

    /// The simulation as a test file would describe it.
    fn test_file(&self, workload: &str) -> TestFile {
        let mut external = WorkloadSpec::new(EXTERNAL)
            .with("libraryName", "this program")
            .with("workloadName", workload);
        for (name, value) in &self.options {
            assert!(
                external.option(name).is_none(),
                "the option `{name}` of a Simulation is given twice, or has a name of its own meaning"
            );
            external = external.with(name, value.as_str());
        }
        if self.faults.crashes_max() > 0 {
            external = external.with("shaketableCrashes", i64::from(self.faults.crashes_max()));
        }
        let test = TestSpec {
            title: self.name.clone(),
            run_failure_workloads: self.faults.are_drawn(),
            // A simulated connection breaks now and then, also where no fault was asked for.
            connection_failures_disable_seconds: match self.faults.are_any() {
                true => 0.0,
                false => 10_000.0,
            },
            workloads: iter::once(external)
                .chain(self.faults.workloads())
                .collect(),
            ..TestSpec::default()
        };
        TestFile {
            path: "(a simulation in cargo test)".into(),
            configuration: Configuration::default(),
            knobs: Vec::new(),
            tests: vec![test],
            case: None,
        }
    }

    pub(super) fn settings(&self) -> Settings {
        Settings {
            swarm: Some(self.swarm),
            buggify: self.faults.is_buggified(),
            fault_injection: Some(self.faults.are_any()),
            stress: self.faults.are_stressed(),
            clients: self.clients,
            stalled_after: self.stalled_after,
            coverage: self.count_outcomes,
            liveness: self.faults.liveness_limit(),
            ..Settings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::Faults;

    #[test]
    fn any_text_reaches_the_workload_as_it_is() {
        let text = "a \"quoted\" \\ back\nslash\u{7f}€";
        let simulation = Simulation::new()
            .named(text)
            .option(text, text)
            .faults(Faults::default());
        let file = simulation.test_file(text);
        assert_eq!(file.tests[0].title, text);
        let workload = &file.tests[0].workloads[0];
        assert_eq!(workload.option("workloadName"), Some(text));
        assert_eq!(workload.option(text), Some(text));
    }

    #[test]
    #[should_panic(expected = "the option `rounds` of a Simulation is given twice")]
    fn an_option_has_one_value() {
        let simulation = Simulation::new().option("rounds", 1).option("rounds", 2);
        simulation.test_file("any");
    }

    #[test]
    fn faults_are_those_of_a_test_file() {
        let faults = Faults::default().configuration_changes(true).seconds(0.1);
        let [test] = &Simulation::new().faults(faults).test_file("any").tests[..] else {
            panic!("one test")
        };
        let text = "[[test]]
            [[test.workload]]
            testName = 'RandomClogging'
            testDuration = 0.1
            swizzle = 1
            [[test.workload]]
            testName = 'Attrition'
            testDuration = 0.1
            machinesToKill = 10
            machinesToLeave = 3
            reboot = true
            [[test.workload]]
            testName = 'Rollback'
            testDuration = 0.1
            [[test.workload]]
            testName = 'ChangeConfig'
            maxDelayBeforeChange = 0.1
            coordinators = 'auto'";
        let written = TestFile::parse("x".as_ref(), text).unwrap();
        let plain = |workload: &WorkloadSpec| {
            let options = workload.options.iter();
            let options = options.map(|option| (option.key.clone(), option.text.clone()));
            (workload.name.clone(), options.collect::<Vec<_>>())
        };
        let said: Vec<_> = test.workloads[1..].iter().map(plain).collect();
        let written: Vec<_> = written.tests[0].workloads.iter().map(plain).collect();
        assert_eq!(said, written);
    }

    #[test]
    fn connections_break_by_chance_only_where_faults_are_asked_for() {
        let lasts = |faults: Faults| {
            let file = Simulation::new().faults(faults).test_file("any");
            file.tests[0].connection_failures_disable_seconds > 0.0
        };
        assert!(lasts(Faults::none()));
        assert!(lasts(Faults::none().buggify(true)));
        assert!(!lasts(Faults::default()));
        assert!(!lasts(Faults::drawn()));
    }
}
