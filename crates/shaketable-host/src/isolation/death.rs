//! The verdict about a process that died before it could report.

use super::beacon::{Beacon, Position};
use crate::plan::{Plan, Recording};
use crate::testfile::WorkloadSpec;
use crate::verdict::{Failure, FailureKind, Outcome, Phase};
use std::time::Duration;

/// How a process ended that did not report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Death {
    /// A signal killed it.
    Signal {
        /// The signal's number.
        number: i32,
        /// Its name.
        name: &'static str,
        /// What is known about the reason; may be empty.
        reason: String,
    },
    /// Code under test called `exit`, with this status.
    Exited(i32),
    /// It stopped itself, for this reason.
    Refused(String),
    /// The simulator itself panicked: where, and with which message.
    Panicked(String),
    /// It took longer than allowed and was killed.
    Hung,
}

/// The outcome of a seed whose process died, and left this beacon. What had failed before comes
/// first: it is more likely to be the cause than the end is.
pub(super) fn outcome(
    death: &Death,
    beacon: &Beacon,
    plan: &Plan,
    seed: u64,
    recording: &Recording,
    time_limit: Duration,
) -> Outcome {
    let Position {
        test,
        workload,
        client,
        phase,
        time,
    } = beacon.position();
    let test = &plan.file.tests[test.min(plan.file.tests.len() - 1)];
    let workload = test.workloads.get(workload);
    let (kind, message) = describe(death, phase, time_limit);
    let mut failures = beacon.failures();
    // Being asked to end is no cause of its own.
    failures.retain(|failure| failure.kind != FailureKind::Interrupted);
    failures.push(Failure {
        kind,
        test: test.title.clone(),
        workload: workload.map_or("", WorkloadSpec::display_name).to_owned(),
        phase,
        client,
        time,
        message,
    });
    Outcome {
        seed,
        failures,
        simulated_seconds: time,
        trace: recording.trace_path(),
        ..Outcome::default()
    }
}

/// What a record of the same run, up to the moment of the death, adds to the outcome.
pub(super) fn add_record(outcome: &mut Outcome, recorded: Outcome) {
    outcome.record = recorded.record;
    outcome.cause = recorded.cause;
    outcome.story = recorded.story;
    outcome.drawn = recorded.drawn;
    outcome.faults = recorded.faults;
    outcome.faults_around = recorded.faults_around;
}

/// The outcome of a seed that took too long and reported when it was asked to end.
pub(super) fn too_late(mut outcome: Outcome, time_limit: Duration) -> Outcome {
    for failure in &mut outcome.failures {
        if failure.kind == FailureKind::Interrupted {
            failure.kind = FailureKind::Hung;
            failure.message = format!(
                "no end after {} s of real time: the simulation continues, but its clients do not finish",
                time_limit.as_secs_f64()
            );
        }
    }
    outcome
}

fn describe(death: &Death, phase: Phase, time_limit: Duration) -> (FailureKind, String) {
    match death {
        Death::Signal {
            number,
            name,
            reason,
        } => {
            let mut message = format!("the process was ended by {name} ({number})");
            if !reason.is_empty() {
                message.push_str(&format!(": {reason}"));
            }
            if phase == Phase::Factory {
                message.push_str(
                    "; a crash this early is often a library built for another workload interface (FoundationDB 7.4.0 to 7.4.5)",
                );
            }
            (FailureKind::Crashed, message)
        }
        Death::Exited(code) => (
            FailureKind::Exited,
            format!("the workload ended the process with status {code}"),
        ),
        Death::Refused(reason) => (FailureKind::Misuse, reason.clone()),
        Death::Panicked(words) => (
            FailureKind::HostPanicked,
            format!("please report this bug in Shaketable: {words}"),
        ),
        Death::Hung => (
            FailureKind::Hung,
            format!(
                "no end after {} s of real time: the workload loops or blocks without letting the simulation continue",
                time_limit.as_secs_f64()
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn segmentation_fault() -> Death {
        Death::Signal {
            number: 11,
            name: "SIGSEGV",
            reason: String::new(),
        }
    }

    #[test]
    fn each_way_to_die_has_its_own_words() {
        let words: Vec<String> = [
            segmentation_fault(),
            Death::Exited(3),
            Death::Refused("`now` was called from a thread".into()),
            Death::Panicked("crates/shaketable-kernel/src/wheel.rs:95:13: slot is empty".into()),
            Death::Hung,
        ]
        .iter()
        .map(|death| {
            let (kind, message) = describe(death, Phase::Start, LIMIT);
            format!("{}: {message}", kind.describe())
        })
        .collect();
        insta::assert_snapshot!(words.join("\n"), @r"
        crashed: the process was ended by SIGSEGV (11)
        ended the process: the workload ended the process with status 3
        interface misused: `now` was called from a thread
        simulator panicked: please report this bug in Shaketable: crates/shaketable-kernel/src/wheel.rs:95:13: slot is empty
        hung: no end after 60 s of real time: the workload loops or blocks without letting the simulation continue
        ");
    }

    #[test]
    fn a_crash_in_the_factory_suggests_the_older_interface() {
        let (_, message) = describe(&segmentation_fault(), Phase::Factory, LIMIT);
        assert!(message.contains("7.4.0 to 7.4.5"), "{message}");
    }
}
