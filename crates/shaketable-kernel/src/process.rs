//! Processes: they have an address, own tasks and request streams, die, and come back.
//!
//! A [`ProcessId`] stays the same over reboots; each life in between is an incarnation. When a
//! process dies, all its tasks are dropped and its request streams close in the same instant; only
//! its [`Disk`] remains. Machines, zones and datacenters are names on processes: killing one means
//! killing all processes that carry the name.

use crate::disk::Disk;
use crate::kernel::Kernel;
use crate::record::Event;
use crate::request::Core;
use crate::time::Time;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::{Rc, Weak};

/// Names a process for as long as the kernel exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub(crate) u32);

impl ProcessId {
    /// The position in the order in which processes were added, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a process can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The address of its machine's interface.
    pub ip: IpAddr,
    /// The port.
    pub port: u16,
}

impl Address {
    /// An IPv4 address.
    pub const fn v4(a: u8, b: u8, c: u8, d: u8, port: u16) -> Address {
        Address {
            ip: IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            port,
        }
    }
}

impl Default for Address {
    fn default() -> Self {
        Address::v4(127, 0, 0, 1, 0)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::net::SocketAddr::new(self.ip, self.port).fmt(f)
    }
}

/// What a process is and where it is located.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSpec {
    /// A name for people to read.
    pub name: String,
    /// Where it can be reached.
    pub address: Address,
    /// Its machine.
    pub machine: String,
    /// Its zone.
    pub zone: String,
    /// Its datacenter.
    pub datacenter: String,
    /// Its data hall.
    pub data_hall: String,
    /// Its class: `storage`, `transaction`, `stateless`, `test`… or `unset`.
    pub class: String,
}

/// How a process or machine is killed. The names are FoundationDB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KillKind {
    /// It never comes back.
    KillInstantly,
    /// It fails through disk errors instead of at once; for the kernel this is the same as
    /// `KillInstantly`.
    InjectFaults,
    /// The machine comes back with empty disks.
    RebootAndDelete,
    /// The process comes back with an empty disk.
    RebootProcessAndDelete,
    /// The machine comes back with its disks.
    Reboot,
    /// The process comes back with its disk.
    RebootProcess,
}

impl KillKind {
    /// Whether the disk is lost.
    pub fn deletes(self) -> bool {
        matches!(
            self,
            KillKind::RebootAndDelete | KillKind::RebootProcessAndDelete
        )
    }

    /// Whether it may come back.
    pub fn reboots(self) -> bool {
        !matches!(self, KillKind::KillInstantly | KillKind::InjectFaults)
    }
}

/// Starts the tasks of a process.
pub type Boot = Rc<dyn Fn(&Kernel, ProcessId)>;

pub(crate) struct Process {
    spec: Rc<ProcessSpec>,
    alive: bool,
    booted: bool,
    killed_for_good: bool,
    /// When it died last.
    died: Time,
    pub(crate) incarnation: u32,
    boot: Option<Boot>,
    disk: Disk,
    streams: Vec<Weak<Core>>,
    /// Streams that can be found by their name.
    /// A dozen at most, whose names differ in their length or at least in their address.
    well_known: Vec<(&'static str, Weak<Core>)>,
}

impl Kernel {
    /// Adds a process. It is alive at once and has nothing to do yet.
    pub fn add_process(&self, spec: ProcessSpec) -> ProcessId {
        let id = ProcessId(self.0.processes.borrow().len() as u32);
        self.0.network.borrow_mut().add_process(id, spec.address.ip);
        let disk = Disk::new(self);
        self.0.processes.borrow_mut().push(Process {
            spec: Rc::new(spec),
            alive: true,
            booted: false,
            killed_for_good: false,
            died: Time::ZERO,
            incarnation: 0,
            boot: None,
            disk,
            streams: Vec::new(),
            well_known: Vec::new(),
        });
        id
    }

    /// All processes, dead or alive, in the order they were added.
    pub fn processes(&self) -> Vec<ProcessId> {
        (0..self.0.processes.borrow().len() as u32)
            .map(ProcessId)
            .collect()
    }

    /// Returns what a process is.
    pub fn process(&self, process: ProcessId) -> Rc<ProcessSpec> {
        self.0.processes.borrow()[process.index()].spec.clone()
    }

    /// Whether the process runs.
    #[inline]
    pub fn is_alive(&self, process: ProcessId) -> bool {
        self.0.processes.borrow()[process.index()].alive
    }

    /// When a process died that does not run.
    #[inline]
    pub(crate) fn dead_since(&self, process: ProcessId) -> Option<Time> {
        let state = &self.0.processes.borrow()[process.index()];
        (!state.alive).then_some(state.died)
    }

    /// How often the process has come back.
    #[inline]
    pub fn incarnation(&self, process: ProcessId) -> u32 {
        self.0.processes.borrow()[process.index()].incarnation
    }

