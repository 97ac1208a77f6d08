//! A worker: one process with one thread that has loaded the libraries and forks for each seed.
//!
//! Loading and parsing happen once; a seed costs a fork and the simulation. The code under test runs in the fork alone, so whatever it does to its
//! process is a verdict about one seed.

use crate::protocol::{Job, RawResponse, Ready, Request};
use serde::Serialize;
use serde_json::value::RawValue;
use shaketable_host::heap;
use shaketable_host::isolation::beacon::Beacon;
use shaketable_host::isolation::last_words;
use shaketable_host::isolation::process::{self, Child, End};
use shaketable_host::plan::{Plan, Recording};
use shaketable_host::testfile::TestFile;
use shaketable_host::verdict::{Failure, FailureKind, Outcome, Phase};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a seed's process may take of the machine's memory; fdbserver's own limit.
const MEMORY_BYTES_MAX: u64 = 8 << 30;
/// How much of what the code under test printed is kept.
const PRINTED_BYTES_MAX: u64 = 16 * 1024;

/// Serves the process at the other end of standard input, until it hangs up.
pub fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shaketable worker: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut out = socket.try_clone()?;
    let mut lines = BufReader::new(socket).lines();
    let Some(first) = lines.next() else {
        return Ok(());
    };
    let job: Job = serde_json::from_str(&first?)?;
    let worker = match Worker::prepare(job) {
        Ok(worker) => worker,
        Err(error) => return send(&mut out, &Ready { error: Some(error) }),
    };
    send(&mut out, &Ready { error: None })?;
    for line in lines {
        let request: Request = serde_json::from_str(&line?)?;
        worker.answer(&request, &mut out)?;
    }
    Ok(())
}

fn send(out: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    out.write_all(&line)
}

struct Worker {
    job: Job,
    plans: Vec<Plan>,
    /// Where standard output and error of the code under test go, when they are kept.
    printed: Option<File>,
}

impl Worker {
    fn prepare(job: Job) -> Result<Worker, String> {
        let printed =
            set_up(job.capture).map_err(|error| format!("cannot set up a worker: {error}"))?;
        let mut plans = Vec::new();
        for file in &job.files {
            let test_file = TestFile::read(&file.path).map_err(|error| error.to_string())?;
            plans.push(Plan::load(test_file, &file.built).map_err(|error| error.to_string())?);
        }
        Ok(Worker {
            job,
            plans,
            printed,
        })
    }

    fn answer(&self, request: &Request, out: &mut impl Write) -> io::Result<()> {
        self.forget_printed()?;
        let plan = &self.plans[request.file];
        let start = Instant::now();
        let child = Child::fork(|| {
            let mut outcome = shaketable_host::simulate(
                plan,
                &self.job.settings,
                request.seed,
                &request.recording,
            );
            if let Recording::Trace { path, .. } = &request.recording {
                outcome.trace = Some(path.display().to_string());
            }
            serde_json::to_vec(&outcome).unwrap_or_default()
        })?;
        let end = child.wait(Duration::from_secs_f64(self.job.hang_limit_seconds))?;
        let real_seconds = start.elapsed().as_secs_f64();
        let report = match end {
            End::Reported(report) => String::from_utf8(report).map_err(io::Error::other)?,
            end => serde_json::to_string(&self.outcome_of_death(plan, request, &end))?,
        };
        let outcome: &RawValue = serde_json::from_str(&report)?;
        let failed = !report.contains("\"failures\":[]");
        send(
            out,
            &RawResponse {
                file: request.file,
                real_seconds,
                printed: if failed {
                    self.read_printed()?
                } else {
                    String::new()
                },
                outcome,
            },
        )
    }

    /// The outcome of a process that could not write one.
    fn outcome_of_death(&self, plan: &Plan, request: &Request, end: &End) -> Outcome {
        let position = Beacon::position();
        let (kind, message) = describe_death(end, position.phase, self.job.hang_limit_seconds);
        let test = &plan.file.tests[position.test.min(plan.file.tests.len() - 1)];
        let workload = test.workloads.get(position.workload);
        let workload = workload.map(|workload| match workload.option("workloadName") {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => workload.name.clone(),
        });
        let trace = match &request.recording {
            Recording::Trace { path, .. } => Some(path.display().to_string()),
            _ => None,
        };
        // What failed before the end is more likely to be the cause than the end is.
        let mut failures = Beacon::failures();
        failures.push(Failure {
            kind,
            test: test.title.clone(),
            workload: workload.unwrap_or_default(),
            phase: position.phase,
            client: position.client,
            time: position.time,
            message,
        });
        Outcome {
            seed: request.seed,
            failures,
            simulated_seconds: position.time,
            stack: last_words::stack(),
            trace,
            ..Outcome::default()
        }
    }

