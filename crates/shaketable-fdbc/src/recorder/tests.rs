//! The recorder alone: how attempts begin, end and follow each other, and what is left out.

use super::*;
use shaketable_cluster::checker::Bounds;
use shaketable_cluster::proto::{KeyRange, Mutation as Change, MutationKind, Versionstamp};
use shaketable_kernel::ProcessSpec;
use shaketable_record::{Bytes, Fate, Retry};

struct Bench {
    recorder: Recorder,
    history: History,
    origin: Origin,
}

impl Bench {
    fn new(attempts_max: usize, operations_max: usize) -> Bench {
        let kernel = Kernel::simulation(1);
        let process = kernel.add_process(ProcessSpec::default());
        let history = History::default();
        let settings = RecordSettings {
            history: history.clone(),
            value_bytes_max: 4,
            attempts_max,
            operations_max,
            bytes_max: 1 << 20,
        };
        Bench {
            recorder: Recorder::new(&kernel, settings),
            history,
            origin: Origin {
                process,
                lent: None,
            },
        }
    }

    fn ask(&mut self, slot: usize, call: Call) -> Option<Position> {
        let noted = Noted { call, place: None };
        self.recorder.note(slot, self.origin, None, noted)
    }

    fn answer(&mut self, slot: usize, position: Option<Position>, answer: Answer) {
        let position = position.expect("it is kept");
        self.recorder.answer(slot, position, answer, None);
    }

    fn get(&mut self, slot: usize) -> Option<Position> {
        let key = Bytes::whole(b"key");
        self.ask(
            slot,
            Call::Get {
                key,
                snapshot: false,
            },
        )
    }

    /// Asks for a commit and sends it, from a read version; it writes `key`.
    fn commit(&mut self, slot: usize, read_version: Version) -> Option<Position> {
        let asked = self.ask(slot, Call::Commit);
        self.recorder
            .sent(asked.expect("it is kept"), &transaction(read_version, None));
        asked
    }

    fn land(&self, position: Option<Position>, version: Version) {
        let stamp = Versionstamp {
            version,
            batch_index: 0,
        };
        let tag = position.map(|position| position.attempt);
        self.history.accept(1, stamp, &transaction(0, tag));
    }

    fn finish(mut self) -> Recorded {
        self.recorder.finish(|_| Some(3), |_| None)
    }
}

fn transaction(read_snapshot: Version, tag: Option<u64>) -> CommitTransaction {
    let range = KeyRange {
        begin: "key".into(),
        end: "key\0".into(),
    };
    CommitTransaction {
        read_snapshot,
        read_conflict_ranges: vec![range.clone()],
        write_conflict_ranges: vec![range],
        mutations: vec![Change {
            kind: MutationKind::SetValue,
            param1: "key".into(),
            param2: "a long value".into(),
        }],
        tag,
        ..CommitTransaction::default()
    }
}

fn fates(recorded: &Recorded) -> Vec<Option<Fate>> {
    let attempts = recorded.attempts.iter();
    attempts
        .map(|attempt| attempt.commit.as_ref().map(|commit| commit.fate))
        .collect()
}

fn ends(recorded: &Recorded) -> Vec<End> {
    recorded.attempts.iter().map(|one| one.end).collect()
}

#[test]
fn on_error_links_attempts_and_a_commit_begins_another_transaction() {
    let mut bench = Bench::new(10, 10);
    let get = bench.get(0);
    bench.answer(0, get, Answer::Error(1007));
    let again = bench.ask(0, Call::OnError(1007));
    bench.answer(0, again, Answer::Nothing);
    let commit = bench.commit(0, 100);
    bench.land(commit, 200);
    bench.answer(0, commit, Answer::Nothing);
    assert!(bench.ask(0, Call::Reset).is_none(), "nothing to reset");
    bench.get(0);
    let recorded = bench.finish();
    let all: Vec<(u32, u32)> = recorded
        .attempts
        .iter()
        .map(|one| (one.transaction, one.number))
        .collect();
    assert_eq!(all, [(0, 1), (0, 2), (1, 1)]);
    assert_eq!(
        ends(&recorded),
        [End::Retried(1007), End::Committed, End::Open]
    );
    let retry = recorded.attempts[1].retries;
    assert_eq!(
        retry,
        Some(Retry {
            attempt: 0,
            error: 1007
        })
    );
    assert_eq!(fates(&recorded), [None, Some(Fate::Landed(0)), None]);
    assert_eq!(recorded.attempts[1].read_version, Some(100));
    assert_eq!(recorded.attempts[0].client, Some(3));
    let commit = recorded.attempts[1].commit.as_ref().unwrap();
    assert_eq!(
        recorded.operations[commit.operation as usize].call,
        Call::Commit
    );
}

