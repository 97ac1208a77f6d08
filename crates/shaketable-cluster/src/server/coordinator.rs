//! Coordinators: the few processes that remember which generation counts.
//!
//! Together they are one register, written by one cluster controller at a time: the controller that
//! read with the highest ballot has the only right to write, and a write counts once a majority has
//! it on disk. So two controllers that both believe they lead cannot both begin a generation.
//!
//! A coordinator that comes back without its disk has forgotten what it promised, and what a
//! majority may have relied on. It no longer takes part: the coordinators that were never wiped are
//! a majority, see [`crate::kill`].

use crate::process::Process;
use crate::proto::{StorageInterface, Version};
use crate::server::election::{HasLeaderFailed, opinion_endpoint};
use crate::server::env::Env;
use crate::server::messages::{Beginning, Tag};
use crate::server::role::Role;
use crate::server::storage;
use shaketable_kernel::{Endpoint, Priority, ProcessId, Request, Time};
use std::cell::RefCell;
use std::rc::Rc;

/// The pause before another coordinator is asked, in seconds.
const ASK_AGAIN: f64 = 0.5;

/// The register on disk.
const REGISTER: &str = "coordinator";
/// The incarnation of a process that has never died.
const FIRST_INCARNATION: u32 = 0;

/// What must outlive every recovery.
#[derive(Clone, Debug, Default)]
pub struct CoreState {
    /// The logs of the current generation: identity and process.
    pub logs: Vec<(u64, ProcessId)>,
    /// How many logs may be missing, plus one.
    pub log_replicas: usize,
    /// The storage servers.
    pub storages: Vec<(Tag, ProcessId)>,
    /// The generations so far.
    pub beginnings: Vec<Beginning>,
    /// The version with which the current generation began, and when: its versions follow the
    /// clock.
    pub began_with: Version,
    /// When it began.
    pub began_at: Time,
    /// The identity of the next storage server.
    pub next_tag: Tag,
}

impl CoreState {
    /// The interfaces of the storage servers.
    pub fn interfaces(&self, here: &Process) -> Rc<[StorageInterface]> {
        let interface =
            |(tag, process): &(Tag, ProcessId)| storage::interface(here, *process, *tag);
        self.storages.iter().map(interface).collect()
    }
}

impl CoreState {
    /// Asserts that the ballot of a state is the number of the generation that it describes.
    fn assert_written_with(&self, ballot: u64) {
        if let Some(newest) = self.beginnings.last() {
            assert_eq!(newest.epoch, ballot, "a generation has its ballot's number");
        }
    }
}

/// Asks for the state, and for the right to write it.
#[derive(Debug)]
pub struct ReadState {
    /// Greater than every ballot before.
    pub ballot: u64,
}
/// What a coordinator knows.
#[derive(Clone, Debug)]
pub struct ReadStateReply {
    /// Whether the asker now has the right to write: only if its ballot is greater than every one
    /// before.
    pub granted: bool,
    /// The highest ballot it has seen.
    pub promised: u64,
    /// The ballot of the state.
    pub written: u64,
    /// The state, once there is one.
    pub state: Option<Rc<CoreState>>,
}
impl Request for ReadState {
    type Reply = ReadStateReply;
}

/// Writes the state.
#[derive(Debug)]
pub struct WriteState {
    /// The ballot with which it was read.
    pub ballot: u64,
    /// The new state.
    pub state: Rc<CoreState>,
}
impl Request for WriteState {
    /// Whether it was written: not if a higher ballot has been seen.
    type Reply = bool;
}

#[derive(Debug, Default)]
struct Register {
    promised: u64,
    written: u64,
    state: Option<Rc<CoreState>>,
}

impl Register {
    /// Asserts what every reader relies on, before it goes to disk and after it comes from there.
    fn assert_sound(&self) {
        assert!(
            self.written <= self.promised,
            "a write has a promised ballot"
        );
        assert_eq!(
            self.state.is_some(),
            self.written > 0,
            "a state was written"
        );
        if let Some(state) = &self.state {
            state.assert_written_with(self.written);
        }
    }
}

/// Starts the coordinator of a process: called at every boot.
pub fn start(env: &Env) {
    let role = Role::new(env, Priority::Coordination);
    let disk = env.process().disk();
    let is_new = env.process().incarnation() == FIRST_INCARNATION;
    if !is_new && disk.get::<RefCell<Register>>(REGISTER).is_none() {
        return;
    }
    let register = disk.open(REGISTER, || RefCell::new(Register::default()));
    register.borrow().assert_sound();
    let reader = register.clone();
    role.serve_well_known("coordinator read", move |ReadState { ballot }, reply| {
        let mut register = reader.borrow_mut();
        let granted = ballot > register.promised;
        register.promised = ballot.max(register.promised);
        reply.send(ReadStateReply {
            granted,
            promised: register.promised,
            written: register.written,
            state: register.state.clone(),
        });
    });
    role.serve_well_known("coordinator write", move |write: WriteState, reply| {
        let mut register = register.borrow_mut();
        let wins = write.ballot >= register.promised;
        if wins {
            register.promised = write.ballot;
            register.written = write.ballot;
            register.state = Some(write.state);
            register.assert_sound();
        }
        reply.send(wins);
    });
}

