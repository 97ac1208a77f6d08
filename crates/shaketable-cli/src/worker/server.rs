//! Seeds that a real server runs.
//!
//! The worker starts one server at a time and watches it. An interrupt of the user arrives as a
//! signal, which is only looked for between two looks at the server: then the run ends, and says
//! how far it came. The same happens when the program that started the worker is gone.

use crate::protocol::{Job, Request};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getppid};
use shaketable_fdbserver::test_file::{Prepared, Unsupported};
use shaketable_fdbserver::{Keep, Server};
use shaketable_host::plan::Recording;
use shaketable_host::trace::Format;
use shaketable_host::verdict::Outcome;
use std::io;
use std::time::Duration;

/// A server with the files that it runs.
pub(super) struct ServerRuns {
    server: Server,
    keeps_passing: bool,
    prepared: Vec<Prepared>,
    interrupts: SignalFd,
    parent: Pid,
}

impl ServerRuns {
    pub(super) fn prepare(
        job: &Job,
        server: &Server,
        keeps_passing: bool,
    ) -> Result<ServerRuns, PrepareError> {
        let prepare = |file: &crate::protocol::FileJob| {
            server.prepare(&file.path, &file.built, &job.settings)
        };
        Ok(ServerRuns {
            server: server.clone(),
            keeps_passing,
            prepared: job.files.iter().map(prepare).collect::<Result<_, _>>()?,
            interrupts: interrupts()?,
            parent: getppid(),
        })
    }

    /// Runs a seed; returns its outcome, and what went to standard error.
    pub(super) fn run(&self, job: &Job, request: &Request) -> (Outcome, String) {
        let (keep, format) = match &request.recording {
            Recording::Trace { path, format, .. } if self.keeps_passing => {
                (Keep::Always(path.clone()), *format)
            }
            Recording::Trace { path, format, .. } => (Keep::IfFailed(path.clone()), *format),
            _ => (Keep::Nothing, Format::Json),
        };
        let asked = shaketable_fdbserver::Request {
            prepared: &self.prepared[request.file],
            settings: &job.settings,
            seed: request.seed,
            limit: Duration::from_secs_f64(job.hang_limit_seconds),
            keep,
            format,
        };
        let is_interrupted =
            || matches!(self.interrupts.read_signal(), Ok(Some(_))) || getppid() != self.parent;
        self.server
            .run(&asked, &is_interrupted)
            .unwrap_or_else(|error| {
                let told = crate::with_causes(&error);
                (Outcome::simulator_fault(request.seed, told), String::new())
            })
    }
}

/// Why a worker cannot run servers.
#[derive(Debug, thiserror::Error)]
pub(super) enum PrepareError {
    #[error("cannot set up a worker")]
    SetUp(#[from] io::Error),
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
}

/// The interrupts of the user, which are not delivered any more but can be looked for.
fn interrupts() -> io::Result<SignalFd> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGUSR1);
    signals.thread_block()?;
    Ok(SignalFd::with_flags(
        &signals,
        SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC,
    )?)
}
