//! Random numbers, clocks, swarms and `tracing` in a workload, through the embedded host.

use rand::RngExt;
use shaketable::{Clock, Faults, PhaseResult, SimDatabase, Simulation, WorkloadContext};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

fn simulation() -> Simulation {
    Simulation::new()
        .faults(Faults::none())
        .without_regressions()
}

/// What a closure returns for one seed.
fn ask<T: ToString + 'static>(seed: u64, question: fn(WorkloadContext) -> T) -> String {
    let failed = simulation()
        .seeds(seed)
        .try_test(async move |_db, context| -> PhaseResult {
            Err(format!("<{}>", question(context).to_string()).into())
        });
    let text = failed.expect_err("it answers by failing").to_string();
    text.split(['<', '>']).nth(1).expect("an answer").to_owned()
}

#[test]
fn the_generator_gives_the_numbers_of_the_seed() {
    let draw = |context: WorkloadContext| {
        let mut rng = context.rng();
        let bytes: [u8; 7] = rng.random();
        format!(
            "{} {} {bytes:?}",
            rng.random_range(0..1_000_000),
            rng.random::<u64>()
        )
    };
    assert_eq!(ask(3, draw), ask(3, draw));
    assert_ne!(ask(3, draw), ask(4, draw));
}

#[test]
fn the_generator_draws_from_the_stream_of_rnd() {
    let by_generator = |context: WorkloadContext| context.rng().random::<u32>();
    assert_eq!(ask(3, by_generator), ask(3, |context| context.rnd()));
}

/// foundationdb-rs after 0.11 has `foundationdb::env::Environment`, whose default is made of these
/// three. So a layer that takes one needs nothing from here to be simulated.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "these are the questions to the machine that the simulation answers"
)]
fn clocks_and_chance_of_the_machine_are_those_of_the_seed() {
    let look = |context: WorkloadContext| {
        let drawn = RandomState::new().build_hasher().finish();
        let by_clock = context.clock().wall();
        assert_eq!(SystemTime::now(), by_clock);
        format!("{drawn} {:?} {by_clock:?}", Instant::now())
    };
    assert_eq!(ask(3, look), ask(3, look));
    assert_ne!(ask(3, look), ask(4, look));
}

#[shaketable::sim_test(seeds = 2, faults = Faults::none())]
async fn the_clock_shows_simulated_time(_db: SimDatabase, context: WorkloadContext) {
    let clocks = [context.clock(), Clock::current()];
    let before = clocks
        .each_ref()
        .map(|clock| (clock.elapsed(), clock.wall()));
    shaketable::sleep(Duration::from_secs(3600)).await;
    for (clock, (elapsed, wall)) in clocks.iter().zip(before) {
        let passed = clock.elapsed() - elapsed;
        assert!((3600..3602).contains(&passed.as_secs()), "{passed:?}");
        assert_eq!(clock.wall().duration_since(wall).unwrap(), passed);
        let new_year = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
        assert_eq!(
            clock.wall().duration_since(new_year).unwrap(),
            clock.elapsed()
        );
    }
}

fn picked(seed: u64) -> String {
    ask(seed, |context| {
        context.swarm(["push", "pop", "peek", "clear"]).join(" ")
    })
}

#[test]
fn a_seed_picks_some_operations_and_never_none() {
    let all: Vec<String> = (0..40).map(picked).collect();
    assert!(all.iter().all(|one| !one.is_empty()), "{all:?}");
    for operation in ["push", "pop", "peek", "clear"] {
        let count = all.iter().filter(|one| one.contains(operation)).count();
        assert!((10..32).contains(&count), "{operation} in {count} of 40");
    }
    assert_eq!(all[5], picked(5));
}

#[test]
fn all_clients_pick_the_same_operations() {
    simulation()
        .seeds(0..5)
        .clients(4)
        .test(async |db, context| -> PhaseResult {
            let mine = context
                .swarm(0..10)
                .iter()
                .map(u32::to_string)
                .collect::<Vec<_>>()
                .join(",");
            let mine = &mine;
            db.run(|trx, _| async move {
                let first = trx.get(b"picked", false).await?;
                if let Some(first) = &first {
                    assert_eq!(&first[..], mine.as_bytes());
                }
                trx.set(b"picked", mine.as_bytes());
                Ok(())
            })
            .await?;
            Ok(())
        });
}

/// Run by the test below.
#[test]
#[ignore = "writes a trace for another test"]
fn helper_that_logs() {
    simulation()
        .named("log")
        .seeds(1)
        .test(async |_db, context: WorkloadContext| {
            context.swarm(["only"]);
            tracing::info!(amount = 3, "outside {}", "every span");
            tracing::trace!("too fine");
            let outer = tracing::info_span!("outer", account = "savings");
            let inside = outer.in_scope(|| tracing::info_span!("inner"));
            drop(outer);
            inside.in_scope(|| tracing::error!("inside"));
            tracing::debug!("fine");
        });
    tracing::info!("outside the simulation");
}

fn logged(level: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("log-{level}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "conveniences::helper_that_logs", "--ignored"])
        .env("SHAKETABLE_TRACE", &folder)
        .env("SHAKETABLE_LOG", level)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let trace = std::fs::read_to_string(folder.join("log.1.json")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    trace
}

fn field(line: &str, name: &str) -> Option<String> {
    let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
    let rest = rest.trim_start().strip_prefix('"')?;
    Some(rest.split('"').next()?.to_owned())
}

#[test]
fn tracing_events_are_in_the_trace_with_client_span_and_fields() {
    let trace = logged("info");
    let lines: Vec<&str> = trace
        .lines()
        .filter(|line| line.contains("WorkloadLog"))
        .collect();
    let [outside, inside] = lines[..] else {
        panic!("expected two events, found {lines:?}")
    };
    assert_eq!(
        field(outside, "Message").as_deref(),
        Some("outside every span")
    );
    assert_eq!(field(outside, "Amount").as_deref(), Some("3"));
    assert_eq!(field(outside, "Client").as_deref(), Some("0"));
    assert_eq!(field(outside, "Level").as_deref(), Some("INFO"));
    assert_eq!(field(outside, "Span"), None);
    assert_eq!(
        field(inside, "Span").as_deref(),
        Some("outer{account=savings}:inner")
    );
    assert_eq!(
        field(inside, "Severity").as_deref(),
        Some("30"),
        "an error does not fail the run"
    );
    assert!(
        trace.contains("WorkloadSwarm"),
        "the choice of operations is there, too"
    );
}

#[test]
fn the_environment_chooses_the_level() {
    let count = |level| logged(level).matches("WorkloadLog").count();
    assert_eq!(
        [count("off"), count("error"), count("debug"), count("trace")],
        [0, 1, 3, 4]
    );
}
