//! A process of its own for each seed, and a verdict whatever happens to it.
//!
//! Code under test may crash, loop without end or call `exit`. So a seed is simulated in a fork
//! (`fork.rs`): the parent has loaded the library already, and the child starts with everything in
//! place. The child reports its [`Outcome`] through a pipe. When it dies without a report, the
//! parent reads where it was from a page of memory that both share (`beacon.rs`), where its signal
//! handlers and its panic hook have left their last words too (`last_words.rs`), and makes an
//! outcome of that (`death.rs`).
//!
//! What this promises: [`Isolation::run_seed`] returns an outcome for every seed, and nothing that
//! the code under test does to its process reaches the next seed. It is the only place where the
//! verdict about a process is built. It must not be used in a process with several threads: a fork
//! would inherit locks that are held, and never see them released.
//!
//! A test program has several threads, and a debugger should find the code under test in it. There
//! a seed runs on a thread ([`InProcess`], `in_process.rs`), and what would end the process is
//! noticed by it alone (`watched/`).

pub(crate) mod beacon;
mod code;
mod copy_cost;
mod death;
mod fates;
mod fork;
mod futures;
mod in_process;
mod last_words;
mod mapped;
mod trunk;
mod watched;

pub use copy_cost::CopyCost;
pub(crate) use fork::ends_with_its_seed;
pub use in_process::{DeathToRecord, Failing, InProcess, Output, Seed, Work, parse_hang_limit};

/// Whether the simulation on this thread was asked to end by itself.
pub(crate) fn is_asked_to_end() -> bool {
    last_words::is_asked_to_end() || watched::is_asked_to_end()
}

use crate::call_site::{self, place_at};
use crate::coverage;
use crate::heap;
use crate::plan::{Plan, Recording, Settings};
use crate::verdict::Outcome;
use beacon::Beacon;
use death::Death;
use fork::{Child, ChildEnd, Fork, Words};
use nix::sys::signal::{SigHandler, Signal};
use shaketable_record::Place;
use std::cell::Cell;
use std::io;
use std::time::Duration;

/// Whether an address is certainly none of the code under test: it is the C library's, or the
/// program's where seeds have a process of their own, because that has code under test in libraries
/// alone.
pub(crate) fn is_foreign(address: usize) -> bool {
    last_words::is_in_c_library(address)
        || Beacon::is_shared() && last_words::is_in_program(address)
}

/// How much memory a seed's process may use; fdbserver's own limit.
const MEMORY_BYTES_MAX: u64 = 8 << 30;

/// After how many forks a process counts as one that forks often.
const FORKS_MANY: usize = 50;

/// What a seed may take at least if it is recorded.
const RECORDED_TIME_MIN: Duration = Duration::from_secs(10);

/// A process that is ready to fork for seeds.
pub struct Isolation {
    time_limit: Duration,
    /// How many forks there will be before the code is worth copying.
    forks_left: Cell<usize>,
}

impl Isolation {
    /// Prepares this process, which must have one thread and a parent that decides when it ends. A
    /// seed that takes more than `time_limit` of real time is killed.
    pub fn prepare(time_limit: Duration) -> io::Result<Isolation> {
        live_under_parent()?;
        limit_resources(MEMORY_BYTES_MAX)?;
        last_words::install(crate::tester::current_client)?;
        Beacon::share()?;
        heap::prepare_ground()?;
        coverage::prepare();
        // The processor's features are detected once here, and not again in every fork: on virtual
        // machines that takes long.
        #[cfg(target_arch = "x86_64")]
        let _ = std::is_x86_feature_detected!("avx2");
        Ok(Isolation {
            time_limit,
            forks_left: Cell::new(FORKS_MANY),
        })
    }

    /// Simulates a seed in a process of its own.
    pub fn run_seed(
        &self,
        plan: &Plan,
        settings: &Settings,
        seed: u64,
        recording: &Recording,
    ) -> Ended {
        self.count_forks(recording);
        let outcome = match recording {
            Recording::Futures(futures) => self.run_futures(plan, settings, seed, futures),
            Recording::Fates(fates) => self.run_fates(plan, settings, seed, fates),
            _ => match self.run_once(plan, settings, seed, recording) {
                passed @ Ended::Passed(_) => return passed,
                Ended::Outcome(outcome) => {
                    self.add_missing(*outcome, plan, settings, seed, recording)
                }
            },
        };
        Ended::Outcome(Box::new(outcome))
    }

