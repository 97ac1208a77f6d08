//! The reference of test files: what may stand in one, as a page.
//!
//! The page is made from the tables that files are read by, so it cannot list what is refused or
//! leave out what is accepted. Whether a key has an effect is found out by setting it. What a key
//! means is the only thing that is written here; a test sees that no key is without it, and that
//! `docs/reference.md` is this page.

use super::known::{self, Kind};
use super::parse::set;
use super::{Configuration, TestFile, TestSpec};
use shaketable_cluster::faults::FaultWorkload;
use shaketable_cluster::knobs::Knobs;
use std::fmt::{self, Write};
use std::path::Path;
use toml_edit::Value;

/// What keys that have an effect mean, in `[configuration]` and in `[[test]]`.
const MEANINGS: &[(&str, &str)] = &[
    (
        "buggify",
        "whether the cluster misbehaves in rare but legal ways; drawn if it is not said",
    ),
    (
        "swarm",
        "`false`: every seed is run as the file says, and draws nothing about how; not known to fdbserver",
    ),
    (
        "liveness",
        "a minority is broken for good from a moment on, and each phase must end within this many simulated seconds; 0 is off; not known to fdbserver",
    ),
    ("faultInjection", "whether machines and disks may fail"),
    ("simpleConfig", "a small cluster with one replica"),
    ("generateFearless", "whether there are two regions"),
    ("singleRegion", "`true`: one region"),
    ("minimumRegions", "2: two regions"),
    ("minimumReplication", "the smallest number of replicas"),
    ("datacenters", "the number of datacenters"),
    ("machineCount", "the number of machines"),
    ("processesPerMachine", "processes on each machine"),
    ("coordinators", "the number of coordinators"),
    ("desiredTLogCount", "the number of logs"),
    ("commitProxyCount", "the number of commit proxies"),
    ("grvProxyCount", "the number of GRV proxies"),
    ("resolverCount", "the number of resolvers"),
    (
        "config",
        "a configuration as `fdbcli` takes it, such as `triple`",
    ),
    ("longRunningTest", "`true`: the whole run has no limit"),
    (
        "simulationNormalRunTestsTimeoutSeconds",
        "the limit for the whole run, in simulated seconds",
    ),
    (
        "simulationBuggifyRunTestsTimeoutSeconds",
        "the same with buggify",
    ),
    ("testTitle", "the name of the test"),
    ("timeout", "how many simulated seconds the test may take"),
    ("useDB", "whether the test has a database"),
    ("runSetup", "whether `setup` runs"),
    ("checkOnly", "whether nothing but `check` runs"),
    (
        "clearAfterTest",
        "whether the database is emptied afterwards",
    ),
    (
        "runFailureWorkloads",
        "whether fault workloads may be added that the file does not name",
    ),
    (
        "disabledFailureInjectionWorkloads",
        "fault workloads that are not added, separated by commas",
    ),
    (
        "databasePingDelay",
        "how often a transaction must get through, in simulated seconds",
    ),
    (
        "connectionFailuresDisableDuration",
        "how long connections do not break, in simulated seconds",
    ),
    ("knobs", "`[[test.knobs]]`: knobs for this test"),
    (
        "workload",
        "`[[test.workload]]`: a workload, with its `testName` and its options",
    ),
];

/// What workloads do that are part of the host.
const WORKLOADS: &[(&str, &str)] = &[
    (
        known::EXTERNAL,
        "runs a workload of a library; all options but these are its own",
    ),
    (
        "Cycle",
        "swaps the links of a ring, and checks that it stays one",
    ),
    ("Attrition", "machines die, or reboot, one after another"),
    (
        "ChangeConfig",
        "the configuration of the database changes while it is in use",
    ),
    (
        "ClogSingleConnection",
        "two addresses lose contact with one another, once",
    ),
    (
        "ClogTlog",
        "one log is cut off until the cluster has recovered without it",
    ),
    ("DiskFailureInjection", "disks become slow"),
    (
        "RandomClogging",
        "messages to some addresses are delayed for a while",
    ),
    (
        "RandomMoveKeys",
        "ranges of keys move between storage servers",
    ),
    (
        "RandomRangeLock",
        "ranges of keys are locked against writes; writers get error 1242",
    ),
    ("Rollback", "what one log alone has is undone by a recovery"),
    ("TargetedKill", "the process that plays a given role dies"),
    ("TriggerRecoveryLoop", "recoveries one after another"),
];

pub(super) fn markdown() -> String {
    let mut page = String::new();
    write_page(&mut page).expect("a string takes any text");
    page
}

