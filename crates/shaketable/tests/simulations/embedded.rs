//! The embedded simulation from the outside: what a test of a layer does with it.
//!
//! `the_environment…` run this program again with variables set, because a variable belongs to the
//! whole process.

use shaketable::foundationdb::options::MutationType;
use shaketable::{
    Faults, Metrics, PhaseResult, RustWorkload, RustWorkloadFactory, SimDatabase, Simulation,
    SingleRustWorkload, Workload, WorkloadContext, WrappedWorkload,
};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts, and forgets that a commit of unknown fate may have happened.
struct NaiveCounter {
    context: WorkloadContext,
    increments: u64,
}

impl SingleRustWorkload for NaiveCounter {
    fn new(_name: String, context: WorkloadContext) -> Self {
        let increments = context.get_option("increments").unwrap_or(20);
        NaiveCounter {
            context,
            increments,
        }
    }
}

impl Workload for NaiveCounter {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        for _ in 0..self.increments {
            db.run(|trx, _maybe_committed| async move {
                trx.atomic_op(b"counter", &1_u64.to_le_bytes(), MutationType::Add);
                Ok(())
            })
            .await?;
            shaketable::sleep(std::time::Duration::from_millis(500)).await;
        }
        Ok(())
    }

    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        let value = db
            .run(|trx, _| async move { Ok(trx.get(b"counter", false).await?) })
            .await?;
        let found = value.map_or(0, |value| u64::from_le_bytes(value[..].try_into().unwrap()));
        let expected = self.increments * self.context.client_count() as u64;
        match found == expected {
            true => Ok(()),
            false => Err(format!("expected {expected}, found {found}").into()),
        }
    }
}

struct Factory;

impl RustWorkloadFactory for Factory {
    fn create(name: String, context: WorkloadContext) -> WrappedWorkload {
        match name.as_str() {
            "NaiveCounter" => WrappedWorkload::new(NaiveCounter::new(name, context)),
            _ => WrappedWorkload::unknown(&name),
        }
    }
}

#[shaketable::sim_test(seeds = 0..3)]
async fn a_test_reads_what_it_wrote(db: SimDatabase) -> PhaseResult {
    db.run(|trx, _| async move {
        trx.set(b"hello", b"world");
        Ok(())
    })
    .await?;
    let value = db
        .run(|trx, _| async move { Ok(trx.get(b"hello", false).await?) })
        .await?;
    assert_eq!(value.as_deref(), Some(&b"world"[..]));
    Ok(())
}

#[shaketable::sim_test(seeds = [7], clients = 3, faults = Faults::none())]
async fn a_test_may_have_several_clients(db: SimDatabase, context: WorkloadContext) {
    assert_eq!(context.client_count(), 3);
    drop(db);
}

#[shaketable::sim_test(seeds = 1, faults = Faults::none())]
async fn a_test_may_do_without_a_database() {
    shaketable::sleep(std::time::Duration::from_secs(3600)).await;
}

#[shaketable::sim_test(seeds = 1, without_regressions)]
#[should_panic(expected = "this is what I say")]
async fn a_panic_inside_fails_the_test() {
    assert!(
        std::env::var_os("CARGO_MANIFEST_DIR").is_none(),
        "this is what I say"
    );
}

#[test]
fn a_workload_passes_where_nothing_breaks() {
    let passed = Simulation::new()
        .seeds(0..4)
        .clients(2)
        .faults(Faults::none())
        .option("increments", 5)
        .run::<NaiveCounter>();
    assert_eq!(passed.seeds(), 4);
    assert!(passed.simulated_seconds() > 4.0 * 2.5);
}

/// A workload as the crate `foundationdb-simulation` knows it.
struct Published(String);

impl SingleRustWorkload for Published {
    fn new(_name: String, context: WorkloadContext) -> Self {
        Published(context.get_option("expected").unwrap_or_default())
    }
}

impl RustWorkload for Published {
    async fn setup(&mut self, _db: SimDatabase) {}
    async fn start(&mut self, db: SimDatabase) {
        let trx = db.create_trx().expect("a transaction");
        trx.set(b"greeting", b"hello");
        trx.commit().await.expect("nothing breaks");
    }
    async fn check(&mut self, db: SimDatabase) {
        let trx = db.create_trx().expect("a transaction");
        let greeting = trx.get(b"greeting", false).await.expect("nothing breaks");
        assert_eq!(greeting.as_deref(), Some(self.0.as_bytes()));
    }
    fn get_metrics(&self, _out: Metrics) {}
    fn get_check_timeout(&self) -> f64 {
        600.0
    }
}

#[test]
fn a_workload_of_the_published_crate_runs_in_the_same_way_and_fails_by_a_panic() {
    let simulation = |expected| {
        Simulation::new()
            .seeds(1)
            .faults(Faults::none())
            .option("expected", expected)
            .without_regressions()
            .try_run::<Published>()
    };
    simulation("hello").expect("it was said");
    let failed = simulation("good-bye").expect_err("nobody said that");
    assert!(failed.reason().contains("left == right"), "{failed}");
    // `unwrap` shows the same text.
    assert_eq!(format!("{failed:?}"), failed.to_string());
}

