//! What holds messages back: clogs of pairs and interfaces, and partitions.
//!
//! Blockades are between addresses, as in FoundationDB's simulator, and delay messages without
//! losing any. A clog has an end; a partition lasts until it is healed and counts as a clog without
//! end. An address can also be cut off from all others for the rest of the run: that is no fault
//! which can be switched off.
//!
//! Every message checks whether its link is blocked, and a fault workload blocks links hundreds of
//! times in a run. So clogs are kept in a table indexed by the numbers of the two addresses, and
//! only the links that a change [reaches](Reach) look at it.

use crate::kernel::Kernel;
use crate::network::LinkId;
use crate::process::ProcessId;
use crate::record::Event;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What an interface clog holds back. As in FoundationDB, holding back what is sent has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum ClogMode {
    Send,
    Receive,
    All,
}

pub(crate) struct Blockades {
    faults: bool,
    /// By process: the number of its address.
    interfaces: Vec<u32>,
    addresses: Vec<IpAddr>,
    /// By the number of an address: the processes there, and what holds back messages to them.
    processes: Vec<Vec<ProcessId>>,
    receive_clogs: Vec<Time>,
    /// By sender, then by receiver; a row is only as long as it has had to be so far.
    pair_clogs: Vec<Vec<Time>>,
    /// Pairs with the smaller number first.
    partitions: BTreeSet<(u32, u32)>,
    /// Addresses that no other one reaches any more, and since when.
    cut_off: BTreeMap<u32, Time>,
    /// No clog lasts longer than this: the shortcut for a calm network.
    clogged_until: Time,
    /// Counts how often something was unblocked before its time.
    pub(crate) relieved: u32,
}

/// Which links a blockade or its end affects: in both directions, because a ping needs both.
#[derive(Clone, Copy)]
pub(crate) enum Reach {
    /// Those between two addresses.
    Pair(u32, u32),
    /// Those of one address.
    Interface(u32),
    /// All.
    Everything,
}

impl Blockades {
    pub(crate) fn new() -> Blockades {
        Blockades {
            faults: true,
            interfaces: Vec::new(),
            addresses: Vec::new(),
            processes: Vec::new(),
            receive_clogs: Vec::new(),
            pair_clogs: Vec::new(),
            partitions: BTreeSet::new(),
            cut_off: BTreeMap::new(),
            clogged_until: Time::ZERO,
            relieved: 0,
        }
    }

    pub(crate) fn add_process(&mut self, process: ProcessId, ip: IpAddr) {
        assert_eq!(
            process.index(),
            self.interfaces.len(),
            "processes are counted up"
        );
        let interface = self.interface(ip);
        self.interfaces.push(interface);
        self.processes[interface as usize].push(process);
    }

    pub(crate) fn faults_enabled(&self) -> bool {
        self.faults
    }

    /// The numbers of a link's addresses.
    pub(crate) fn pair(&self, id: LinkId) -> (u32, u32) {
        (
            self.interfaces[id.from.index()],
            self.interfaces[id.to.index()],
        )
    }

    /// The time until which nothing arrives over this link; a time in the past if nothing blocks
    /// it.
    #[inline]
    pub(crate) fn until(&self, id: LinkId, now: Time) -> Time {
        if self.clogged_until <= now {
            Time::ZERO
        } else {
            self.until_in_a_storm(id)
        }
    }

    /// The same while something is blocked.
    #[inline(never)]
    fn until_in_a_storm(&self, id: LinkId) -> Time {
        if !self.cut_off.is_empty() && self.is_cut_off(id) {
            Time::NEVER
        } else if !self.faults {
            Time::ZERO
        } else {
            self.clog_of(id)
        }
    }

    fn is_cut_off(&self, id: LinkId) -> bool {
        self.cut_off_since(id).is_some()
    }

    fn cut_off_since(&self, id: LinkId) -> Option<Time> {
        let (from, to) = self.pair(id);
        if from == to {
            return None;
        }
        let ends = [from, to];
        let since = ends.iter().filter_map(|end| self.cut_off.get(end));
        since.min().copied()
    }

