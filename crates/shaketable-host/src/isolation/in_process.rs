//! Seeds on threads of one process: what a test program does.
//!
//! Every seed has a fresh thread, for a thread remembers things, such as the keys of its
//! `HashMap`s. The thread that started it waits, and is the watchdog at the same time: a seed that
//! takes longer than the limit is first asked to end by itself, which it does if its simulation
//! still proceeds, and then given up. Its thread goes on, at the lowest priority, for nothing can
//! end a thread from outside; but the test fails with a report, and other tests continue.
//!
//! A seed that ends the whole process is recorded by another process of the same program
//! (`watched/`). That one is told what to do by its environment and its standard input, and asks
//! for it with [`DeathToRecord::find`].

#![expect(
    clippy::disallowed_methods,
    reason = "the limit of a seed is one of real time, and measured outside of it"
)]

use super::death::{self, Death};
use super::fork::{LOOK_AGAIN_AFTER, TIME_TO_REACT, TIME_TO_REPORT};
use super::watched::{self, DEATH_VARIABLE, Printed, RECORDED, Texts, Watched};
use super::{RECORDED_TIME_MIN, last_words};
use crate::call_site;
use crate::hermetic::output;
use crate::plan::{Plan, Recording};
use crate::verdict::Outcome;
use shaketable_kernel::Time;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Simulates a seed on the thread that calls it.
pub type Work = Arc<dyn Fn(u64, &Recording) -> Outcome + Send + Sync>;

/// A process in which seeds run on threads.
pub struct InProcess {
    plan: Arc<Plan>,
    work: Work,
    hang_limit: Duration,
}

/// A seed, and what is said about it if it ends the process.
#[derive(Debug, Clone, Copy)]
pub struct Seed<'a> {
    /// The seed.
    pub seed: u64,
    /// The name of the simulation.
    pub name: &'a str,
    /// The name by which the test program runs the test alone, if it has one.
    pub test: Option<&'a str>,
    /// How many simulations the test ran before this one.
    pub simulation: u32,
    /// How many seeds of this simulation have passed.
    pub passed: u32,
    /// The line that runs the seed again.
    pub replay: &'a str,
    /// The folder for everything about the seed.
    pub folder: &'a Path,
    /// The file that keeps the seed if it is new, and what is written to it.
    pub regression: Option<(&'a Path, &'a str)>,
    /// What is shown of what it prints.
    pub output: Output,
}

impl Seed<'_> {
    /// Prepares what is said if it ends the process.
    fn watched(&self) -> &'static Watched {
        let watched = Watched::take();
        let texts = Texts {
            name: self.name,
            test: self.test.unwrap_or_default(),
            replay: self.replay,
            folder: self.folder.as_os_str().as_bytes(),
            regressions: self
                .regression
                .map_or(&[], |(file, _)| file.as_os_str().as_bytes()),
            regression: self.regression.map_or("", |(_, line)| line),
        };
        watched.prepare(&texts, self.seed, self.passed, self.simulation);
        watched
    }
}

/// A seed that failed, before there is a record of it.
#[derive(Debug)]
pub struct Failing {
    outcome: Outcome,
    /// How far it came, if it had to be ended.
    time: Option<Time>,
}

/// What is shown of what a seed prints. It is never shown twice, although a seed that fails is run
/// twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// All of it: one seed is looked at.
    Shown,
    /// Nothing, unless it fails: it is one of many.
    OfFailure,
}

/// As large as a main thread's: the code under test may rely on it.
const STACK_BYTES: usize = 8 << 20;
/// How long a thread may take to say where it is.
const TIME_TO_LOOK: Duration = Duration::from_millis(500);

/// How a thread ended.
enum End {
    Reported(Outcome),
    /// It took longer than allowed, and reported when it was asked to end.
    ReportedLate(Outcome),
    /// It did not end.
    Hung,
}

impl InProcess {
    /// Prepares this process to run seeds of a plan. One that takes longer than `hang_limit` of
    /// real time has failed.
    pub fn prepare(plan: Arc<Plan>, hang_limit: Duration, work: Work) -> InProcess {
        watched::install();
        InProcess {
            plan,
            work,
            hang_limit,
        }
    }

    /// Simulates a seed. If it fails, [`InProcess::run_again`] makes its record, which would cost
    /// too much every time.
    pub fn run_seed(
        &self,
        seed: &Seed<'_>,
        recording: &Recording,
    ) -> Result<Outcome, Box<Failing>> {
        let watched = seed.watched();
        let printed = match seed.output {
            Output::Shown => Printed::Shown,
            Output::OfFailure => Printed::Held,
        };
        let run = (seed.name, seed.seed, printed);
        let (outcome, time) = match self.run_once(watched, run, recording, self.hang_limit) {
            End::Reported(outcome) => (outcome, None),
            End::ReportedLate(outcome) => {
                let outcome = death::too_late(outcome, self.hang_limit);
                (outcome, Some(watched.beacon.time()))
            }
            End::Hung => {
                let outcome = self.outcome(&Death::Hung, watched, seed.seed, recording);
                let time = Some(watched.beacon.time());
                // Its thread keeps what it has.
                return Err(Box::new(Failing { outcome, time }));
            }
        };
        watched.give_back();
        match outcome.passed() {
            true => Ok(outcome),
            false => Err(Box::new(Failing { outcome, time })),
        }
    }