#[test]
fn what_the_client_is_told_and_what_is_true_are_two_things() {
    let mut bench = Bench::new(10, 100);
    // 1021, and it landed.
    let commit = bench.commit(0, 100);
    bench.land(commit, 200);
    bench.answer(0, commit, Answer::Error(1021));
    // 1021, and it did not.
    let commit = bench.commit(1, 100);
    bench.answer(1, commit, Answer::Error(1021));
    // A timeout: it may land later, and does.
    let commit = bench.commit(2, 100);
    bench.answer(2, commit, Answer::Error(1031));
    bench.land(commit, 300);
    // A timeout just before the end.
    let commit = bench.commit(3, 250);
    bench.answer(3, commit, Answer::Error(1031));
    // The future was dropped.
    let commit = bench.commit(4, 250);
    bench.answer(4, commit, Answer::Dropped);
    bench.land(commit, 400);
    // It wrote nothing.
    let commit = bench.ask(5, Call::Commit);
    bench.answer(5, commit, Answer::Nothing);
    // It was refused before it was sent.
    let commit = bench.ask(6, Call::Commit);
    bench.answer(6, commit, Answer::Error(2101));
    // The handle was dropped.
    bench.commit(7, 260);
    bench.recorder.destroy(7, None);
    let recorded = bench.finish();
    assert_eq!(
        fates(&recorded),
        [
            Some(Fate::Landed(0)),
            Some(Fate::Lost),
            Some(Fate::Landed(1)),
            Some(Fate::Unknown),
            Some(Fate::Landed(2)),
            Some(Fate::ReadOnly),
            Some(Fate::Lost),
            Some(Fate::Unknown),
        ]
    );
    assert_eq!(ends(&recorded)[4], End::DroppedInCommit);
    assert_eq!(ends(&recorded)[7], End::DroppedInCommit);
    assert_eq!(recorded.committed[1].attempt, Some(2));
}

#[test]
fn a_commit_that_is_too_old_to_land_is_lost() {
    let mut bench = Bench::new(10, 100);
    bench.commit(0, 100);
    bench.land(None, 100 + 5_000_001);
    assert_eq!(fates(&bench.finish()), [Some(Fate::Lost)]);
}

#[test]
fn a_conflict_has_a_winner() {
    let mut bench = Bench::new(10, 100);
    let winner = bench.commit(0, 100);
    bench.land(winner, 200);
    bench.answer(0, winner, Answer::Nothing);
    let commit = bench.commit(1, 150);
    bench.answer(1, commit, Answer::Error(1020));
    // Later ones did not win.
    bench.land(None, 160);
    let recorded = bench.finish();
    let commit = recorded.attempts[1].commit.as_ref().unwrap();
    let conflict = commit.conflict.as_ref().expect("it was a conflict");
    assert_eq!(conflict.range.begin, Bytes::whole(b"key"));
    let winner = conflict.winner.expect("one won");
    assert_eq!(recorded.committed[winner as usize].attempt, Some(0));
    assert_eq!(commit.fate, Fate::Lost);
}

#[test]
fn the_newest_is_kept_and_refers_to_nothing_that_is_gone() {
    let mut bench = Bench::new(3, 5);
    for number in 0..10 {
        let get = bench.get(number);
        bench.answer(number, get, Answer::Error(1007));
        let again = bench.ask(number, Call::OnError(1007));
        bench.answer(number, again, Answer::Nothing);
        let commit = bench.commit(number, 100);
        bench.land(commit, 200 + number as Version);
        bench.answer(number, commit, Answer::Nothing);
    }
    let recorded = bench.finish();
    assert_eq!(recorded.left_out.attempts, 17);
    assert_eq!(recorded.attempts.len(), 3);
    assert_eq!(
        recorded.left_out.operations + recorded.operations.len() as u64,
        30
    );
    assert_eq!(recorded.attempts[0].retries, None, "that one is gone");
    assert_eq!(recorded.attempts[2].retries.unwrap().attempt, 1);
    assert_eq!(recorded.committed[0].attempt, None);
    assert_eq!(recorded.committed[9].attempt, Some(2));
}

