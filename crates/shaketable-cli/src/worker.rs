//! A worker: one process with one thread that has loaded the libraries and runs each seed in a
//! fork.
//!
//! Or, if the job says so, a worker that has a real server run each seed (`server.rs`).
//!
//! Loading and parsing happen once; a seed costs a fork and the simulation. How a seed ends is the
//! business of [`Isolation::run_seed`]; a worker passes requests and outcomes on, and captures what
//! the code under test prints.

mod server;

use crate::protocol::{Heading, Host, Job, Ready, Request};
use serde::Serialize;
use server::ServerRuns;
use shaketable_host::isolation::{Ended, Isolation};
use shaketable_host::library::LoadError;
use shaketable_host::plan::{Plan, Settings};
use shaketable_host::testfile::{TestFile, TestFileError};
use std::fs::File;
use std::io::{self, BufRead, BufReader, IoSlice, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

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

/// Why a worker cannot do its job.
#[derive(Debug, thiserror::Error)]
enum PrepareError {
    #[error("cannot set up a worker")]
    SetUp(#[from] io::Error),
    #[error("the test file was changed while it was being prepared")]
    TestFile(#[from] TestFileError),
    #[error(transparent)]
    Library(#[from] LoadError),
    #[error(transparent)]
    Server(#[from] server::PrepareError),
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
        Err(error) => {
            let error = Some(crate::with_causes(&error));
            return send(&mut out, &Ready { error });
        }
    };
    send(&mut out, &Ready { error: None })?;
    for line in lines {
        let request: Request = serde_json::from_str(&line?)?;
        let (heading, ended) = worker.run(&request)?;
        let heading = line_of(&heading)?;
        match ended {
            Ended::Passed(passed) => write_all(&mut out, [&heading, passed.json(), b"\n"])?,
            Ended::Outcome(outcome) => write_all(&mut out, [&heading, &line_of(&outcome)?])?,
        }
    }
    Ok(())
}

/// Writes all parts, with one call of the system if it takes them: whoever reads is woken once.
fn write_all<const PARTS: usize>(out: &mut impl Write, parts: [&[u8]; PARTS]) -> io::Result<()> {
    let mut slices = parts.map(IoSlice::new);
    let mut rest = &mut slices[..];
    while !rest.is_empty() {
        match out.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut rest, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn send(out: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    out.write_all(&line_of(message)?)
}

fn line_of(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

struct Worker {
    job: Job,
    runs: Runs,
    /// Where standard output and error of the code under test go, when they are kept.
    printed: Option<File>,
}

/// How this worker runs seeds.
enum Runs {
    Embedded {
        plans: Vec<Plan>,
        isolation: Isolation,
    },
    Server(ServerRuns),
}

impl Worker {
    fn prepare(job: Job) -> Result<Worker, PrepareError> {
        if let Host::Fdbserver {
            server,
            keeps_passing,
        } = &job.host
        {
            let runs = ServerRuns::prepare(&job, server, *keeps_passing)?;
            return Ok(Worker {
                job,
                runs: Runs::Server(runs),
                printed: None,
            });
        }
        let isolation = Isolation::prepare(Duration::from_secs_f64(job.hang_limit_seconds))?;
        let printed = if job.capture { Some(capture()?) } else { None };
        let mut plans = Vec::new();
        for file in &job.files {
            plans.push(Plan::load(TestFile::read(&file.path)?, &file.built)?);
        }
        Ok(Worker {
            job,
            runs: Runs::Embedded { plans, isolation },
            printed,
        })
    }

    fn run(&self, request: &Request) -> io::Result<(Heading, Ended)> {
        let start = Instant::now();
        let (ended, printed) = match &self.runs {
            Runs::Embedded { plans, isolation } => {
                self.forget_printed()?;
                let ended = self.simulate(&plans[request.file], isolation, request);
                let printed = match ended.passed() {
                    true => String::new(),
                    false => self.read_printed()?,
                };
                (ended, printed)
            }
            Runs::Server(runs) => {
                let (outcome, printed) = runs.run(&self.job, request);
                let shown = !outcome.passed();
                let ended = Ended::Outcome(Box::new(outcome));
                (ended, if shown { printed } else { String::new() })
            }
        };
        let heading = Heading {
            file: request.file,
            real_seconds: start.elapsed().as_secs_f64(),
            printed,
        };
        Ok((heading, ended))
    }

    fn simulate(&self, plan: &Plan, isolation: &Isolation, request: &Request) -> Ended {
        let changed = request.case.as_deref();
        let changed = changed.map(|case| plan.with_case(case.clone()));
        // A case in a request says everything: nothing else may set what it leaves open.
        let settings = match &changed {
            Some(_) => Settings {
                stalled_after: self.job.settings.stalled_after,
                coverage: self.job.settings.moments,
                moments: self.job.settings.moments,
                ..Settings::default()
            },
            None => self.job.settings.clone(),
        };
        isolation.run_seed(
            changed.as_ref().unwrap_or(plan),
            &settings,
            request.seed,
            &request.recording,
        )
    }

    fn forget_printed(&self) -> io::Result<()> {
        if let Some(mut printed) = self.printed.as_ref() {
            printed.set_len(0)?;
            printed.seek(SeekFrom::Start(0))?;
        }
        Ok(())
    }

    /// What the code under test printed; long output is cut in the middle.
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

/// Redirects standard output and error to a file from now on; returns that file.
fn capture() -> io::Result<File> {
    let printed =
        nix::sys::memfd::memfd_create(c"printed", nix::sys::memfd::MFdFlags::MFD_CLOEXEC)?;
    nix::unistd::dup2_stdout(&printed)?;
    nix::unistd::dup2_stderr(&printed)?;
    Ok(File::from(printed))
}