    /// Simulates a seed that failed once more, with a record.
    pub fn run_again(&self, seed: &Seed<'_>, failing: Failing, recording: &Recording) -> Outcome {
        let watched = seed.watched();
        let printed = match seed.output {
            Output::Shown => Printed::Held,
            Output::OfFailure => Printed::Shown,
        };
        let Failing { outcome, time } = failing;
        let Some(time) = time else {
            let limit = self.hang_limit.max(RECORDED_TIME_MIN);
            let run = (seed.name, seed.seed, printed);
            let outcome = match self.run_once(watched, run, recording, limit) {
                End::Reported(again) if again.failures == outcome.failures => again,
                End::Hung => {
                    // Its thread keeps what it has.
                    return unlike_before(outcome);
                }
                End::Reported(_) | End::ReportedLate(_) => unlike_before(outcome),
            };
            watched.give_back();
            return outcome;
        };
        self.with_record(watched, (seed.name, printed), outcome, time, recording)
    }

    /// Simulates a seed once, keeps nothing of it and shows nothing of what it prints. Returns
    /// nothing if it does not end in time. If it ends the process, that is said with this name and
    /// this line.
    pub fn try_seed(
        &self,
        name: &str,
        replay: &str,
        seed: u64,
        recording: &Recording,
    ) -> Option<Outcome> {
        let watched = Watched::take();
        let texts = Texts {
            name,
            test: "",
            replay,
            folder: &[],
            regressions: &[],
            regression: "",
        };
        watched.prepare(&texts, seed, 0, 0);
        let run = (name, seed, Printed::Held);
        let End::Reported(outcome) = self.run_once(watched, run, recording, self.hang_limit) else {
            return None;
        };
        watched.give_back();
        Some(outcome)
    }

    /// Adds the record and the trace of the same run up to this moment, before which it is ended.
    fn with_record(
        &self,
        watched: &'static Watched,
        (name, printed): (&str, Printed),
        mut outcome: Outcome,
        time: Time,
        recording: &Recording,
    ) -> Outcome {
        let Some(mut until) = recording.until_death(time, &outcome.failures) else {
            return outcome;
        };
        if let (Recording::Trace { path, .. }, Recording::Trace { path: wanted, .. }) =
            (&mut until, recording)
        {
            path.clone_from(wanted);
        }
        let limit = self.hang_limit.max(RECORDED_TIME_MIN);
        match self.run_once(watched, (name, outcome.seed, printed), &until, limit) {
            End::Reported(mut recorded) => {
                outcome.trace = recorded.trace.take();
                outcome.errors = std::mem::take(&mut recorded.errors);
                death::add_record(&mut outcome, recorded);
            }
            End::ReportedLate(_) | End::Hung => return unlike_before(outcome),
        }
        outcome
    }

    fn outcome(
        &self,
        death: &Death,
        watched: &Watched,
        seed: u64,
        recording: &Recording,
    ) -> Outcome {
        let beacon = &watched.beacon;
        Outcome {
            stack: call_site::author_lines(&watched.frames()),
            ..death::outcome(death, beacon, &self.plan, seed, recording, self.hang_limit)
        }
    }

    /// Simulates a seed on a fresh thread that is called as its test is.
    fn run_once(
        &self,
        watched: &'static Watched,
        (name, seed, printed): (&str, u64, Printed),
        recording: &Recording,
        limit: Duration,
    ) -> End {
        let (sender, receiver) = channel();
        let work = self.work.clone();
        let recorded = recording.clone();
        let start = || {
            thread::Builder::new()
                .name(name.replace('\0', " "))
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    let outcome = watched.run(STACK_BYTES, printed, || work(seed, &recorded));
                    // One that was given up has no receiver.
                    let _ = sender.send(outcome);
                })
                .expect("a thread can be started")
        };
        let thread = match printed {
            Printed::Shown => start(),
            Printed::Held => output::uncaptured(start),
        };
        let (outcome, late) = match wait(&receiver, limit) {
            Err(RecvTimeoutError::Timeout) => {
                watched.ask_to_end();
                match wait_for_report(&receiver, watched) {
                    Err(RecvTimeoutError::Timeout) => {
                        watched.ask_where();
                        let _ = receiver.recv_timeout(TIME_TO_LOOK);
                        watched.step_back();
                        return End::Hung;
                    }
                    ended => (ended, true),
                }
            }
            ended => (ended, false),
        };
        if let Err(panic) = thread.join() {
            // A panic of the simulator: those of the code under test are caught. Its message must
            // be seen.
            if printed == Printed::Held {
                return self.run_once(watched, (name, seed, Printed::Shown), recording, limit);
            }
            std::panic::resume_unwind(panic);
        }
        let outcome = outcome.expect("a thread that did not panic has reported");
        match late {
            true => End::ReportedLate(outcome),
            false => End::Reported(outcome),
        }
    }
}