#[test]
fn one_endless_attempt_keeps_its_last_operations() {
    let mut bench = Bench::new(3, 5);
    for _ in 0..20 {
        bench.get(0);
    }
    let commit = bench.commit(0, 100);
    bench.land(commit, 200);
    bench.answer(0, commit, Answer::Nothing);
    let recorded = bench.finish();
    assert_eq!(recorded.operations.len(), 5);
    assert_eq!(recorded.left_out.operations, 16);
    assert_eq!(recorded.attempts[0].commit.as_ref().unwrap().operation, 4);
}

#[test]
fn long_values_are_shortened() {
    let mut bench = Bench::new(3, 5);
    let commit = bench.commit(0, 100);
    bench.land(commit, 200);
    let recorded = bench.finish();
    let shortened = |mutation: &shaketable_record::Mutation| match mutation {
        shaketable_record::Mutation::Set { value, .. } => {
            value.kept() == b"a lo" && value.len() == 12
        }
        _ => false,
    };
    assert!(shortened(&recorded.committed[0].mutations[0]));
    let commit = recorded.attempts[0].commit.as_ref().unwrap();
    assert!(shortened(&commit.mutations[0]));
}

/// Transactions of a read, a write and a commit that lands, one after another. Returns what is
/// recorded, and how many operations there were.
fn record_many(operations: u64, settings: RecordSettings) -> (Recorded, u64) {
    const OF_A_TRANSACTION: u64 = 3;
    let kernel = Kernel::simulation(1);
    let process = kernel.add_process(ProcessSpec::default());
    let mut bench = Bench {
        history: settings.history.clone(),
        recorder: Recorder::new(&kernel, settings),
        origin: Origin {
            process,
            lent: None,
        },
    };
    let transactions = operations / OF_A_TRANSACTION;
    for number in 0..transactions {
        let version = 100 + number as Version;
        let get = bench.get(0);
        let value = Bytes::whole(&[7; 100]);
        bench.answer(0, get, Answer::Value(Some(value.clone())));
        let key = Bytes::whole(&number.to_be_bytes());
        bench.ask(0, Call::Set { key, value });
        let commit = bench.commit(0, version - 1);
        bench.land(commit, version);
        bench.answer(0, commit, Answer::Nothing);
    }
    (bench.finish(), transactions * OF_A_TRANSACTION)
}

fn check_that_the_last_are_kept(recorded: &Recorded, operations: u64, kept_max: u64) {
    let kept = recorded.operations.len() as u64;
    assert!(kept <= kept_max && kept > kept_max * 9 / 10, "{kept}");
    assert_eq!(kept + recorded.left_out.operations, operations);
    let attempts = recorded.attempts.len() as u64;
    assert_eq!(attempts + recorded.left_out.attempts, operations / 3);
    let last = recorded.attempts.last().and_then(|one| one.read_version);
    assert_eq!(last, Some(99 + (operations / 3 - 1) as Version));
    // What became of each that is kept is still known.
    assert!(
        fates(recorded)
            .iter()
            .all(|fate| matches!(fate, Some(Fate::Landed(_))))
    );
}

#[test]
fn of_more_than_fits_the_last_are_kept_and_the_others_counted() {
    let settings = RecordSettings {
        history: History::bounded(Bounds {
            transactions: 4_000,
            bytes: 1 << 20,
        }),
        value_bytes_max: 256,
        attempts_max: 2_000,
        operations_max: 10_000,
        bytes_max: 512 << 20,
    };
    let (recorded, operations) = record_many(100_000, settings);
    check_that_the_last_are_kept(&recorded, operations, 2_000 * 3);
    assert!(recorded.left_out.committed > 0);
    assert!(recorded.committed.len() <= 4_000);
}

/// `cargo test --release -p shaketable-fdbc --lib -- --ignored --nocapture ten_million`
#[test]
#[ignore = "takes a minute, and measures the memory of the whole process"]
fn ten_million_operations_take_bounded_memory() {
    // As a host records: see `tester/record.rs` of shaketable-host.
    let settings = RecordSettings {
        history: History::bounded(Bounds {
            transactions: 200_000,
            bytes: 64 << 20,
        }),
        value_bytes_max: 256,
        attempts_max: 100_000,
        operations_max: 400_000,
        bytes_max: 192 << 20,
    };
    let (recorded, operations) = record_many(10_000_000, settings);
    check_that_the_last_are_kept(&recorded, operations, 100_000 * 3);
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.expect("it has a peak").trim().trim_end_matches(" kB");
    let mebibytes = peak.parse::<u64>().expect("a number") / 1024;
    println!("{operations} operations, at most {mebibytes} MiB");
    assert!(mebibytes < 640, "{mebibytes} MiB");
}
