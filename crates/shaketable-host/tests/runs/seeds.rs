//! Seeds of 64 bits: those of 32 mean what they have always meant, and all others are runs of their
//! own.

use shaketable_host::plan::{Plan, RecordTo, Recording, Settings, Values};
use shaketable_host::simulate;
use shaketable_host::testfile::TestFile;
use shaketable_host::trace::Format;
use shaketable_host::verdict::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const RING: &str = "
[[test]]
testTitle = 'Ring'

[[test.workload]]
testName = 'Cycle'
nodeCount = 100
transactionsPerSecond = 100.0
testDuration = 10.0

[[test.workload]]
testName = 'RandomClogging'
testDuration = 10.0

[[test.workload]]
testName = 'Attrition'
testDuration = 10.0
machinesToKill = 10
machinesToLeave = 3
reboot = true
";

fn run(seed: u64, recording: &Recording) -> Outcome {
    let file = TestFile::parse(Path::new("ring.toml"), RING).unwrap_or_else(|e| panic!("{e}"));
    let plan = Plan::load(file, &BTreeMap::new()).expect("no library is needed");
    simulate(&plan, &Settings::default(), seed, recording)
}

/// Pinned when seeds grew to 64 bits, to the numbers of the program before. A change of what is
/// drawn in a run, made on purpose, gives new ones; so did the silence of the dead.
#[test]
fn a_seed_of_32_bits_keeps_its_run() {
    let runs = [0, 1, 7, 1 << 31, u64::from(u32::MAX)].map(|seed| {
        let outcome = run(seed, &Recording::Nothing);
        (outcome.seed, outcome.unseed, outcome.simulated_seconds)
    });
    let known = [
        (0, 5_017, 16.371_072_278),
        (1, 26_749, 16.253_786_387),
        (7, 51_475, 19.720_594_819),
        (2_147_483_648, 93_944, 21.303_522_902),
        (4_294_967_295, 88_058, 15.804_094_236),
    ];
    assert_eq!(runs, known);
}

#[test]
fn seeds_that_differ_in_their_upper_halves_are_different_runs() {
    let seeds: Vec<u64> = [0, 1, 2, 1 << 31, u64::from(u32::MAX)]
        .map(|upper| upper << 32 | 7)
        .to_vec();
    let runs = seeds.iter().map(|seed| run(*seed, &Recording::Nothing));
    let runs: BTreeSet<u64> = runs.map(|outcome| outcome.fingerprint).collect();
    assert_eq!(runs.len(), seeds.len());
}

#[test]
fn a_seed_of_64_bits_is_run_again_to_the_last_byte() {
    let folder = std::env::temp_dir().join(format!("shaketable-seeds-{}", std::process::id()));
    let [one, other] = ["one", "other"].map(|name| {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let recording = Recording::Trace {
            path: folder.join("trace.json"),
            format: Format::Json,
            record: Some(RecordTo::new(folder.join("record"), Values::Short, None)),
        };
        let outcome = run(u64::MAX, &recording);
        let files = ["trace.json", "record"].map(|file| {
            std::fs::read(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
        });
        (outcome.seed, outcome.fingerprint, files)
    });
    let record = shaketable_record::file::read(&one.2[1][..]).expect("a record");
    std::fs::remove_dir_all(&folder).expect("what was written");
    assert!(one == other, "two runs of one seed differ");
    assert_eq!((one.0, record.header.seed), (u64::MAX, u64::MAX));
    let trace = String::from_utf8_lossy(&one.2[0]);
    assert!(trace.contains("\"RandomSeed\": \"18446744073709551615\""));
}