fn unlike_before(mut outcome: Outcome) -> Outcome {
    outcome
        .uncontrolled
        .push("failed differently, or not at all, when it was run again".to_owned());
    outcome
}

/// Waits for the limit; without one while a debugger is attached.
fn wait(outcome: &Receiver<Outcome>, limit: Duration) -> Result<Outcome, RecvTimeoutError> {
    loop {
        match outcome.recv_timeout(limit) {
            Err(RecvTimeoutError::Timeout) if is_debugged() => {}
            end => return end,
        }
    }
}

fn is_debugged() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let tracer = lines.find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

/// Waits for one that was asked to end, for as long as a report can be expected.
fn wait_for_report(
    outcome: &Receiver<Outcome>,
    watched: &Watched,
) -> Result<Outcome, RecvTimeoutError> {
    let asked = Instant::now();
    loop {
        match outcome.recv_timeout(LOOK_AGAIN_AFTER) {
            Err(RecvTimeoutError::Timeout) => {
                let enough = match watched.beacon.is_reporting() {
                    true => TIME_TO_REPORT,
                    false => TIME_TO_REACT,
                };
                if asked.elapsed() >= enough {
                    return Err(RecvTimeoutError::Timeout);
                }
            }
            end => return end,
        }
    }
}

/// A limit as it is written in an environment variable: `30s`, `5m`, or `off`.
pub fn parse_hang_limit(text: &str) -> Result<Option<Duration>, String> {
    if text == "off" {
        return Ok(None);
    }
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("a seed needs more than no time at all".to_owned()),
        Ok(limit) => Ok(Some(limit)),
        Err(error) => Err(error.to_string()),
    }
}

/// The death of another process of this program, which this one was started to record.
pub struct DeathToRecord(&'static Watched);

static DEATH: OnceLock<Option<Box<Watched>>> = OnceLock::new();

/// Whether this process was started to record the death of another.
pub(super) fn records_a_death() -> bool {
    matches!(DEATH.get(), Some(Some(_)))
}

impl DeathToRecord {
    /// The death to be recorded by this simulation, if there is one.
    pub fn find(name: &str, simulation: u32) -> Option<DeathToRecord> {
        let death = DEATH.get_or_init(|| {
            std::env::var_os(DEATH_VARIABLE)?;
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).ok()?;
            Watched::read(&bytes)
        });
        let death = death.as_deref()?;
        let is_it = death.name.read() == name.as_bytes()
            && death.simulation.load(Ordering::Relaxed) == simulation;
        is_it.then_some(DeathToRecord(death))
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.0.seed.load(Ordering::Relaxed)
    }

    /// How many seeds had passed before it.
    pub fn passed(&self) -> u32 {
        self.0.passed.load(Ordering::Relaxed)
    }

    /// The file to which the seed was written; none if it was known.
    pub fn kept_in(&self) -> std::io::Result<Option<PathBuf>> {
        match self.0.kept.load(Ordering::Relaxed) {
            0 if self.0.is_new() => {
                let mut path = self.0.regressions.read();
                path.retain(|byte| *byte != 0);
                Ok(Some(PathBuf::from(OsString::from_vec(path))))
            }
            0 => Ok(None),
            error => Err(std::io::Error::from_raw_os_error(error)),
        }
    }

    /// Simulates the seed up to the moment before the death, with a record.
    pub fn record(&self, seeds: &InProcess, recording: &Recording) -> Outcome {
        let message = self.0.beacon.last_message();
        let death = match self.0.signal.load(Ordering::Relaxed) {
            0 => Death::Exited(self.0.status.load(Ordering::Relaxed)),
            libc::SIGABRT if !message.is_empty() => Death::Refused(message),
            number => Death::Signal {
                number,
                name: last_words::signal_name(number),
                reason: message,
            },
        };
        let outcome = seeds.outcome(&death, self.0, self.seed(), recording);
        let name = String::from_utf8_lossy(&self.0.name.read()).into_owned();
        let time = self.0.beacon.time();
        let run = (name.as_str(), Printed::Shown);
        seeds.with_record(Watched::take(), run, outcome, time, recording)
    }

    /// Writes the report, and ends this process: it has no other purpose.
    pub fn end(self, report: &str) -> ! {
        // Past what captures the output of tests.
        let _ = std::io::stderr().write_all(report.as_bytes());
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(RECORDED) }
    }
}