    /// Adds what the process of a seed could not find out, or not report.
    fn add_missing(
        &self,
        mut outcome: Outcome,
        plan: &Plan,
        settings: &Settings,
        seed: u64,
        recording: &Recording,
    ) -> Outcome {
        settle(&mut outcome);
        if outcome.record.is_none()
            && !outcome.passed()
            && let Some(again) = recording.until_death(Beacon::current().time(), &outcome.failures)
        {
            // The process died with its record. The same seed lives again up to that moment.
            let again = self.run_once(plan, settings, seed, &again);
            death::add_record(&mut outcome, again.into_outcome(seed));
        }
        outcome
    }

    fn count_forks(&self, recording: &Recording) {
        let forks = match recording {
            Recording::Futures(futures) => futures.moments.len() * futures.seeds.len(),
            Recording::Fates(fates) => fates.tries.len(),
            _ => 1,
        };
        let before = self.forks_left.get();
        self.forks_left.set(before.saturating_sub(forks));
        if before > 0 && self.forks_left.get() == 0 {
            code::make_inheritable();
            heap::collapse_ground();
        }
    }

    /// How long a seed may take. Looking up lines for a record takes a while by itself.
    fn limit(&self, recording: &Recording) -> Duration {
        match recording.is_of_transactions() {
            true => self.time_limit.max(RECORDED_TIME_MIN),
            false => self.time_limit,
        }
    }

    fn run_once(
        &self,
        plan: &Plan,
        settings: &Settings,
        seed: u64,
        recording: &Recording,
    ) -> Ended {
        let child = Child::fork(|| report(crate::simulate(plan, settings, seed, recording)));
        let judge = Judge {
            plan,
            seed,
            recording,
            time_limit: self.time_limit,
        };
        match child.and_then(|child| child.wait(self.limit(recording))) {
            Ok(ChildEnd::Reported(report)) if says_all(&report) => Ended::Passed(Passed(report)),
            end => Ended::Outcome(Box::new(judge.outcome(end))),
        }
    }
}

/// What a seed came to.
#[derive(Debug)]
pub enum Ended {
    /// It passed, and its process has said all there is to say.
    Passed(Passed),
    /// The outcome.
    Outcome(Box<Outcome>),
}

impl Ended {
    /// Whether the seed passed.
    pub fn passed(&self) -> bool {
        match self {
            Ended::Passed(_) => true,
            Ended::Outcome(outcome) => outcome.passed(),
        }
    }

    fn into_outcome(self, seed: u64) -> Outcome {
        match self {
            Ended::Passed(passed) => read_outcome(seed, passed.json()),
            Ended::Outcome(outcome) => *outcome,
        }
    }
}

/// What the process of a seed that passed has reported. No other seed can be run as cheaply while
/// this is kept: it lies where the next process would have its memory.
#[derive(Debug)]
pub struct Passed(Words);

impl Passed {
    /// The outcome of the seed, as JSON.
    pub fn json(&self) -> &[u8] {
        json_of(&self.0)
    }
}

/// What a report begins with that nobody needs to read, before its JSON.
const SAYS_ALL: u8 = b'+';

/// What the process of a seed reports. Most seeds pass and meet no line of code that is not known
/// yet. Their counts become lines here, and their parent passes the report on as it is: to read it
/// there means to write to pages that were just lent to a fork.
fn report(mut outcome: Outcome) -> Vec<u8> {
    let found = !outcome.frames_found.is_empty() || !outcome.lines_found.is_empty();
    let mut report = Vec::new();
    if outcome.passed() && !found && coverage::settle_known(&mut outcome) {
        report.push(SAYS_ALL);
    }
    match serde_json::to_writer(&mut report, &outcome) {
        Ok(()) => report,
        // An empty report cannot be read, and is reported as such.
        Err(_) => Vec::new(),
    }
}

fn says_all(report: &[u8]) -> bool {
    report.first() == Some(&SAYS_ALL)
}

/// The JSON of a report.
fn json_of(report: &[u8]) -> &[u8] {
    report.strip_prefix(&[SAYS_ALL]).unwrap_or(report)
}

fn read_outcome(seed: u64, json: &[u8]) -> Outcome {
    serde_json::from_slice(json).unwrap_or_else(|error| {
        let message = format!("the report of the seed's process is not whole: {error}");
        Outcome::simulator_fault(seed, message)
    })
}