fn write_page(page: &mut String) -> fmt::Result {
    page.push_str(
        "# Test files, knobs and workloads\n\n\
         <!-- `shaketable reference` prints this page. -->\n\n\
         Everything that may stand in a test file, as `shaketable` reads it. What is not here is an\n\
         error, at its line. [Running simulations](running.md) says how to run a file, and\n\
         [Faults](guide/3-faults.md) what the fault workloads are good for.\n\n\
         ## `[configuration]`\n\n\
         What is not said is drawn by the seed.\n\n\
         | key | value | |\n|---|---|---|\n",
    );
    let (live, idle): (Vec<_>, Vec<_>) = known::CONFIGURATION
        .iter()
        .partition(|(name, kind)| shapes_the_run(name, *kind));
    for (name, kind) in live {
        writeln!(page, "| `{name}` | {} | {} |", kind.name(), meaning(name))?;
    }
    let idle = idle.iter().map(|(name, _)| *name);
    without_effect(page, "keys", idle)?;

    page.push_str("\n## `[[test]]`\n\n| key | |\n|---|---|\n");
    let is_live = |name: &&&str| ["knobs", "workload"].contains(*name) || shapes_the_test(name);
    for name in known::TEST.iter().filter(is_live) {
        writeln!(page, "| `{name}` | {} |", meaning(name))?;
    }
    let idle = known::TEST.iter().filter(|name| !is_live(name)).copied();
    without_effect(page, "keys", idle)?;

    page.push_str(
        "\n## `[[test.workload]]`\n\n\
         `testName` names the workload, and `runSetup = false` leaves its `setup` out. The options of\n\
         fault workloads are FoundationDB's.\n\n\
         | workload | | options |\n|---|---|---|\n",
    );
    for name in known::available() {
        let what = WORKLOADS.iter().find(|(known, _)| *known == name);
        let what = what.map_or("", |(_, what)| what);
        let mut options = options(name);
        if FaultWorkload::NAMES.contains(&name) {
            options.sort();
        }
        writeln!(page, "| `{name}` | {what} | {} |", options.join(", "))?;
    }

    page.push_str(
        "\n## `[[knobs]]` and `[[test.knobs]]`\n\n\
         FoundationDB's knobs, by their names. With buggify, those that are marked take another value\n\
         in some runs.\n\n\
         | knob | usual value | buggified | |\n|---|---:|---|---|\n",
    );
    let knobs = Knobs::all();
    for knob in &knobs {
        let buggified = if knob.is_buggified { "yes" } else { "" };
        let meaning = knob.meaning.trim();
        let (name, default) = (knob.name, &knob.default);
        writeln!(page, "| `{name}` | {default} | {buggified} | {meaning} |")?;
    }
    let others = known::knobs().filter(|name| knobs.iter().all(|knob| knob.name != *name));
    writeln!(
        page,
        "\nAll {} other knobs of FoundationDB 7.4 are accepted and change nothing: a client could not\n\
         notice them here.",
        others.count()
    )
}

fn without_effect<'a>(
    page: &mut String,
    what: &str,
    names: impl Iterator<Item = &'a str>,
) -> fmt::Result {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    writeln!(
        page,
        "\nThese {what} of FoundationDB are accepted and change nothing here: {}.",
        names.join(", ")
    )
}

fn meaning(name: &str) -> &'static str {
    let known = MEANINGS.iter().find(|(known, _)| *known == name);
    known.map_or("", |(_, meaning)| meaning)
}

/// Whether a key of `[configuration]` can change anything.
fn shapes_the_run(name: &str, kind: Kind) -> bool {
    let values: Vec<Value> = match kind {
        Kind::Boolean | Kind::Anything => vec![true.into(), false.into()],
        Kind::Integer => vec![2.into()],
        Kind::Float => vec![0.5.into()],
        Kind::Text => vec!["triple".into()],
        Kind::Array => vec![Value::Array(["optional"].into_iter().collect())],
    };
    values.iter().any(|value| {
        let mut configuration = Configuration::default();
        set(&mut configuration, name, value);
        configuration != Configuration::default()
    })
}

/// Whether a key of `[[test]]` can change anything.
fn shapes_the_test(name: &str) -> bool {
    let test = |setting: &str| -> Option<TestSpec> {
        let text = format!("[[test]]\n{setting}\n[[test.workload]]\ntestName = 'Cycle'\n");
        let file = TestFile::parse(Path::new("a test file"), &text).ok()?;
        let mut test = file.tests.into_iter().next()?;
        // Where it stands does not matter.
        for workload in &mut test.workloads {
            workload.line = 0;
        }
        Some(test)
    };
    let plain = test("");
    let values = ["true", "false", "2", "'text'"].into_iter();
    let mut tests = values.filter_map(|value| test(&format!("{name} = {value}")));
    tests.any(|test| Some(test) != plain)
}

/// The options of a workload, each with what it wants.
fn options(workload: &str) -> Vec<String> {
    if workload == known::EXTERNAL {
        let names = known::EXTERNAL_OPTIONS.iter();
        return names.map(|name| format!("`{name}`")).collect();
    }
    let names = known::options_of(workload).unwrap_or_default();
    let describe = |name: &String| {
        // What it says about a text that is nothing.
        let mut answer = |asked: &str| (asked == name).then(|| "?".to_owned());
        match known::read_options(workload, &mut answer) {
            Some(Err(bad)) => format!("`{name}` ({})", bad.expected),
            _ => format!("`{name}`"),
        }
    };
    names.iter().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_has_an_effect_is_explained() {
        let keys = known::CONFIGURATION.iter();
        let keys = keys.filter(|(name, kind)| shapes_the_run(name, *kind));
        let tests = known::TEST.iter().filter(|name| shapes_the_test(name));
        for name in keys.map(|(name, _)| name).chain(tests) {
            assert_ne!(meaning(name), "", "{name}");
        }
        for name in known::available() {
            assert!(WORKLOADS.iter().any(|(known, _)| *known == name), "{name}");
        }
    }

    #[test]
    fn the_page_in_the_book_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference.md");
        let book = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            book == markdown(),
            "write it again: cargo run -- reference > docs/reference.md"
        );
    }
}