#[test]
fn a_workload_of_a_factory_runs_by_its_name() {
    let simulation = || {
        Simulation::new()
            .seeds(1)
            .faults(Faults::none())
            .without_regressions()
    };
    simulation().run_named::<Factory>("NaiveCounter");
    let unknown = std::panic::catch_unwind(|| simulation().run_named::<Factory>("Nobody"));
    let text = *unknown.unwrap_err().downcast::<String>().unwrap();
    assert!(text.contains("`Nobody`"), "{text}");
}

#[test]
fn faults_find_the_bug_and_its_seed_finds_it_again() {
    let folder = temporary("bugs");
    let simulation = || {
        Simulation::new()
            .named("bug")
            .clients(4)
            .regressions(&folder)
            .minimise_budget(Duration::from_secs(600))
    };
    let first = simulation()
        .seeds(0..300)
        .try_run::<NaiveCounter>()
        .expect_err("three hundred seeds of broken clusters find it");
    let (_, found) = first
        .reason()
        .split_once("expected 80, found ")
        .expect("the check says what it found");
    let digits: String = found.chars().take_while(char::is_ascii_digit).collect();
    assert!(digits.parse::<u64>().expect("a count") > 80, "{first}");
    let text = first.to_string();
    let line = format!("SHAKETABLE_SEED={} cargo ", first.seed());
    assert!(text.contains(&line), "{text}");
    assert!(
        text.contains("faults_find_the_bug_and_its_seed_finds_it_again"),
        "{text}"
    );
    assert!(text.contains("commit_unknown_result"), "{text}");

    // Kept as a case, made small, and tried first: no other seed is asked for.
    assert!(text.contains("\nneeds: "), "{text}");
    let again = simulation()
        .seeds(Vec::new())
        .try_run::<NaiveCounter>()
        .expect_err("the case is in the folder");
    let text = again.to_string();
    assert_eq!(again.seed(), first.seed());
    assert!(again.reason().contains("check failed"), "{text}");
    assert!(text.contains("known already: "), "{text}");
    let cases: Vec<_> = std::fs::read_dir(&folder).unwrap().collect();
    assert_eq!(cases.len(), 1, "{cases:?}");
    let kept = std::fs::read_to_string(cases[0].as_ref().unwrap().path()).unwrap();
    for key in [
        "package",
        "cargoTest",
        "simulation = \"bug\"",
        "fails",
        "only",
    ] {
        assert!(kept.contains(&format!("\n{key}")), "no {key} in\n{kept}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_seed_decides_the_order_of_hash_maps_and_the_time_of_day() {
    let look = |seeds: Vec<u64>| {
        static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
        Simulation::new()
            .seeds(seeds)
            .faults(Faults::none())
            .test(async |_db, _context| {
                shaketable::sleep(std::time::Duration::from_millis(1500)).await;
                SEEN.lock().unwrap().push(look_around());
            });
        std::mem::take(&mut *SEEN.lock().unwrap())
    };
    let alone = look(vec![5]);
    // Seeds run side by side and may end in any order.
    let mut among_others = look(vec![1, 2, 5]);
    assert!(
        among_others.contains(&alone[0]),
        "{alone:?} {among_others:?}"
    );
    among_others.sort();
    among_others.dedup();
    assert_eq!(among_others.len(), 3, "{among_others:?}");
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the code under test that should not"
)]
fn look_around() -> String {
    let map: HashMap<u32, ()> = (0..20).map(|n| (n, ())).collect();
    let order: Vec<u32> = map.into_keys().collect();
    format!("{order:?} {:?}", std::time::SystemTime::now())
}

#[test]
#[expect(clippy::disallowed_methods, reason = "threads are what is tested")]
fn simulations_in_parallel_threads_do_not_disturb_one_another() {
    let run = |seed: u64| {
        let failed = Simulation::new()
            .named("parallel")
            .seeds(seed)
            .clients(4)
            .without_regressions()
            .try_test(async |_db, context: WorkloadContext| -> PhaseResult {
                shaketable::sleep(std::time::Duration::from_secs(1)).await;
                let word = (
                    context.rnd(),
                    context.now().to_bits(),
                    context.shared_random_number(),
                );
                Err(format!("{word:?}").into())
            })
            .expect_err("it always fails");
        let text = failed.to_string();
        // The line to paste names the test, which another thread does not know.
        text.split("to run it again").next().unwrap().to_owned()
    };
    let alone: Vec<String> = (0..4).map(run).collect();
    let threads: Vec<_> = (0..4)
        .map(|seed| std::thread::spawn(move || run(seed)))
        .collect();
    let together: Vec<String> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    assert_eq!(alone, together);
}

#[test]
fn no_other_libfdb_c_is_loaded() {
    Simulation::new()
        .seeds(1)
        .faults(Faults::none())
        .test(async |db, _| drop(db));
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains("libfdb_c"), "{maps}");
}

