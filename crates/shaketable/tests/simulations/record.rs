//! The record of a failing seed tells the truth: about every call, and about the fate of every
//! commit, which the code under test may never learn.

use shaketable::foundationdb::options::TransactionOption;
use shaketable::foundationdb::{FdbError, RangeOption};
use shaketable::{
    Faults, PhaseResult, SimDatabase, Simulation, SingleRustWorkload, Workload, WorkloadContext,
};
use shaketable_record::{Answer, Call, Commit, End, Fate, Mutation, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// Each transaction reads one of a few counters, increments it, and leaves a mark of its own. Some
/// are given up in their commit, some have a timeout. The check reads all marks, and then fails.
struct Marks(WorkloadContext);

impl SingleRustWorkload for Marks {
    fn new(_name: String, context: WorkloadContext) -> Self {
        Marks(context)
    }
}

impl Workload for Marks {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        for number in 0..60_u32 {
            let mark = format!("mark {} {number}", self.0.client_id());
            let counter = format!("counter {}", number % 3);
            let attempt = attempt(&db, number, &counter, &mark);
            // Dropped after a while, wherever it is.
            let limit = Duration::from_millis(if number.is_multiple_of(7) {
                60
            } else {
                100_000
            });
            let pause = shaketable::sleep(limit);
            futures::pin_mut!(attempt, pause);
            let _ = futures::future::select(attempt, pause).await;
            shaketable::sleep(Duration::from_millis(300)).await;
        }
        Ok(())
    }

    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        if self.0.client_id() == 0 {
            db.run(|trx, _| async move {
                let mut next = Some(RangeOption::from((&b"mark "[..], &b"mark~"[..])));
                let mut iteration = 1;
                while let Some(range) = next {
                    let rows = trx.get_range(&range, iteration, false).await?;
                    next = range.next_range(&rows);
                    iteration += 1;
                }
                Ok(())
            })
            .await?;
        }
        Err("as planned".into())
    }
}

async fn attempt(db: &SimDatabase, number: u32, counter: &str, mark: &str) -> Result<(), FdbError> {
    let mut trx = db.create_trx()?;
    for attempt in 0.. {
        if number.is_multiple_of(5) {
            trx.set_option(TransactionOption::Timeout(400))?;
        }
        let read = trx.get(counter.as_bytes(), false).await;
        let error = match read {
            Ok(value) => {
                let value = value.map_or(0, |value| value[0]);
                trx.set(counter.as_bytes(), &[value.wrapping_add(1)]);
                trx.set(format!("{mark} {attempt}").as_bytes(), b"");
                match trx.commit().await {
                    Ok(_) => return Ok(()),
                    Err(error) => {
                        trx = error.on_error().await?;
                        continue;
                    }
                }
            }
            Err(error) => error,
        };
        trx = trx.on_error(error).await?;
    }
    Ok(())
}

fn record_of(test: &str, seed: u64) -> Record {
    let failed = Simulation::new()
        .named(test)
        .clients(4)
        .swarm(false)
        .seeds(seed)
        .faults(Faults::default().stress(true).seconds(25.0))
        .without_regressions()
        .try_run::<Marks>()
        .expect_err("its check fails");
    let text = failed.to_string();
    let folder = text
        .lines()
        .find_map(|line| line.strip_prefix("everything about it: "))
        .unwrap_or_else(|| panic!("no folder is named in {text}"));
    let folder = PathBuf::from(folder);
    assert!(text.contains("the last operations of client"), "{text}");
    assert_eq!(
        std::fs::read_to_string(folder.join("report.txt")).unwrap(),
        text
    );
    assert!(folder.join("trace.json").is_file());
    let file = std::fs::File::open(folder.join("record.jsonl.gz")).unwrap();
    let record = shaketable_record::file::read(file).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    record
}

/// The mark that a commit writes.
fn mark(commit: &Commit) -> Option<Vec<u8>> {
    commit.mutations.iter().find_map(|mutation| match mutation {
        Mutation::Set { key, .. } if key.kept().starts_with(b"mark ") => Some(key.kept().to_vec()),
        _ => None,
    })
}

