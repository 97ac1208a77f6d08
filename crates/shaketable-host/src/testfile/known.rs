//! The names a test file may use.
//!
//! Two lists are the tables of FoundationDB's tester: the keys of `[configuration]` with their
//! types (and two more, `swarm` and `liveness`, which fdbserver does not know), and the keys of
//! `[[test]]`. The fault workloads themselves know which options they have. Two more lists are only
//! names, as FoundationDB 7.4 defines them: its knobs and its workloads. A knob that the miniature
//! cluster does not have is accepted, because it cannot change what a client sees here; a workload
//! that is not implemented here is refused, because a test without it would be another test.

use crate::tester::{CYCLE, CycleOptions};
use shaketable_cluster::faults::{BadOption, FaultWorkload, Options};
use shaketable_kernel::Stream;

/// The type of a key in `[configuration]`, which FoundationDB checks strictly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer,
    /// A number with a point.
    Float,
    /// Text.
    Text,
    /// A list.
    Array,
    /// Any value: only its presence counts.
    Anything,
}

impl Kind {
    /// The type's name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Boolean => "a boolean",
            Kind::Integer => "an integer",
            Kind::Float => "a float",
            Kind::Text => "a string",
            Kind::Array => "an array",
            Kind::Anything => "any value",
        }
    }
}

/// Keys of `[configuration]`.
pub const CONFIGURATION: &[(&str, Kind)] = &[
    ("testClass", Kind::Text),
    ("testPriority", Kind::Float),
    ("buggify", Kind::Boolean),
    ("swarm", Kind::Boolean),
    ("liveness", Kind::Integer),
    ("faultInjection", Kind::Boolean),
    ("StderrSeverity", Kind::Integer),
    ("ClientInfoLogging", Kind::Anything),
    ("restartInfoLocation", Kind::Anything),
    ("simpleConfig", Kind::Boolean),
    ("singleRegion", Kind::Boolean),
    ("generateFearless", Kind::Boolean),
    ("minimumRegions", Kind::Integer),
    ("minimumReplication", Kind::Integer),
    ("datacenters", Kind::Integer),
    ("machineCount", Kind::Integer),
    ("asanMachineCount", Kind::Integer),
    ("processesPerMachine", Kind::Integer),
    ("coordinators", Kind::Integer),
    ("desiredTLogCount", Kind::Integer),
    ("remoteDesiredTLogCount", Kind::Integer),
    ("commitProxyCount", Kind::Integer),
    ("grvProxyCount", Kind::Integer),
    ("resolverCount", Kind::Integer),
    ("logAntiQuorum", Kind::Integer),
    ("statelessProcessClassesPerDC", Kind::Integer),
    ("extraMachineCountDC", Kind::Integer),
    ("extraStorageMachineCountPerDC", Kind::Integer),
    ("storageEngineType", Kind::Integer),
    ("storageEngineExcludeTypes", Kind::Array),
    ("config", Kind::Text),
    ("remoteConfig", Kind::Text),
    ("maxTLogVersion", Kind::Integer),
    ("disableTss", Kind::Boolean),
    ("disableHostname", Kind::Boolean),
    ("disableRemoteKVS", Kind::Boolean),
    ("configureLocked", Kind::Boolean),
    ("extraDB", Kind::Integer),
    ("extraDatabaseMode", Kind::Text),
    ("extraDatabaseCount", Kind::Integer),
    ("extraDatabaseBackupAgents", Kind::Boolean),
    ("startIncompatibleProcess", Kind::Boolean),
    ("randomlyRenameZoneId", Kind::Boolean),
    ("injectTargetedSSRestart", Kind::Boolean),
    ("injectSSDelay", Kind::Boolean),
    ("simHTTPServerEnabled", Kind::Boolean),
    ("blobGranulesEnabled", Kind::Boolean),
    ("encryptModes", Kind::Array),
    ("tenantModes", Kind::Array),
    ("allowDefaultTenant", Kind::Boolean),
    ("allowCreatingTenants", Kind::Boolean),
    ("allowDisablingTenants", Kind::Boolean),
    ("defaultTenant", Kind::Text),
    ("configDB", Kind::Text),
    ("longRunningTest", Kind::Boolean),
    ("simulationNormalRunTestsTimeoutSeconds", Kind::Integer),
    ("simulationBuggifyRunTestsTimeoutSeconds", Kind::Integer),
];

/// Keys that stand at the root of many of FoundationDB's own test files: for its harness, which
/// chooses tests; its tester ignores them.
pub const ROOT: &[&str] = &["testClass", "testPriority"];

/// Keys of `[[test]]`.
pub const TEST: &[&str] = &[
    "testTitle",
    "timeout",
    "useDB",
    "databasePingDelay",
    "startDelay",
    "runSetup",
    "checkOnly",
    "clearAfterTest",
    "dumpAfterTest",
    "runConsistencyCheck",
    "runConsistencyCheckOnCache",
    "runConsistencyCheckOnTSS",
    "maxDDRunTime",
    "waitForQuiescence",
    "waitForQuiescenceBegin",
    "waitForQuiescenceEnd",
    "simCheckRelocationDuration",
    "connectionFailuresDisableDuration",
    "simBackupAgents",
    "restorePerpetualWiggleSetting",
    "runFailureWorkloads",
    "disabledFailureInjectionWorkloads",
    "knobs",
    "workload",
];

/// The workload that runs a shared library.
pub const EXTERNAL: &str = "External";

/// Options that the host reads from an `External` block; all others belong to the library.
pub const EXTERNAL_OPTIONS: &[&str] = &["useCAPI", "libraryName", "libraryPath", "workloadName"];

/// Options every workload has.
pub const COMMON_OPTIONS: &[&str] = &["testName", "runSetup"];

/// Lets a built-in workload read its options; returns the first that it cannot read, if there is
/// one. `None` if there is no such workload.
pub fn read_options(
    name: &str,
    option: &mut dyn FnMut(&str) -> Option<String>,
) -> Option<Result<(), BadOption>> {
    let mut options = Options(option);
    if name == CYCLE {
        return Some(CycleOptions::read(&mut options, 1).map(drop));
    }
    // What it would draw does not matter.
    let random = Stream::new(0, "options");
    FaultWorkload::read(name, &mut options, &random).map(|read| read.map(drop))
}

/// The options of such a workload, by asking it which ones it reads.
pub fn options_of(name: &str) -> Option<Vec<String>> {
    let mut asked = Vec::new();
    let mut ask = |option: &str| {
        asked.push(option.to_owned());
        None
    };
    let _ = read_options(name, &mut ask)?;
    Some(asked)
}

/// Names of FoundationDB's knobs, in lower case.
pub fn knobs() -> impl Iterator<Item = &'static str> {
    include_str!("names/knobs.txt").lines()
}

/// Names of all workloads FoundationDB has.
pub fn workloads() -> impl Iterator<Item = &'static str> {
    include_str!("names/workloads.txt").lines()
}

/// The names a test file may give as `testName` here.
pub fn available() -> impl Iterator<Item = &'static str> {
    [EXTERNAL, CYCLE]
        .into_iter()
        .chain(FaultWorkload::NAMES.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_of_names_are_whole() {
        assert!(knobs().any(|knob| knob == "max_write_transaction_life_versions"));
        assert!(knobs().all(|knob| knob == knob.to_lowercase() && !knob.is_empty()));
        for name in available() {
            assert!(workloads().any(|known| known == name), "{name}");
        }
    }
}