    fn clog_of(&self, id: LinkId) -> Time {
        let (from, to) = self.pair(id);
        if !self.partitions.is_empty() && self.partitions.contains(&(from.min(to), from.max(to))) {
            return Time::NEVER;
        }
        let pair = self.pair_clogs[from as usize].get(to as usize);
        let pair = pair.copied().unwrap_or_default();
        let until = pair.max(self.receive_clogs[to as usize]);
        assert!(
            until <= self.clogged_until,
            "no clog lasts longer than the longest"
        );
        until
    }

    /// The links that such a change affects and that pass the filter, in the order of their
    /// processes.
    pub(crate) fn links(
        &self,
        reach: Reach,
        mut filter: impl FnMut(LinkId) -> bool,
    ) -> Vec<LinkId> {
        let at = |interface: u32| &self.processes[interface as usize];
        let mut found = Vec::new();
        let mut look = |from: ProcessId, to: ProcessId| {
            for id in [LinkId { from, to }, LinkId { from: to, to: from }] {
                if filter(id) {
                    found.push(id);
                }
            }
        };
        match reach {
            Reach::Pair(a, b) => {
                for &a in at(a) {
                    for &b in at(b) {
                        look(a, b);
                    }
                }
            }
            Reach::Interface(interface) => {
                for &a in at(interface) {
                    for b in 0..self.interfaces.len() as u32 {
                        look(a, ProcessId(b));
                    }
                }
            }
            Reach::Everything => {
                for a in 0..self.interfaces.len() as u32 {
                    for b in 0..=a {
                        look(ProcessId(a), ProcessId(b));
                    }
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    fn pair_clog(&mut self, from: u32, to: u32) -> &mut Time {
        let row = &mut self.pair_clogs[from as usize];
        if row.len() <= to as usize {
            row.resize(to as usize + 1, Time::ZERO);
        }
        &mut row[to as usize]
    }

    fn interface(&mut self, ip: IpAddr) -> u32 {
        let known = self.addresses.iter().position(|address| *address == ip);
        known.unwrap_or_else(|| {
            self.addresses.push(ip);
            self.processes.push(Vec::new());
            self.receive_clogs.push(Time::ZERO);
            self.pair_clogs.push(Vec::new());
            self.addresses.len() - 1
        }) as u32
    }

    fn extend(&mut self, until: Time) {
        self.clogged_until = until.max(self.clogged_until);
    }
}

impl Kernel {
    /// Switches the faults of the network on or off. While they are off, nothing is held back and
    /// no connection breaks by chance: FoundationDB's "speed up". Messages held back at that moment
    /// arrive.
    pub fn set_faults_enabled(&self, enabled: bool) {
        self.relieve(|blockades| {
            blockades.faults = enabled;
            Reach::Everything
        });
    }

    /// Whether the faults of the network take effect.
    pub fn faults_enabled(&self) -> bool {
        self.0.network.borrow().blockades.faults
    }

    /// Holds back all messages from one address to another for that many seconds. A longer clog
    /// that is already in place stays.
    pub fn clog_pair(&self, from: IpAddr, to: IpAddr, seconds: f64) {
        let until = self.now().after(seconds);
        self.block(|blockades| {
            let (from, to) = (blockades.interface(from), blockades.interface(to));
            let clog = blockades.pair_clog(from, to);
            *clog = until.max(*clog);
            blockades.extend(until);
            (until, Reach::Pair(from, to))
        });
        self.record_fault(Event::PairClogged { from, to, until });
    }

    /// The time until which nothing that one process sends to another arrives; a time in the past
    /// if nothing holds it back.
    pub fn held_until(&self, from: ProcessId, to: ProcessId) -> Time {
        let network = self.0.network.borrow();
        network.blockades.until(LinkId { from, to }, self.now())
    }

    /// Ends the clog of a pair. Messages that were held back arrive.
    pub fn unclog_pair(&self, from: IpAddr, to: IpAddr) {
        self.relieve(|blockades| {
            let (from, to) = (blockades.interface(from), blockades.interface(to));
            *blockades.pair_clog(from, to) = Time::ZERO;
            Reach::Pair(from, to)
        });
    }

    /// Holds back all messages to an address for that many seconds, if `mode` includes receiving.
    pub fn clog_interface(&self, ip: IpAddr, mode: ClogMode, seconds: f64) {
        if mode == ClogMode::Send {
            return;
        }
        let until = self.now().after(seconds);
        self.block(|blockades| {
            let interface = blockades.interface(ip);
            let clog = &mut blockades.receive_clogs[interface as usize];
            *clog = until.max(*clog);
            blockades.extend(until);
            (until, Reach::Interface(interface))
        });
        self.record_fault(Event::InterfaceClogged { ip, until });
    }

    /// Ends the clog of an interface. Messages that were held back arrive.
    pub fn unclog_interface(&self, ip: IpAddr) {
        self.relieve(|blockades| {
            let interface = blockades.interface(ip);
            blockades.receive_clogs[interface as usize] = Time::ZERO;
            Reach::Interface(interface)
        });
    }

    /// Cuts two addresses off from each other, in both directions, until [`Kernel::heal`].
    pub fn partition(&self, a: IpAddr, b: IpAddr) {
        self.block(|blockades| {
            let (x, y) = (blockades.interface(a), blockades.interface(b));
            blockades.partitions.insert((x.min(y), x.max(y)));
            blockades.extend(Time::NEVER);
            (Time::NEVER, Reach::Pair(x, y))
        });
        self.record_fault(Event::Partitioned {
            a,
            b,
            healed: false,
        });
    }

    /// Ends a partition. Messages that were held back arrive.
    pub fn heal(&self, a: IpAddr, b: IpAddr) {
        self.record(|| Event::Partitioned { a, b, healed: true });
        self.relieve(|blockades| {
            let (x, y) = (blockades.interface(a), blockades.interface(b));
            blockades.partitions.remove(&(x.min(y), x.max(y)));
            Reach::Pair(x, y)
        });
    }

    /// Cuts an address off from all others, in both directions, for the rest of the run: also while
    /// the faults of the network are switched off.
    pub fn cut_off(&self, ip: IpAddr) {
        let now = self.now();
        self.block(|blockades| {
            let interface = blockades.interface(ip);
            blockades.cut_off.entry(interface).or_insert(now);
            blockades.extend(Time::NEVER);
            (Time::NEVER, Reach::Interface(interface))
        });
        let until = Time::NEVER;
        self.record_fault(Event::InterfaceClogged { ip, until });
    }

    /// Whether two processes are cut off from each other for the rest of the run, and every failure
    /// monitor has had the time to notice.
    pub fn is_known_cut_off(&self, from: ProcessId, to: ProcessId) -> bool {
        let network = self.0.network.borrow();
        let blockades = &network.blockades;
        if blockades.cut_off.is_empty() {
            return false;
        }
        let since = blockades.cut_off_since(LinkId { from, to });
        let detected = network.config.failure_detection_seconds;
        since.is_some_and(|since| self.now().since(since) > detected)
    }

    fn block(&self, change: impl FnOnce(&mut Blockades) -> (Time, Reach)) {
        let (until, reach) = change(&mut self.0.network.borrow_mut().blockades);
        // Most clogs are over before any process could notice.
        if self.is_noticeable(until) {
            self.monitor_all(reach);
        }
    }

    fn relieve(&self, change: impl FnOnce(&mut Blockades) -> Reach) {
        let reach = {
            let blockades = &mut self.0.network.borrow_mut().blockades;
            let reach = change(blockades);
            blockades.relieved += 1;
            if blockades.partitions.is_empty() && blockades.cut_off.is_empty() {
                let clogs = blockades.pair_clogs.iter().flatten();
                let clogs = clogs.chain(&blockades.receive_clogs);
                blockades.clogged_until = clogs.copied().max().unwrap_or_default();
            }
            reach
        };
        self.serve_links(reach);
        self.restore(reach);
        self.monitor_all(reach);
    }
}