#[test]
fn the_fate_of_every_commit_is_known() {
    let mut fates: BTreeMap<(String, bool), u32> = BTreeMap::new();
    for seed in 0..8 {
        let record = record_of("marks and fates", seed);
        let mut landed = BTreeSet::new();
        for attempt in &record.attempts {
            let Some(commit) = &attempt.commit else {
                continue;
            };
            let is_landed = match commit.fate {
                Fate::Landed(id) => {
                    let committed = &record.committed[id as usize];
                    let back = committed.attempt.expect("it is an attempt's");
                    assert_eq!(&record.attempts[back as usize], attempt);
                    assert_eq!(committed.mutations, commit.mutations);
                    landed.extend(mark(commit));
                    true
                }
                Fate::Lost | Fate::ReadOnly => false,
                Fate::Unknown => panic!("seed {seed}: the fate of {attempt:?} is unknown"),
            };
            let answer = match &record.operations[commit.operation as usize].answer {
                Answer::Error(error) => error.to_string(),
                Answer::Dropped => "dropped".to_owned(),
                other => format!("{other:?}"),
            };
            if answer == "Nothing" && commit.fate != Fate::ReadOnly {
                assert!(
                    is_landed,
                    "seed {seed}: {attempt:?} was told that it committed"
                );
            }
            if answer == "1020" {
                assert!(!is_landed, "seed {seed}: {attempt:?} had a conflict");
            }
            *fates.entry((answer, is_landed)).or_default() += 1;
        }
        // What the check found is the truth.
        let of_check = record.operations.iter().filter_map(|operation| {
            match (&operation.call, &operation.answer) {
                (Call::GetRange(_), Answer::Rows { rows, .. }) => Some((operation.attempt, rows)),
                _ => None,
            }
        });
        let last = of_check
            .clone()
            .next_back()
            .expect("the check read the marks")
            .0;
        let rows = of_check.filter(|(attempt, _)| *attempt == last);
        let keys = rows.flat_map(|(_, rows)| rows.iter().map(|(key, _)| key.kept().to_vec()));
        assert_eq!(keys.collect::<BTreeSet<_>>(), landed, "seed {seed}");
    }
    for answer in ["1021", "dropped"] {
        for is_landed in [true, false] {
            let count = fates.get(&(answer.to_owned(), is_landed));
            assert!(count.is_some(), "{answer}, landed {is_landed}: {fates:?}");
        }
    }
}

#[test]
fn a_conflict_names_the_range_and_the_winner() {
    let mut conflicts = 0;
    for seed in 0..3 {
        let record = record_of("marks and conflicts", seed);
        for attempt in &record.attempts {
            let Some(commit) = &attempt.commit else {
                continue;
            };
            if record.operations[commit.operation as usize].answer != Answer::Error(1020) {
                continue;
            }
            conflicts += 1;
            let conflict = commit.conflict.as_ref().expect("it was a conflict");
            assert!(commit.reads.contains(&conflict.range), "{conflict:?}");
            let winner = conflict.winner.expect("another transaction won");
            let winner = &record.committed[winner as usize];
            let read_version = attempt.read_version.expect("it had read");
            assert!(winner.version > read_version);
            let key = &conflict.range.begin;
            let wrote = |mutation: &Mutation| matches!(mutation, Mutation::Set { key: one, .. } if one == key);
            // Without changes it is the one with which a client settles the fate of another.
            assert!(
                winner.mutations.is_empty() || winner.mutations.iter().any(wrote),
                "{winner:?} did not write {key:?}"
            );
        }
    }
    assert!(conflicts > 10, "only {conflicts} conflicts");
}

#[test]
fn attempts_know_what_they_retry_and_whose_they_are() {
    let record = record_of("marks and attempts", 1);
    assert_eq!(record.header.verdict.kind.as_deref(), Some("check failed"));
    assert_eq!(record.header.clients, 4);
    let retried = record.attempts.iter().filter(|attempt| attempt.number > 1);
    assert!(retried.clone().count() > 3);
    for attempt in retried {
        let retry = attempt.retries.expect("it retries one");
        let before = &record.attempts[retry.attempt as usize];
        assert_eq!(before.transaction, attempt.transaction);
        assert_eq!(before.number + 1, attempt.number);
        assert_eq!(before.end, End::Retried(retry.error));
    }
    for attempt in &record.attempts {
        let client = attempt.client.expect("it is a client's");
        let phase = &record.phases[attempt.phase.expect("it is of a phase") as usize];
        assert_eq!(phase.client, client);
        assert!(phase.begun <= attempt.begun);
    }
    let places: BTreeSet<&str> = record.places.iter().map(|one| one.file.as_str()).collect();
    // A test program that was built without line tables has no places.
    assert!(
        places
            .iter()
            .all(|file| file.ends_with("tests/simulations/record.rs")),
        "{places:?}"
    );
    assert!(record.events.iter().any(|event| event.fault));
    assert!(record.events.iter().any(|event| event.name == "Role"));
    let asked = record.operations.iter().map(|operation| operation.asked);
    assert!(asked.is_sorted());
}
