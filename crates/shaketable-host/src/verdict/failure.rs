//! One thing that went wrong: what kind of failure it is, in which phase of which workload, on
//! which client and when.
//!
//! Two failures of one cause have the same signature, whatever their seeds; that is how a sweep of
//! a thousand seeds reports three causes and not a hundred failures.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A phase of a workload's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Phase {
    /// The cluster boots; no workload exists.
    #[default]
    Boot,
    /// The workload is being created.
    Factory,
    /// `setup`.
    Setup,
    /// `start`.
    Start,
    /// `check`.
    Check,
    /// `getMetrics`.
    Metrics,
    /// `free`, and what comes after.
    Free,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Phase; 7] = [
        Phase::Boot,
        Phase::Factory,
        Phase::Setup,
        Phase::Start,
        Phase::Check,
        Phase::Metrics,
        Phase::Free,
    ];

    /// The phase's name in messages and traces.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Boot => "boot",
            Phase::Factory => "factory",
            Phase::Setup => "setup",
            Phase::Start => "start",
            Phase::Check => "check",
            Phase::Metrics => "metrics",
            Phase::Free => "free",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The way in which something failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// `check` sent `false`.
    CheckFailed,
    /// `setup` or `start` sent `false`.
    PhaseFailed,
    /// A trace event of severity error.
    ErrorTraced,
    /// The workload panicked, and its library reported it.
    Panicked,
    /// The promise of a phase was freed before anything was sent.
    BrokenPromise,
    /// The promise of a phase was used twice, or after it was freed.
    PromiseMisused,
    /// The phase is pending and nothing it could wait for is.
    Deadlock,
    /// Something is always ready to run, and time does not pass.
    Spinning,
    /// The workload kept the database of a phase beyond it.
    DatabaseKept,
    /// The test took longer than its `timeout`.
    TestTimedOut,
    /// `check` took longer than `getCheckTimeout`.
    CheckTimedOut,
    /// The whole run took too long.
    RunTimedOut,
    /// With the fault workloads over, a client makes no progress.
    Stalled,
    /// With a minority broken for good and all other faults over, a phase does not end.
    NotLive,
    /// Transactions did not get through as often as `databasePingDelay` demands.
    DatabaseUnavailable,
    /// An option of the test file was not read.
    OptionsNotRead,
    /// The library did not create the workload.
    NotCreated,
    /// The workload used the interface in a way that is not allowed.
    Misuse,
    /// A decision that the case lists never came up.
    CaseOutdated,
    /// A signal ended the process.
    Crashed,
    /// The workload ended the process.
    Exited,
    /// No progress in real time.
    Hung,
    /// The run was interrupted from outside.
    Interrupted,
    /// Replicas of the same rows differ.
    ReplicasDiffer,
    /// Something in the simulator itself.
    HostFault,
    /// The simulator itself panicked.
    HostPanicked,
}

impl FailureKind {
    /// What happened, as a short phrase.
    pub fn describe(self) -> &'static str {
        match self {
            FailureKind::CheckFailed => "check failed",
            FailureKind::PhaseFailed => "phase failed",
            FailureKind::ErrorTraced => "error traced",
            FailureKind::Panicked => "panicked",
            FailureKind::BrokenPromise => "promise broken",
            FailureKind::PromiseMisused => "promise misused",
            FailureKind::Deadlock => "deadlock",
            FailureKind::Spinning => "spinning",
            FailureKind::DatabaseKept => "database kept",
            FailureKind::TestTimedOut => "test timed out",
            FailureKind::CheckTimedOut => "check timed out",
            FailureKind::RunTimedOut => "run timed out",
            FailureKind::Stalled => "stalled",
            FailureKind::NotLive => "not live",
            FailureKind::DatabaseUnavailable => "database unavailable",
            FailureKind::OptionsNotRead => "options not read",
            FailureKind::NotCreated => "workload not created",
            FailureKind::Misuse => "interface misused",
            FailureKind::CaseOutdated => "case outdated",
            FailureKind::Crashed => "crashed",
            FailureKind::Exited => "ended the process",
            FailureKind::Hung => "hung",
            FailureKind::Interrupted => "interrupted",
            FailureKind::ReplicasDiffer => "replicas differ",
            FailureKind::HostFault => "simulator fault",
            FailureKind::HostPanicked => "simulator panicked",
        }
    }
}

/// One thing that went wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// The test's title.
    pub test: String,
    /// The workload's name.
    pub workload: String,
    /// In which phase.
    pub phase: Phase,
    /// On which client, if on one.
    pub client: Option<u32>,
    /// Simulated seconds.
    pub time: f64,
    /// What is known about it.
    pub message: String,
}

impl Failure {
    /// The failure in words, with the name of its test.
    pub fn words(&self) -> String {
        format!("{}: {}: {}", self.test, self.kind.describe(), self.message)
    }

    /// What two failures have in common that come from one cause: everything but the seed, the
    /// client, the time and the numbers in the message.
    pub fn signature(&self) -> String {
        let text = outline(&self.message);
        format!(
            "{}|{}|{}|{}|{text}",
            self.kind.describe(),
            self.test,
            self.workload,
            self.phase
        )
    }
}

/// A longer message adds data, but no new cause.
const OUTLINE_CHARACTERS_MAX: usize = 100;

/// A message without what varies from run to run: numbers, and what stands in brackets.
fn outline(message: &str) -> String {
    let mut text = String::new();
    let mut depth = 0_usize;
    let mut in_number = false;
    for character in message.chars() {
        match character {
            '[' | '{' => {
                if depth == 0 {
                    text.push_str("[…]");
                }
                depth += 1;
            }
            ']' | '}' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            digit if digit.is_ascii_digit() => {
                if !in_number {
                    text.push('#');
                }
            }
            other => text.push(other),
        }
        in_number = character.is_ascii_digit();
    }
    text.chars().take(OUTLINE_CHARACTERS_MAX).collect()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.kind.describe(), self.phase)?;
        if !self.workload.is_empty() {
            write!(f, " of {}", self.workload)?;
        }
        if let Some(client) = self.client {
            write!(f, ", client {client}")?;
        }
        write!(f, ", at {:.3} s", self.time)?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(message: &str, client: u32, time: f64) -> Failure {
        Failure {
            kind: FailureKind::ErrorTraced,
            test: "Atomic".into(),
            workload: "Atomic".into(),
            phase: Phase::Check,
            client: Some(client),
            time,
            message: message.into(),
        }
    }

    #[test]
    fn failures_of_one_cause_share_a_signature() {
        let first = failure("expected 90, found 87", 1, 10.5);
        let second = failure("expected 7, found 1234", 4, 99.0);
        assert_eq!(first.signature(), second.signature());
        assert_ne!(
            first.signature(),
            failure("lost a row", 1, 10.5).signature()
        );
        assert_eq!(
            failure("item 7 is missing; taken: [(1, 2), (3, 4)]", 0, 1.0).signature(),
            failure("item 12 is missing; taken: [(5, 6)]", 0, 1.0).signature()
        );
    }

    #[test]
    fn a_failure_reads_as_a_sentence() {
        insta::assert_snapshot!(
            failure("expected 90, found 87", 1, 10.5),
            @"error traced in check of Atomic, client 1, at 10.500 s: expected 90, found 87"
        );
    }
}