/// Run by the tests below.
#[test]
#[ignore = "fails on purpose"]
fn helper_that_counts_its_seeds() {
    let passed = Simulation::new()
        .named("helper")
        .seeds(40..43)
        .faults(Faults::none())
        .without_regressions()
        .test(async |_db, _context: WorkloadContext| {});
    panic!("seeds that passed: {}", passed.seeds());
}

fn helper(variable: &str, value: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "embedded::helper_that_counts_its_seeds",
            "--ignored",
        ])
        .env(variable, value)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_environment_chooses_one_seed_or_how_many() {
    for (variable, value, seeds) in [
        ("UNUSED", "1", 3),
        ("SHAKETABLE_SEED", "0x2a", 1),
        ("SHAKETABLE_SEED", "18446744073709551615", 1),
        ("SHAKETABLE_SEEDS", "2", 2),
    ] {
        let text = text(&helper(variable, value));
        assert!(
            text.contains(&format!("seeds that passed: {seeds}\n")),
            "{variable}={value}\n{text}"
        );
    }
    let wrong = text(&helper("SHAKETABLE_SEED", "nine"));
    assert!(wrong.contains("`nine` is not a seed"), "{wrong}");
}

#[test]
fn the_environment_asks_for_traces() {
    let folder = temporary("traces");
    helper("SHAKETABLE_TRACE", folder.to_str().unwrap());
    let trace = std::fs::read_to_string(folder.join("helper.41.json")).unwrap();
    assert!(trace.contains("\"RandomSeed\": \"41\"") || trace.contains("\"RandomSeed\":\"41\""));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Run by the test below.
#[test]
#[ignore = "fails on purpose"]
fn helper_with_unlucky_seeds() {
    Simulation::new()
        .named("helper")
        .seeds(41..61)
        .faults(Faults::none())
        .without_regressions()
        .test(async |_db, context: WorkloadContext| {
            assert_ne!(context.rnd() % 8, 0, "unlucky");
        });
}

#[test]
fn a_report_is_the_same_with_any_number_of_seeds_at_once() {
    let report = |jobs| {
        let name = "embedded::helper_with_unlucky_seeds";
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--ignored"])
            .env("SHAKETABLE_JOBS", jobs)
            .output()
            .unwrap();
        let text = text(&output);
        let from = text.find("`helper` fails with seed").expect("a report");
        let to = text.find("to run it again").expect("its end");
        text[from..to].to_owned()
    };
    let alone = report("1");
    assert!(alone.contains(" that passed"), "{alone}");
    assert_eq!(report("4"), alone);
    assert_eq!(report("16"), alone);
}

#[test]
fn a_test_can_ask_what_its_seeds_have_met() {
    let simulation = Simulation::new().seeds(0..20).clients(3).count_outcomes();
    let passed = simulation.test(async |db, _context| -> PhaseResult {
        for number in 0..20_u8 {
            db.run(|trx, _| async move {
                trx.set(b"last", &[number]);
                Ok(())
            })
            .await?;
            shaketable::sleep(Duration::from_millis(500)).await;
        }
        Ok(())
    });
    assert!(passed.errors(1021) > 0, "{passed}");
    assert!(passed.faults("RebootingProcess") > 0, "{passed}");
    let of_commits = passed.outcomes("1021 landed") + passed.outcomes("1021 lost");
    assert!(of_commits > 0, "{passed}");
    assert_eq!(passed.errors(2000), 0);
}

#[test]
fn a_budget_ends_a_sweep_but_not_before_its_first_seed() {
    let budget = Duration::from_millis(1);
    let passed = (Simulation::new().seeds(0..).budget(budget)).test(async |_db, _context| {});
    assert!(passed.seeds() >= 1, "{passed}");
}

static RUNS: AtomicU64 = AtomicU64::new(0);

#[test]
fn a_seed_that_is_not_the_same_run_twice_is_found() {
    let simulation = Simulation::new().seeds(0..4).check_determinism();
    simulation.clone().test(async |db, _context| drop(db));
    let failed = simulation
        .try_test(async |_db, context: WorkloadContext| {
            let runs = RUNS.fetch_add(1, Ordering::Relaxed);
            context.trace(
                shaketable::Severity::Info,
                "Again",
                &[("Runs", &runs.to_string())],
            );
        })
        .expect_err("every run is different");
    let text = failed.to_string();
    assert!(text.contains("seed 0 gave two different runs"), "{text}");
    assert!(text.contains("\"Again\""), "{text}");
}

fn temporary(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    path.join(format!("embedded-{}-{name}", std::process::id()))
}

#[cfg(not(feature = "tokio"))]
#[test]
fn code_on_tokio_is_told_which_feature_it_needs() {
    let simulation = Simulation::new().seeds(1).without_regressions();
    let failed = simulation.try_test(async |_db, _context| {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    });
    let failed = failed.expect_err("there is no runtime");
    let help = "enable the feature `tokio` of the crate shaketable: there is no reactor running";
    assert!(failed.reason().contains(help), "{}", failed.reason());
    assert!(
        failed.reason().contains("tests/simulations/embedded.rs:"),
        "{}",
        failed.reason()
    );
}