    fn forget_printed(&self) -> io::Result<()> {
        if let Some(mut printed) = self.printed.as_ref() {
            printed.set_len(0)?;
            printed.seek(SeekFrom::Start(0))?;
        }
        Ok(())
    }

    /// What the code under test printed; of much, the beginning and the end.
    fn read_printed(&self) -> io::Result<String> {
        let Some(mut printed) = self.printed.as_ref() else {
            return Ok(String::new());
        };
        let length = printed.metadata()?.len();
        let mut bytes = Vec::new();
        printed.seek(SeekFrom::Start(0))?;
        if length > PRINTED_BYTES_MAX {
            printed
                .take(PRINTED_BYTES_MAX / 2)
                .read_to_end(&mut bytes)?;
            bytes.extend_from_slice("\n…\n".as_bytes());
            printed.seek(SeekFrom::Start(length - PRINTED_BYTES_MAX / 2))?;
        }
        printed.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Prepares the process; answers with the file that keeps what is printed.
fn set_up(capture: bool) -> io::Result<Option<File>> {
    process::live_under_parent()?;
    process::limit_resources(MEMORY_BYTES_MAX)?;
    last_words::install(shaketable_host::current_client)?;
    Beacon::share()?;
    heap::prepare_ground()?;
    // What the processor can do is found out once here, and not again in every fork: virtual machines take long to answer.
    #[cfg(target_arch = "x86_64")]
    let _ = std::is_x86_feature_detected!("avx2");
    if !capture {
        return Ok(None);
    }
    let printed =
        nix::sys::memfd::memfd_create(c"printed", nix::sys::memfd::MFdFlags::MFD_CLOEXEC)?;
    nix::unistd::dup2_stdout(&printed)?;
    nix::unistd::dup2_stderr(&printed)?;
    Ok(Some(File::from(printed)))
}

fn describe_death(end: &End, phase: Phase, limit_seconds: f64) -> (FailureKind, String) {
    match end {
        End::Signal(number, name, reason) => {
            let mut message = format!("the process was ended by {name} ({number})");
            if !reason.is_empty() {
                message.push_str(&format!(": {reason}"));
            }
            if phase == Phase::Factory {
                message.push_str(
                    "; a crash this early is often a library built for another workload interface (FoundationDB 7.4.0 to 7.4.5)",
                );
            }
            (FailureKind::Crashed, message)
        }
        End::Exited(code) => (
            FailureKind::Exited,
            format!("the workload ended the process with status {code}"),
        ),
        End::Refused(reason) => (FailureKind::Misuse, reason.clone()),
        End::Hung => (
            FailureKind::Hung,
            format!(
                "no end after {limit_seconds} s of real time: the workload loops or blocks without letting the simulation continue"
            ),
        ),
        End::Reported(_) => (FailureKind::HostFault, "a report that is none".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_die_has_its_own_words() {
        let words: Vec<String> = [
            End::Signal(11, "SIGSEGV", String::new()),
            End::Exited(3),
            End::Refused("`now` was called from a thread".into()),
            End::Hung,
        ]
        .iter()
        .map(|end| {
            let (kind, message) = describe_death(end, Phase::Start, 60.0);
            format!("{}: {message}", kind.describe())
        })
        .collect();
        insta::assert_snapshot!(words.join("\n"), @r"
        crashed: the process was ended by SIGSEGV (11)
        ended the process: the workload ended the process with status 3
        interface misused: `now` was called from a thread
        hung: no end after 60 s of real time: the workload loops or blocks without letting the simulation continue
        ");
    }

    #[test]
    fn a_crash_in_the_factory_suggests_the_older_interface() {
        let (_, message) = describe_death(
            &End::Signal(11, "SIGSEGV", String::new()),
            Phase::Factory,
            60.0,
        );
        assert!(message.contains("7.4.0 to 7.4.5"), "{message}");
    }
}
