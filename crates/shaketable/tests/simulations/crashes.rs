//! Clients that die at an await and live again.

use shaketable::history::{Counter, CounterOperation, History};
use shaketable::{
    Faults, PhaseResult, SimDatabase, Simulation, SingleRustWorkload, Workload, WorkloadContext,
    sleep, spawn,
};
use std::cell::RefCell;
use std::time::Duration;

thread_local! {
    /// What happened, as an observer outside all processes saw it.
    static LOG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn note(what: impl Into<String>) {
    LOG.with_borrow_mut(|log| log.push(what.into()));
}

/// Writes down what becomes of it.
struct Diary {
    rounds: u32,
    /// In memory only.
    done: u32,
    guard: Option<Guard>,
}

/// Tells when it is dropped, and tries to do something about it.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        note("guard dropped");
        drop(spawn(async { note("the guard's task ran") }));
    }
}

impl SingleRustWorkload for Diary {
    fn new(name: String, context: WorkloadContext) -> Self {
        let rounds = context.get_option("rounds").unwrap_or(0);
        note(format!("{name} made with {rounds} rounds"));
        Diary {
            rounds,
            done: 0,
            guard: None,
        }
    }
}

impl Workload for Diary {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        note("start");
        self.go(db).await
    }

    async fn recover(&mut self, db: SimDatabase) -> PhaseResult {
        note(format!("recover with {} done", self.done));
        self.go(db).await
    }

    async fn check(&mut self, _db: SimDatabase) -> PhaseResult {
        note(format!("check with {} done", self.done));
        let log = LOG.take();
        Err(log.join("; ").into())
    }
}

impl Diary {
    async fn go(&mut self, _db: SimDatabase) -> PhaseResult {
        let _guard = Guard;
        // Goes with the workload.
        self.guard = Some(Guard);
        let beside = spawn(async {
            sleep(Duration::from_secs(60)).await;
            note("a task outlived its client");
        });
        for _ in 0..self.rounds {
            sleep(Duration::from_secs(1)).await;
            self.done += 1;
        }
        beside.abort();
        Ok(())
    }
}

/// What the diary says with these deaths.
fn diary(crash_at: &str) -> String {
    let failed = Simulation::new()
        .seeds(1)
        .clients(1)
        .faults(Faults::none())
        .option("rounds", 3)
        .option("shaketableCrashAt", crash_at)
        .without_regressions()
        .try_run::<Diary>()
        .expect_err("the diary is told as an error");
    failed.reason().to_owned()
}

/// The first await is that of the task beside.
#[test]
fn a_fresh_instance_goes_on_and_nothing_of_the_dead_one_is_left() {
    let told = diary("0:3");
    let expected = "Diary made with 3 rounds; start; guard dropped; guard dropped; Diary made with 3 rounds; \
                    recover with 0 done; guard dropped; the guard's task ran; \
                    check with 3 done";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn a_death_has_two_moments_at_each_await() {
    for moment in ["0:2", "0:2+"] {
        let told = diary(moment);
        assert!(told.contains("recover with 0 done; guard"), "{told}");
    }
    // Number 5 never comes: three rounds and the task beside.
    assert!(!diary("0:5").contains("recover"));
    assert!(diary("0:4+").contains("recover"));
}

#[test]
fn numbers_go_on_in_the_next_life() {
    let told = diary("0:2, 0:4+, 1:1");
    assert_eq!(told.matches("recover").count(), 2, "{told}");
}

#[test]
fn a_mistake_in_the_moments_fails_the_run() {
    let failed = Simulation::new()
        .seeds(1)
        .option("shaketableCrashAt", "soon")
        .without_regressions()
        .try_test(async |_db, _context| {})
        .expect_err("`soon` is no moment");
    assert!(failed.to_string().contains("client:await"), "{failed}");
}

/// Adds to a counter, one at a time, and says so to the history.
struct Adder {
    context: WorkloadContext,
}

impl SingleRustWorkload for Adder {
    fn new(_name: String, context: WorkloadContext) -> Self {
        Adder { context }
    }
}

impl Workload for Adder {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        for _ in 0..10 {
            let call = history().call(self.context.client_id(), CounterOperation::AddAndGet(1));
            let sum = db.run(|trx, _| async move {
                let value = trx.get(b"sum", false).await?;
                let sum = value.map_or(0, |value| i64::from(value[0])) + 1;
                trx.set(b"sum", &[sum as u8]);
                Ok(sum)
            });
            // No commit is of unknown result here, but for those of the dead.
            call.returned(Some(sum.await?));
        }
        Ok(())
    }

    async fn check(&mut self, _db: SimDatabase) -> PhaseResult {
        Ok(history().check()?)
    }
}

fn history() -> History<Counter> {
    History::shared("sum")
}

#[test]
fn an_operation_that_was_in_flight_stays_unknown() {
    let passed = Simulation::new()
        .seeds(0..30)
        .clients(3)
        .faults(Faults::none().crashes(3))
        .run::<Adder>();
    assert_eq!(passed.seeds(), 30);
}

#[test]
fn deaths_are_reported_and_the_same_in_every_run_of_a_seed() {
    let run = || {
        let failed = Simulation::new()
            .seeds(0..20)
            .clients(3)
            .faults(Faults::default().crashes(2))
            .without_regressions()
            .try_test(async |db, context| -> PhaseResult {
                for round in 0..20 {
                    let life = context.rnd();
                    db.run(|trx, _| async move {
                        trx.set(b"last", &life.to_le_bytes());
                        Ok(())
                    })
                    .await?;
                    note(format!("{}:{round}", context.client_id()));
                }
                // Only a client that died was here before.
                let before = LOG.with_borrow(|log| {
                    let last = format!("{}:0", context.client_id());
                    log.iter().filter(|line| **line == last).count()
                });
                assert_eq!(before, 1, "client {} lived twice", context.client_id());
                Ok(())
            })
            .expect_err("a client dies in one of these seeds");
        failed.to_string()
    };
    let report = run();
    assert!(report.contains("died"), "{report}");
    assert!(report.contains("and started again"), "{report}");
    assert!(report.contains("WorkloadCrashed ×"), "{report}");
    assert_eq!(run(), report);
}

/// With the feature `tokio`: nothing but a task of tokio ever waits.
#[cfg(feature = "tokio")]
#[test]
fn tasks_of_tokio_die_with_their_client() {
    for moment in ["0:1", "0:1+", "0:3", "0:4+"] {
        let failed = Simulation::new()
            .seeds(1)
            .faults(Faults::none())
            .option("shaketableCrashAt", moment)
            .without_regressions()
            .try_test(async |_db, _context| -> PhaseResult {
                note("begun");
                let worker = tokio::spawn(async {
                    for _ in 0..5 {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        note("slept");
                    }
                });
                worker.await?;
                Err(LOG.take().join("; ").into())
            })
            .expect_err("the log is told as an error");
        let told = failed.reason();
        assert_eq!(told.matches("begun").count(), 2, "{moment}: {told}");
        assert!(
            told.ends_with("begun; slept; slept; slept; slept; slept"),
            "{told}"
        );
    }
}
