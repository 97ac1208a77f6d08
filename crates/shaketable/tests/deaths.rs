//! A seed that ends the test program, or never comes back, is reported like any other failure.
//!
//! The tests that die are ignored; others run this program again for each of them.

use shaketable::{Faults, PhaseResult, SimDatabase, Simulation};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const SEED: u64 = 7;

/// Commits a few times, and then does something fatal.
fn dies(how: fn()) {
    let simulation = Simulation::new()
        .seeds(SEED)
        .faults(Faults::none())
        .hang_limit(Duration::from_secs(2));
    let simulation = match std::env::var_os("REGRESSIONS") {
        Some(file) => simulation.regressions(file),
        None => simulation.without_regressions(),
    };
    simulation.test(async move |db: SimDatabase, _context| -> PhaseResult {
        for number in 0..3_u8 {
            db.run(|trx, _| async move {
                trx.set(b"number", &[number]);
                Ok(())
            })
            .await?;
        }
        how();
        Ok(())
    });
}

#[test]
#[ignore = "dies"]
fn segfaults() {
    dies(|| {
        let nowhere = std::ptr::without_provenance_mut::<u8>(8);
        // SAFETY: none: this is the crash that the test is about.
        unsafe { nowhere.write_volatile(1) };
    });
}

#[test]
#[ignore = "dies"]
fn aborts() {
    dies(|| std::process::abort());
}

#[test]
#[ignore = "dies"]
fn overflows_its_stack() {
    #[expect(unconditional_recursion, reason = "that is what the test is about")]
    fn deeper(depth: u64) -> u64 {
        let room = [depth; 64];
        std::hint::black_box(&room);
        deeper(depth + 1) + room[0]
    }
    dies(|| {
        std::hint::black_box(deeper(0));
    });
}

#[test]
#[ignore = "dies"]
fn exits() {
    dies(|| std::process::exit(3));
}

#[test]
#[ignore = "dies"]
fn exits_as_if_all_were_well() {
    dies(|| std::process::exit(0));
}

#[test]
#[ignore = "dies"]
fn spins() {
    dies(spin);
}

/// A test of its own, because each has a folder of its own.
#[test]
#[ignore = "dies"]
fn spins_for_the_environment() {
    dies(spin);
}

fn spin() {
    loop {
        std::hint::spin_loop();
    }
}

#[test]
#[ignore = "dies"]
fn is_ended_from_outside() {
    dies(|| {
        // Not `std::process::id`, which is simulated.
        let process = std::fs::read_link("/proc/self").expect("it is there");
        let _ = Command::new("kill").arg(process).status();
        // The signal is another thread's business, which may take its time.
        loop {
            std::hint::spin_loop();
        }
    });
}

struct Death {
    status: ExitStatus,
    text: String,
    regressions: String,
}

/// Runs one of the tests above, and checks what each of them must leave.
fn death_of(test: &str, environment: &[(&str, &str)]) -> Death {
    // Several tests run the same one, side by side.
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let (process, run) = (std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
    let folder = format!("shaketable-deaths-{process}-{run}");
    let folder = std::env::temp_dir().join(folder);
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored"])
        .env("REGRESSIONS", &folder)
        .env_remove("NEXTEST")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) = (output.stdout, output.stderr);
    let text = [out, err].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let cases = std::fs::read_dir(&folder).into_iter().flatten();
    let cases: Vec<PathBuf> = cases.map(|case| case.unwrap().path()).collect();
    assert!(cases.len() <= 1, "{cases:?}");
    let regressions = cases
        .iter()
        .map(|case| std::fs::read_to_string(case).unwrap());
    let regressions = regressions.collect();
    let _ = std::fs::remove_dir_all(&folder);
    Death {
        status: output.status,
        text: text.concat(),
        regressions,
    }
}