    /// Whether the process runs and is still in that incarnation.
    #[inline]
    pub(crate) fn lives(&self, process: ProcessId, incarnation: u32) -> bool {
        let state = &self.0.processes.borrow()[process.index()];
        state.alive && state.incarnation == incarnation
    }

    /// Sets how the process starts; called by every [`Kernel::boot`].
    pub fn set_boot(&self, process: ProcessId, boot: Boot) {
        self.0.processes.borrow_mut()[process.index()].boot = Some(boot);
    }

    /// Whether the process has a boot function.
    pub(crate) fn boots(&self, process: ProcessId) -> bool {
        self.0.processes.borrow()[process.index()].boot.is_some()
    }

    /// Starts a process with its boot function; a dead one comes alive first, as a new incarnation.
    /// Does nothing and returns `false` if it is running, or was killed for good.
    pub fn boot(&self, process: ProcessId) -> bool {
        let (boot, incarnation, returns) = {
            let state = &mut self.0.processes.borrow_mut()[process.index()];
            if state.killed_for_good || (state.alive && state.booted) {
                return false;
            }
            let returns = !state.alive;
            state.incarnation += u32::from(returns);
            state.alive = true;
            state.booted = true;
            (state.boot.clone(), state.incarnation, returns)
        };
        self.record(|| Event::ProcessBooted {
            process,
            incarnation,
        });
        if returns {
            self.announce_return(process);
        }
        if let Some(boot) = boot {
            boot(self, process);
        }
        true
    }

    /// Kills a process: its tasks and request streams are gone when this returns (a task that kills
    /// its own process ends at its next `await`). Returns whether it was alive.
    pub fn kill(&self, process: ProcessId, kind: KillKind) -> bool {
        let disk = {
            let state = &mut self.0.processes.borrow_mut()[process.index()];
            state.killed_for_good |= !kind.reboots();
            if !state.alive {
                return false;
            }
            state.disk.clone()
        };
        self.record_fault(Event::ProcessKilled { process, kind });
        self.close_process(process);
        if kind.deletes() {
            disk.wipe();
        }
        self.fall_silent(process);
        self.0.network.borrow_mut().disconnect_all(process);
        true
    }

    /// Kills a process and boots it again after that many seconds, unless `kind` is for good.
    pub fn reboot(&self, process: ProcessId, kind: KillKind, seconds: f64) {
        self.kill(process, kind);
        if kind.reboots() {
            self.call_at(self.now().after(seconds), move |kernel| {
                kernel.boot(process);
            });
        }
    }

    /// What survives a reboot of the process.
    pub fn disk(&self, process: ProcessId) -> Disk {
        self.0.processes.borrow()[process.index()].disk.clone()
    }

    /// Marks a process dead and drops its tasks and streams.
    pub(crate) fn close_process(&self, process: ProcessId) {
        let streams = {
            let state = &mut self.0.processes.borrow_mut()[process.index()];
            state.alive = false;
            state.died = self.now();
            state.booted = false;
            std::mem::take(&mut state.streams)
        };
        for stream in streams {
            if let Some(stream) = stream.upgrade() {
                stream.close();
            }
        }
        let tasks = self.0.tasks.borrow_mut().cancel_all(Some(process));
        drop(tasks);
    }

    /// Forgets how processes start and what is on their disks; both may hold the kernel. Returns
    /// them for the caller to drop.
    pub(crate) fn forget_processes(&self) -> Vec<(Option<Boot>, Disk)> {
        let nothing = Disk::new(self);
        self.0
            .processes
            .borrow_mut()
            .iter_mut()
            .map(|state| {
                let disk = std::mem::replace(&mut state.disk, nothing.clone());
                (state.boot.take(), disk)
            })
            .collect()
    }

    pub(crate) fn set_well_known(
        &self,
        process: ProcessId,
        name: &'static str,
        stream: Weak<Core>,
    ) {
        let known = &mut self.0.processes.borrow_mut()[process.index()].well_known;
        match known.iter_mut().find(|(known, _)| is_same(known, name)) {
            Some((_, old)) => *old = stream,
            None => known.push((name, stream)),
        }
    }

    pub(crate) fn well_known(&self, process: ProcessId, name: &str) -> Option<Rc<Core>> {
        let processes = self.0.processes.borrow();
        let mut known = processes[process.index()].well_known.iter();
        let (_, stream) = known.find(|(known, _)| is_same(known, name))?;
        stream.upgrade()
    }

    pub(crate) fn add_stream(&self, process: ProcessId, stream: Weak<Core>) {
        let streams = &mut self.0.processes.borrow_mut()[process.index()].streams;
        // Forget dropped streams now and then, so that the list does not grow for a process that
        // listens often.
        if streams.len() == streams.capacity() {
            streams.retain(|stream| stream.strong_count() > 0);
        }
        streams.push(stream);
    }
}

/// Whether two names are the same. Nearly always a name is asked for from where it was given.
fn is_same(known: &str, name: &str) -> bool {
    std::ptr::eq(known, name) || known == name
}