/// How long it may take to look lines up.
const LINES_TIME_MAX: Duration = Duration::from_secs(60);

/// Turns the counts of an outcome into lines, in a process that forks for seeds.
///
/// Lines that are new are looked up in a fork. The debug information of a library takes megabytes
/// once it was read, and all later forks would have to be told about each page of it.
fn settle(outcome: &mut Outcome) {
    let unknown = call_site::unknown(coverage::addresses(outcome));
    if !unknown.is_empty()
        && let Ok(places) = look_up(&unknown)
    {
        call_site::learn(places);
    }
    coverage::settle(outcome);
}

/// Looks lines up in a process of its own. If that fails, the caller can still do it itself.
fn look_up(addresses: &[usize]) -> io::Result<Vec<(usize, Option<Place>)>> {
    match Child::branch()? {
        Fork::Child(report) => {
            let places = addresses
                .iter()
                .map(|address| (*address, place_at(*address)));
            let places: Vec<(usize, Option<Place>)> = places.collect();
            report.send(serde_json::to_vec(&places).unwrap_or_default())
        }
        Fork::Parent(child) => match child.wait(LINES_TIME_MAX)? {
            ChildEnd::Reported(report) => Ok(serde_json::from_slice(&report)?),
            ChildEnd::ReportedLate(_) | ChildEnd::Died(_) => Err(io::Error::other(
                "the lines of the code under test were not found",
            )),
        },
    }
}

/// Makes an outcome of the end of a process.
struct Judge<'a> {
    plan: &'a Plan,
    seed: u64,
    recording: &'a Recording,
    time_limit: Duration,
}

impl Judge<'_> {
    fn outcome(&self, end: io::Result<ChildEnd>) -> Outcome {
        let died = |death: &Death| Outcome {
            stack: last_words::stack(),
            ..death::outcome(
                death,
                Beacon::current(),
                self.plan,
                self.seed,
                self.recording,
                self.time_limit,
            )
        };
        match end {
            Ok(ChildEnd::Reported(report)) => {
                let mut outcome = read_outcome(self.seed, &report);
                coverage::learn(&std::mem::take(&mut outcome.frames_found));
                call_site::learn(std::mem::take(&mut outcome.lines_found));
                outcome
            }
            Ok(ChildEnd::ReportedLate(report)) => match serde_json::from_slice(json_of(&report)) {
                Ok(outcome) => death::too_late(outcome, self.time_limit),
                Err(_) => died(&Death::Hung),
            },
            Ok(ChildEnd::Died(death)) => died(&death),
            Err(error) => Outcome::simulator_fault(
                self.seed,
                format!("the seed cannot have a process of its own: {error}"),
            ),
        }
    }
}

/// Leaves it to the parent when to end: an interrupt from the terminal is ignored, the parent's
/// death is not survived.
fn live_under_parent() -> io::Result<()> {
    // SAFETY: ignoring a signal runs nothing.
    unsafe { nix::sys::signal::signal(Signal::SIGINT, SigHandler::SigIgn) }?;
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    Ok(())
}

/// Keeps crashes of code under test from writing core files, and its memory from taking the
/// machine's.
fn limit_resources(memory_bytes: u64) -> io::Result<()> {
    use nix::sys::resource::{Resource, setrlimit};
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    setrlimit(Resource::RLIMIT_AS, memory_bytes, memory_bytes)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Runs in a process of its own, with one thread: see the test below.
    #[test]
    #[ignore = "forks, which the test below does in a process with one thread"]
    fn a_fork_that_panics() {
        Isolation::prepare(Duration::from_secs(60)).unwrap();
        let child = Child::fork(|| panic!("slot {} is empty", 7)).unwrap();
        let end = child.wait(Duration::from_secs(60)).unwrap();
        let ChildEnd::Died(Death::Panicked(words)) = end else {
            panic!("{end:?}");
        };
        let place = words.strip_suffix(": slot 7 is empty").expect(&words);
        assert!(place.contains("isolation/mod.rs:"), "{place}");
    }

    #[test]
    fn a_panic_of_the_simulator_is_told_with_message_and_place() {
        let name = "isolation::tests::a_fork_that_panics";
        let output = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--ignored", "--test-threads=1"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}"
        );
    }
}
