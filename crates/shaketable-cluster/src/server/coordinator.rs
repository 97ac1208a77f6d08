//! Coordinators: the few processes that remember which generation counts.
//!
//! Together they are one register, written by one cluster controller at a time: the controller that
//! read with the highest ballot has the only right to write, and a write counts once a majority has
//! it on disk. So two controllers that both believe they lead cannot both begin a generation.
//!
//! A coordinator that comes back without its disk has forgotten what it promised, and what a
//! majority may have relied on. It no longer takes part: the coordinators that were never wiped are
//! a majority, see [`crate::kill`].
//!
//! A cluster can exchange its coordinators for others, a [`Quorum`] for another. Any server may
//! become one, so every server answers [`Coordinate`]; `quorum` says how the state moves. Here is
//! what a single coordinator does.

mod quorum;

pub use quorum::{Coordinators, Outvoted};

use crate::process::Process;
use crate::proto::{StorageInterface, Version};
use crate::server::controller::Surroundings;
use crate::server::election;
use crate::server::messages::{Beginning, Tag};
use crate::server::role::Role;
use crate::server::storage;
use shaketable_kernel::{Endpoint, Priority, ProcessId, Request, Time};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The registers on disk: one for each quorum that the process has been a member of.
const REGISTERS: &str = "coordinator";
/// The incarnation of a process that has never died.
const FIRST_INCARNATION: u32 = 0;
/// The pause before a retired coordinator tells its successors again, in seconds.
const TELL_AGAIN: f64 = 1.0;

/// The coordinators of a cluster, until it has others.
#[derive(Debug)]
pub struct Quorum {
    /// Later ones have higher numbers; the first has 0. It is the ballot of the controller that
    /// made it.
    pub number: u64,
    /// `description:id@address,…`, as in a cluster file.
    pub connection_string: Rc<str>,
    /// All of them.
    pub processes: Box<[ProcessId]>,
}

/// The connection string of coordinators with these addresses.
pub fn connection_string(id: u64, addresses: &[String]) -> String {
    format!("shaketable:{id:016x}@{}", addresses.join(","))
}

impl Quorum {
    /// How many of them decide.
    pub fn majority(&self) -> usize {
        self.processes.len() / 2 + 1
    }
}

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

/// What a coordinator says that is asked about a quorum of which it was or is a member.
#[derive(Clone, Debug)]
pub enum Answer<T> {
    /// It is one.
    Serving(T),
    /// It was one; these are the coordinators now.
    Retired(Rc<Quorum>),
}

/// What the register holds.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What must outlive every recovery.
    pub state: Rc<CoreState>,
    /// Where the state was copied to. Once a majority has written this, it counts there and no
    /// longer here.
    pub moved_to: Option<Rc<Quorum>>,
}

/// Asks for the state, and for the right to write it.
#[derive(Debug)]
pub struct ReadState {
    /// The number of the quorum.
    pub quorum: u64,
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
    /// The ballot of the entry.
    pub written: u64,
    /// The state, once there is one.
    pub entry: Option<Entry>,
}
impl Request for ReadState {
    type Reply = Answer<ReadStateReply>;
}

/// Writes the state.
#[derive(Debug)]
pub struct WriteState {
    /// The number of the quorum.
    pub quorum: u64,
    /// The ballot with which it was read.
    pub ballot: u64,
    /// The new state.
    pub entry: Entry,
}
impl Request for WriteState {
    /// Whether it was written: not if a higher ballot has been seen.
    type Reply = Answer<bool>;
}

/// Asks a coordinator whether it has lost sight of the controller.
#[derive(Debug)]
pub struct HasLeaderFailed {
    /// The number of the quorum.
    pub quorum: u64,
}
impl Request for HasLeaderFailed {
    type Reply = Answer<bool>;
}

/// What any server can be asked, whether or not it is a coordinator.
#[derive(Debug)]
pub enum Coordinate {
    /// Whether it answers.
    Ping,
    /// To remember a state for a quorum that does not count yet.
    Install {
        /// The quorum.
        quorum: Rc<Quorum>,
        /// The ballot with which the state was read.
        ballot: u64,
        /// The state.
        state: Rc<CoreState>,
    },
    /// To send everybody who asks it about a quorum to another one, which counts now.
    Retire {
        /// The number of the quorum.
        quorum: u64,
        /// The other one.
        successor: Rc<Quorum>,
    },
    /// That this quorum counts now.
    Learn(Rc<Quorum>),
}
impl Request for Coordinate {
    type Reply = ();
}

/// The endpoint at which any server answers [`Coordinate`].
pub fn coordinate_endpoint(here: &Process, server: ProcessId) -> Endpoint<Coordinate> {
    here.well_known_endpoint(server, "coordinate")
}

#[derive(Debug, Default)]
struct Register {
    promised: u64,
    written: u64,
    entry: Option<Entry>,
    /// The quorum that counts instead.
    retired_for: Option<Rc<Quorum>>,
}

impl Register {
    /// Asserts what every reader relies on, before it goes to disk and after it comes from there.
    fn assert_sound(&self) {
        assert!(
            self.written <= self.promised,
            "a write has a promised ballot"
        );
        assert_eq!(
            self.entry.is_some(),
            self.written > 0,
            "a state was written"
        );
        if let Some(entry) = &self.entry
            && entry.moved_to.is_none()
        {
            entry.state.assert_written_with(self.written);
        }
    }

