//! The worker processes, as the program sees them.
//!
//! One thread for each worker turns its responses into events of one queue, so that the program
//! waits in one place. The workers are started with address-space randomisation off where the
//! system allows it: then even code that depends on addresses behaves the same in every worker.
//! [`Addresses::Random`] does the opposite, to find such code.

use crate::protocol::{Job, Ready, Request, Response};
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Where a worker's memory lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// At the same place in every worker.
    Fixed,
    /// Anywhere.
    Random,
}

/// Why there are no workers.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The operating system refused.
    #[error("cannot start a worker process")]
    Start(#[from] io::Error),
    /// The worker refused its job, for this reason.
    #[error("{0}")]
    Refused(String),
    /// The worker ended before it was ready.
    #[error(
        "a worker process ended ({0}) while it loaded the workload library: its code that runs when it is loaded crashes or exits"
    )]
    Died(String),
}

/// Worker processes that are ready.
pub struct Pool {
    workers: Vec<Worker>,
    next_ticket: u64,
    events: Receiver<(usize, Event)>,
    /// Kept so that the queue never closes.
    _events: Sender<(usize, Event)>,
}

struct Worker {
    process: Child,
    socket: UnixStream,
    /// The requests it has not responded to yet; it responds in this order.
    asked: VecDeque<Asked>,
    alive: bool,
}

enum Event {
    Response(Box<Response>),
    Gone,
}

/// The number of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u64);

impl Ticket {
    /// As a number.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// A request that a worker is holding.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The number that [`Pool::ask`] gave it.
    pub ticket: Ticket,
    /// What was asked.
    pub request: Request,
}

/// What came out of a pool.
pub enum Answer {
    /// A worker responded to the request of this number, and has room for another.
    Response(Ticket, Box<Response>),
    /// A worker died while it held these requests.
    Lost(Vec<Asked>),
    /// Nothing yet.
    Nothing,
}

/// How many requests a worker holds, so that it never waits for the next.
const DEPTH: usize = 2;

impl Pool {
    /// Starts workers and waits until they are ready.
    pub fn start(job: &Job, count: usize, addresses: Addresses) -> Result<Pool, PoolError> {
        let (sender, events) = channel();
        let mut workers = Vec::new();
        for _ in 0..count {
            workers.push(Worker::start(job, addresses)?);
        }
        for (index, worker) in workers.iter_mut().enumerate() {
            worker.await_ready(index, sender.clone())?;
        }
        Ok(Pool {
            workers,
            next_ticket: 0,
            events,
            _events: sender,
        })
    }

    /// The numbers of the workers that could take a request now.
    pub fn idle(&self) -> Vec<usize> {
        let workers = self.workers.iter().enumerate();
        workers
            .filter(|(_, worker)| worker.alive && worker.asked.len() < DEPTH)
            .map(|(index, _)| index)
            .collect()
    }

    /// How many requests the workers hold when all are busy.
    pub fn room(&self) -> usize {
        self.workers.len() * DEPTH
    }

    /// Whether a worker is left.
    pub fn is_alive(&self) -> bool {
        self.workers.iter().any(|worker| worker.alive)
    }

    /// How many requests are open.
    pub fn open(&self) -> usize {
        self.workers.iter().map(|worker| worker.asked.len()).sum()
    }

    /// Whether one of them asks for a record.
    pub fn is_recording(&self) -> bool {
        let mut asked = self.workers.iter().flat_map(|worker| &worker.asked);
        asked.any(|asked| asked.request.recording.is_of_transactions())
    }

    /// Sends a request to a worker. The response carries the number that is returned.
    pub fn ask(&mut self, worker: usize, request: Request) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let worker = &mut self.workers[worker];
        let mut line = serde_json::to_vec(&request).expect("a request can be written");
        line.push(b'\n');
        worker.asked.push_back(Asked { ticket, request });
        // If the worker is gone, its thread reports that.
        let _ = worker.socket.write_all(&line);
        ticket
    }

    /// Asks the workers to end what they are running: each run reports how far it came.
    pub fn interrupt(&self) {
        for worker in self.workers.iter().filter(|worker| worker.alive) {
            let process = nix::unistd::Pid::from_raw(worker.process.id().cast_signed());
            let _ = nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGUSR1);
        }
    }

    /// Waits for a response, but not longer than this.
    pub fn wait(&mut self, limit: Duration) -> Answer {
        match self.events.recv_timeout(limit) {
            Ok((index, Event::Response(response))) => {
                let asked = self.workers[index].asked.pop_front();
                let asked = asked.expect("a worker answers only what it was asked");
                Answer::Response(asked.ticket, response)
            }
            Ok((index, Event::Gone)) => {
                let worker = &mut self.workers[index];
                worker.alive = false;
                Answer::Lost(worker.asked.drain(..).collect())
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Answer::Nothing,
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            // Workers hold nothing that would need an orderly end.
            let _ = worker.process.kill();
            let _ = worker.process.wait();
        }
    }
}

/// This program itself: on Linux also when its file is being replaced, as cargo does while a sweep
/// runs.
fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        Ok("/proc/self/exe".into())
    } else {
        std::env::current_exe()
    }
}

impl Worker {
    fn start(job: &Job, addresses: Addresses) -> Result<Worker, PoolError> {
        let (mut ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(this_program()?);
        command
            .arg0("shaketable")
            .arg("__worker")
            .stdin(Stdio::from(OwnedFd::from(theirs)));
        if job.capture {
            command.stdout(Stdio::null());
        }
        let process = with_addresses(addresses, || command.spawn())?;
        // The command still holds the other end; without it the socket closes when the worker ends.
        drop(command);
        let mut line = serde_json::to_vec(job).expect("a job can be written");
        line.push(b'\n');
        ours.write_all(&line)?;
        Ok(Worker {
            process,
            socket: ours,
            asked: VecDeque::new(),
            alive: true,
        })
    }

    fn await_ready(
        &mut self,
        index: usize,
        events: Sender<(usize, Event)>,
    ) -> Result<(), PoolError> {
        let mut lines = BufReader::new(self.socket.try_clone()?).lines();
        let ready = match lines.next() {
            Some(line) => serde_json::from_str::<Ready>(&line?).map_err(io::Error::other)?,
            None => return Err(PoolError::Died(self.process.wait()?.to_string())),
        };
        if let Some(error) = ready.error {
            return Err(PoolError::Refused(error));
        }
        std::thread::spawn(move || {
            let mut lines = lines.map_while(Result::ok);
            while let (Some(heading), Some(outcome)) = (lines.next(), lines.next()) {
                let Ok(response) = Response::read(&heading, &outcome) else {
                    break;
                };
                let _ = events.send((index, Event::Response(Box::new(response))));
            }
            let _ = events.send((index, Event::Gone));
        });
        Ok(())
    }
}

/// Starts something with or without address-space randomisation. Where the system does not allow
/// switching it off, it stays on.
fn with_addresses<T>(addresses: Addresses, start: impl FnOnce() -> T) -> T {
    use nix::sys::personality::{self, Persona};
    let before = personality::get();
    if let (Ok(before), Addresses::Fixed) = (before, addresses) {
        let _ = personality::set(before | Persona::ADDR_NO_RANDOMIZE);
    }
    let started = start();
    if let Ok(before) = before {
        let _ = personality::set(before);
    }
    started
}