/// Checks what every death leaves: the seed, the line that runs it again, and a whole folder.
fn check(death: &Death, test: &str) {
    let text = &death.text;
    assert!(
        text.contains(&format!(
            "`{test}` fails with seed {SEED}, the first one tried"
        )),
        "{text}"
    );
    let replay = format!("SHAKETABLE_SEED={SEED} cargo test -p shaketable {test} -- --exact");
    assert_eq!(text.matches(&replay).count(), 1, "{text}");
    let kept = &death.regressions;
    for line in [
        "[case]".to_owned(),
        "package = \"shaketable\"".to_owned(),
        format!("cargoTest = \"{test}\""),
        format!("seed = {SEED}"),
    ] {
        assert!(kept.lines().any(|one| one == line), "no {line} in {kept}");
    }
    assert!(kept.contains("\nfails = "), "{kept}");
    let words = "kept as a case, which runs first from now on: commit ";
    assert_eq!(text.matches(words).count(), 1, "{text}");
    let folder = text
        .lines()
        .find_map(|line| line.strip_prefix("everything about it: "))
        .unwrap_or_else(|| panic!("no folder is named in {text}"));
    let folder = PathBuf::from(folder);
    let report = std::fs::read_to_string(folder.join("report.txt")).unwrap();
    assert!(text.contains(&report), "{report}\nis not in\n{text}");
    for file in ["timeline.html", "trace.json"] {
        assert!(folder.join(file).is_file(), "no {file}");
    }
    let record = File::open(folder.join("record.jsonl.gz")).unwrap();
    let record = shaketable_record::file::read(record).unwrap();
    // What happened before the end is in it.
    assert!(record.committed.len() >= 3, "{}", record.committed.len());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_segmentation_fault_leaves_its_seed_and_everything_about_it() {
    let death = death_of("segfaults", &[]);
    check(&death, "segfaults");
    let text = &death.text;
    assert_eq!(death.status.signal(), Some(11), "{text}");
    assert!(text.contains("crashed in start"), "{text}");
    assert!(
        text.contains("the process was ended by SIGSEGV (11)"),
        "{text}"
    );
    assert!(text.contains("tests/deaths.rs:"), "{text}");
}

#[test]
fn an_abort_leaves_its_seed_and_everything_about_it() {
    let death = death_of("aborts", &[]);
    check(&death, "aborts");
    assert_eq!(death.status.signal(), Some(6), "{}", death.text);
    assert!(
        death.text.contains("ended by SIGABRT (6)"),
        "{}",
        death.text
    );
}

#[test]
fn a_stack_overflow_leaves_its_seed_and_everything_about_it() {
    let death = death_of("overflows_its_stack", &[]);
    check(&death, "overflows_its_stack");
    let text = &death.text;
    // As without a simulation: the standard library says so, and aborts.
    assert_eq!(death.status.signal(), Some(6), "{text}");
    assert!(text.contains("has overflowed its stack"), "{text}");
    assert!(
        text.contains("the stack is used up: endless recursion?"),
        "{text}"
    );
}

#[test]
fn an_exit_leaves_its_seed_and_everything_about_it_and_never_counts_as_passed() {
    for (test, status, found) in [("exits", 3, 3), ("exits_as_if_all_were_well", 0, 101)] {
        let death = death_of(test, &[]);
        check(&death, test);
        let text = &death.text;
        assert_eq!(death.status.code(), Some(found), "{text}");
        let words = format!("the workload ended the process with status {status}");
        assert!(text.contains(&words), "{text}");
    }
}

#[test]
fn an_endless_loop_fails_after_the_limit_and_other_tests_continue() {
    let death = death_of("spins", &[]);
    check(&death, "spins");
    let text = &death.text;
    assert_eq!(death.status.code(), Some(101), "{text}");
    assert!(
        text.contains("no end after 2 s of real time: the workload loops or blocks"),
        "{text}"
    );
    assert!(text.contains("1 failed"), "{text}");
    assert!(text.contains("tests/deaths.rs:"), "{text}");
}

#[test]
fn the_environment_sets_the_limit() {
    let death = death_of(
        "spins_for_the_environment",
        &[("SHAKETABLE_HANG_LIMIT", "500ms")],
    );
    check(&death, "spins_for_the_environment");
    assert!(death.text.contains("no end after 0.5 s"), "{}", death.text);
    for bad in ["0s", "soon", "-3", "5"] {
        let death = death_of(
            "spins_for_the_environment",
            &[("SHAKETABLE_HANG_LIMIT", bad)],
        );
        let words = format!(
            "SHAKETABLE_HANG_LIMIT: expected a time such as 30s or 5m, or off, found `{bad}`: "
        );
        assert!(death.text.contains(&words), "{}", death.text);
    }
}

/// A case that was kept runs before all seeds; what it does to the process is reported as its own.
#[test]
fn a_case_that_ends_the_process_is_reported_as_the_case() {
    let case = format!("shaketable-dying-case-{}.toml", std::process::id());
    let case = std::env::temp_dir().join(case);
    std::fs::write(&case, "[case]\ncargoTest = \"segfaults\"\nseed = 3\n").unwrap();
    let outcome = case.with_extension("json");
    let environment = [
        ("SHAKETABLE_CASE", case.to_str().unwrap()),
        ("SHAKETABLE_OUTCOME", outcome.to_str().unwrap()),
    ];
    let death = death_of("segfaults", &environment);
    let text = &death.text;
    assert_eq!(death.status.signal(), Some(11), "{text}");
    let told = std::fs::read_to_string(&outcome).unwrap();
    std::fs::remove_file(&case).unwrap();
    std::fs::remove_file(&outcome).unwrap();
    assert!(text.contains("`segfaults` fails with seed 3"), "{text}");
    assert!(
        text.contains("the process was ended by SIGSEGV (11)"),
        "{text}"
    );
    let replay = format!("SHAKETABLE_CASE={} cargo test", case.display());
    assert!(text.contains(&replay), "{text}");
    assert!(
        text.contains(&format!("known already: {}", case.display())),
        "{text}"
    );
    assert!(told.contains("ended by SIGSEGV"), "{told}");
    // It is a case already, and no other is kept.
    assert_eq!(death.regressions, "");
}

#[test]
fn a_signal_from_outside_lists_the_seeds_that_are_running_and_keeps_none() {
    let death = death_of("is_ended_from_outside", &[]);
    let text = &death.text;
    assert_eq!(death.status.signal(), Some(15), "{text}");
    assert!(
        text.contains("this process is ended by SIGTERM (15), while these were running:"),
        "{text}"
    );
    assert!(
        text.contains("seed 7 of `is_ended_from_outside`: SHAKETABLE_SEED=7 cargo test"),
        "{text}"
    );
    assert_eq!(death.regressions, "");
}

#[test]
#[should_panic(expected = "the hang limit of a Simulation is zero")]
fn a_limit_of_nothing_is_refused() {
    let _ = Simulation::new().hang_limit(Duration::ZERO);
}
