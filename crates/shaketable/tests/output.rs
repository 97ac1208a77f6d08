//! Of what many seeds print, a test shows what the failing one printed, once.
//!
//! The tests that print are ignored; others run this program again for each of them, with and
//! without the test runner's capture.

#![expect(
    clippy::disallowed_methods,
    reason = "what a thread of the code under test prints is held back, too"
)]

use shaketable::{Faults, PhaseResult, SimDatabase, Simulation, WorkloadContext};
use std::process::{Command, Stdio};

/// Prints in several ways. Every run has a number, and some numbers end badly.
fn prints(is_bad: fn(i64) -> bool, end: fn(i64) -> PhaseResult) {
    Simulation::new()
        .seeds(1..=40)
        .clients(1)
        .faults(Faults::none())
        .without_regressions()
        .test(
            async move |db: SimDatabase, context: WorkloadContext| -> PhaseResult {
                let number = context.shared_random_number();
                println!("[out of {number}]");
                eprintln!("[err of {number}]");
                print!("[half a line of {number}]");
                db.run(|trx, _| async move {
                    trx.set(b"key", b"value");
                    Ok(())
                })
                .await?;
                let thread = std::thread::spawn(move || println!("[thread of {number}]"));
                thread.join().expect("it only prints");
                match is_bad(number) {
                    true => end(number),
                    false => Ok(()),
                }
            },
        );
}

#[test]
#[ignore = "prints"]
fn passes() {
    prints(|_| false, |_| Ok(()));
}

#[test]
#[ignore = "fails"]
fn fails() {
    prints(
        |number| number % 8 == 0,
        |number| Err(format!("number {number} is bad").into()),
    );
}

#[test]
#[ignore = "fails"]
fn panics() {
    prints(
        |number| number % 8 == 0,
        |number| panic!("number {number} is bad"),
    );
}

#[test]
#[ignore = "dies"]
fn dies() {
    prints(
        |number| number % 8 == 0,
        |number| {
            eprintln!("[number {number} is bad]");
            std::process::abort()
        },
    );
}

/// All that one of the tests above prints.
fn output_of(test: &str, arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored"])
        .args(arguments)
        .envs(environment.iter().copied())
        .env_remove("NEXTEST")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    text.concat()
}

/// The number that the test says is bad.
fn bad_number(text: &str) -> &str {
    let (_, rest) = text.split_once("number ").expect(text);
    let (number, _) = rest.split_once(" is bad").expect(text);
    number
}

fn assert_printed_once(text: &str, what: &str) {
    assert_eq!(text.matches(what).count(), 1, "{what}\n{text}");
}

const LINES: [&str; 2] = ["out", "err"];
const ALL: [&str; 3] = ["out", "err", "half a line"];

/// That what this number printed is shown once, and nothing else.
fn assert_only(kinds: &[&str], number: &str, text: &str) {
    for kind in kinds {
        assert_printed_once(text, &format!("[{kind} of "));
        assert_printed_once(text, &format!("[{kind} of {number}]"));
    }
}

#[test]
fn what_passing_seeds_print_is_not_shown() {
    for arguments in [&["--show-output"][..], &["--nocapture"]] {
        let text = output_of("passes", arguments, &[]);
        assert!(text.contains("1 passed"), "{text}");
        assert!(!text.contains(" of "), "{text}");
    }
}

#[test]
fn what_the_failing_seed_prints_is_shown_once() {
    for test in ["fails", "panics"] {
        for arguments in [&[][..], &["--nocapture"]] {
            let text = output_of(test, arguments, &[]);
            assert_only(&ALL, bad_number(&text), &text);
            assert_printed_once(&text, "[thread of ");
        }
    }
}

#[test]
fn what_one_seed_prints_is_shown_once() {
    let text = output_of("passes", &["--nocapture"], &[("SHAKETABLE_SEED", "3")]);
    assert_printed_once(&text, "[out of ");
    assert_printed_once(&text, "[thread of ");
    let failing = output_of("fails", &[], &[]);
    let (_, seed) = failing.split_once("SHAKETABLE_SEED=").expect(&failing);
    let (seed, _) = seed.split_once(' ').expect(&failing);
    let text = output_of("fails", &[], &[("SHAKETABLE_SEED", seed)]);
    assert_only(&ALL, bad_number(&text), &text);
}

/// The test runner loses what it captured. Half a line is lost with the process.
#[test]
fn what_a_seed_printed_before_it_ended_the_process_is_shown() {
    let text = output_of("dies", &[], &[]);
    assert_printed_once(&text, "it had printed:");
    assert_only(&LINES, bad_number(&text), &text);
}