/// The coordinators, from the side of a cluster controller.
#[derive(Clone)]
pub struct Coordinators {
    here: Process,
    /// All of them.
    pub processes: Rc<[ProcessId]>,
}

/// A higher ballot was seen, or a majority could not be reached.
#[derive(Debug)]
pub struct Outvoted;

impl Coordinators {
    /// A register on these processes, for what runs on `here`.
    pub fn new(here: &Process, processes: Rc<[ProcessId]>) -> Coordinators {
        Coordinators {
            here: here.clone(),
            processes,
        }
    }

    fn majority(&self) -> usize {
        self.processes.len() / 2 + 1
    }

    /// Takes as long as a freshly booted process needs to learn from a coordinator which process
    /// leads.
    pub async fn find_leader(&self) {
        for coordinator in self.processes.iter().cycle() {
            let endpoint = opinion_endpoint(&self.here, *coordinator);
            match self.here.request(&endpoint, HasLeaderFailed).await {
                Ok(_) => return,
                Err(_) => self.here.sleep(ASK_AGAIN).await,
            }
        }
    }

    /// Takes the right to write; returns the ballot and the newest state.
    pub async fn read(&self, at_least: u64) -> Result<(u64, Option<Rc<CoreState>>), Outvoted> {
        let mut ballot = at_least;
        loop {
            let endpoint = |process| -> Endpoint<ReadState> {
                self.here.well_known_endpoint(process, "coordinator read")
            };
            let requests: Vec<_> = self
                .processes
                .iter()
                .map(|process| self.here.request(&endpoint(*process), ReadState { ballot }))
                .collect();
            let mut replies = Vec::new();
            for request in requests {
                replies.extend(request.await);
            }
            if replies.len() < self.majority() {
                return Err(Outvoted);
            }
            if replies.iter().any(|reply| !reply.granted) {
                let highest = replies.iter().map(|reply| reply.promised).max();
                ballot = highest.unwrap_or(ballot) + 1;
                continue;
            }
            for reply in &replies {
                assert!(
                    reply.promised == ballot && reply.written < ballot,
                    "a granted ballot is the highest"
                );
            }
            let newest = replies.into_iter().max_by_key(|reply| reply.written);
            return Ok((ballot, newest.and_then(|reply| reply.state)));
        }
    }

    /// Writes the state with a ballot that [`Coordinators::read`] returned.
    pub async fn write(&self, ballot: u64, state: Rc<CoreState>) -> Result<(), Outvoted> {
        state.assert_written_with(ballot);
        let endpoint = |process| -> Endpoint<WriteState> {
            self.here.well_known_endpoint(process, "coordinator write")
        };
        let requests: Vec<_> = self
            .processes
            .iter()
            .map(|process| {
                self.here.request(
                    &endpoint(*process),
                    WriteState {
                        ballot,
                        state: state.clone(),
                    },
                )
            })
            .collect();
        let mut written = 0;
        for request in requests {
            written += usize::from(request.await == Ok(true));
        }
        if written < self.majority() {
            Err(Outvoted)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::ClusterConfig;
    use crate::server::env::Instruments;
    use shaketable_kernel::{Address, Kernel, KillKind, ProcessSpec};

    #[test]
    fn a_coordinator_that_comes_back_without_its_disk_has_no_vote() {
        let kernel = Kernel::simulation(1);
        let config = ClusterConfig::single_process(false);
        let instruments = Instruments::new(&config, kernel.stream("grv rejection"));
        let process = |number: u8| {
            kernel.add_process(ProcessSpec {
                address: Address::v4(1, 1, 1, number, 1),
                ..ProcessSpec::default()
            })
        };
        let processes: Rc<[ProcessId]> = (1..=3).map(process).collect();
        let writer = process(9);
        for process in processes.iter() {
            let instruments = instruments.clone();
            let boot = move |kernel: &Kernel, process| {
                start(&Env::new(Process::new(kernel, process), &instruments));
            };
            kernel.set_boot(*process, Rc::new(boot));
            kernel.boot(*process);
        }
        let coordinators = Coordinators::new(&Process::new(&kernel, writer), processes.clone());
        let run = |future| kernel.block_on(future).unwrap();
        let (ballot, state) = run(Box::pin(coordinators.read(1))).unwrap();
        assert!(state.is_none());

        // One of three is down when the state is written, and one loses it.
        kernel.reboot(processes[1], KillKind::RebootProcess, 5.0);
        let write = coordinators.write(ballot, Rc::new(CoreState::default()));
        kernel.block_on(write).unwrap().unwrap();
        kernel.reboot(processes[2], KillKind::RebootAndDelete, 5.0);
        kernel.reboot(processes[0], KillKind::RebootProcess, 20.0);
        kernel.block_on(kernel.sleep(10.0)).unwrap();
        let forgotten = run(Box::pin(coordinators.read(ballot + 1)));
        assert!(forgotten.is_err(), "those who have forgotten were asked");
        kernel.block_on(kernel.sleep(30.0)).unwrap();
        let (_, state) = run(Box::pin(coordinators.read(ballot + 1))).unwrap();
        assert!(state.is_some());
    }
}