    fn read(&mut self, ballot: u64) -> ReadStateReply {
        let granted = ballot > self.promised;
        self.promised = ballot.max(self.promised);
        ReadStateReply {
            granted,
            promised: self.promised,
            written: self.written,
            entry: self.entry.clone(),
        }
    }

    fn write(&mut self, ballot: u64, entry: Entry) -> bool {
        // What a controller wrote before it moved the state may arrive later than that.
        let has_moved = self.written == ballot
            && entry.moved_to.is_none()
            && (self.entry.as_ref()).is_some_and(|entry| entry.moved_to.is_some());
        let wins = ballot >= self.promised && !has_moved;
        if wins {
            self.promised = ballot;
            self.written = ballot;
            self.entry = Some(entry);
            self.assert_sound();
        }
        wins
    }
}

type Registers = Rc<RefCell<BTreeMap<u64, Register>>>;

/// Asks the register of a quorum; `None` if there is none, because the process was never a member
/// or has lost its disk.
fn ask<T>(
    registers: &Registers,
    quorum: u64,
    question: impl FnOnce(&mut Register) -> T,
) -> Option<Answer<T>> {
    let mut registers = registers.borrow_mut();
    let register = registers.get_mut(&quorum)?;
    Some(match &register.retired_for {
        Some(successor) => Answer::Retired(successor.clone()),
        None => Answer::Serving(question(register)),
    })
}

/// The part that a server plays, now or one day.
struct Coordinator {
    around: Surroundings,
    role: Role,
    is_serving: Cell<bool>,
}

/// Starts a server's part in coordination: called at every boot.
pub fn start(around: &Surroundings) {
    let coordinator = Rc::new(Coordinator {
        around: around.clone(),
        role: Role::new(&around.env, Priority::Coordination),
        is_serving: Cell::new(false),
    });
    let here = around.env.process();
    let first = around.coordinators.known();
    if here.incarnation() == FIRST_INCARNATION && first.processes.contains(&here.id()) {
        let registers = coordinator.registers_or_new();
        registers
            .borrow_mut()
            .insert(first.number, Register::default());
    }
    if let Some(registers) = coordinator.registers() {
        coordinator.serve();
        for register in registers.borrow().values() {
            register.assert_sound();
            if let Some(successor) = &register.retired_for {
                coordinator.tell(successor);
            }
        }
    }
    let role = coordinator.role.clone();
    role.serve_well_known("coordinate", move |request, reply| {
        coordinator.coordinate(request);
        reply.send(());
    });
}

impl Coordinator {
    fn registers(&self) -> Option<Registers> {
        self.around.env.process().disk().get(REGISTERS)
    }

    fn registers_or_new(&self) -> Registers {
        let disk = self.around.env.process().disk();
        disk.open(REGISTERS, || RefCell::new(BTreeMap::new()))
    }

    fn coordinate(self: &Rc<Self>, request: Coordinate) {
        match request {
            Coordinate::Ping => {}
            Coordinate::Install {
                quorum,
                ballot,
                state,
            } => {
                let register = Register {
                    promised: ballot,
                    written: ballot,
                    entry: Some(Entry {
                        state,
                        moved_to: None,
                    }),
                    retired_for: None,
                };
                register.assert_sound();
                let registers = self.registers_or_new();
                // Asked again, it may have promised more meanwhile.
                registers
                    .borrow_mut()
                    .entry(quorum.number)
                    .or_insert(register);
                self.serve();
            }
            Coordinate::Retire { quorum, successor } => {
                self.around.coordinators.learn(&successor);
                if let Some(registers) = self.registers()
                    && let Some(register) = registers.borrow_mut().get_mut(&quorum)
                    && register.retired_for.is_none()
                {
                    register.retired_for = Some(successor.clone());
                    self.tell(&successor);
                }
            }
            Coordinate::Learn(quorum) => self.around.coordinators.learn(&quorum),
        }
    }

    /// Begins to answer as a coordinator, and to watch the controller.
    fn serve(&self) {
        if self.is_serving.replace(true) {
            return;
        }
        let registers = self.registers_or_new();
        let [reader, writer] = [(); 2].map(|()| registers.clone());
        let role = &self.role;
        role.serve_well_known("coordinator read", move |read: ReadState, reply| {
            let answer = ask(&reader, read.quorum, |register| register.read(read.ballot));
            if let Some(answer) = answer {
                reply.send(answer);
            }
        });
        role.serve_well_known("coordinator write", move |write: WriteState, reply| {
            let answer = ask(&writer, write.quorum, |register| {
                register.write(write.ballot, write.entry)
            });
            if let Some(answer) = answer {
                reply.send(answer);
            }
        });
        let around = self.around.clone();
        role.serve_well_known(
            "coordinator opinion",
            move |HasLeaderFailed { quorum }, reply| {
                let answer = ask(&registers, quorum, |_| around.has_leader_failed());
                if let Some(answer) = answer {
                    reply.send(answer);
                }
            },
        );
        role.spawn(election::watch_leader(Rc::new(self.around.clone())));
    }

    /// Tells the successors that they count now, until a majority of them knows.
    fn tell(&self, successor: &Rc<Quorum>) {
        let here = self.around.env.process().clone();
        let successor = successor.clone();
        self.role.spawn(async move {
            let told = || Coordinators::tell(&here, &successor.processes, &successor);
            while told().await < successor.majority() {
                here.sleep(TELL_AGAIN).await;
            }
        });
    }
}

#[cfg(test)]
mod tests;
