//! What holds messages back: clogs of pairs and interfaces, and partitions.
//!
//! Blockades are between addresses, as in FoundationDB's simulator, and delay without losing anything. A clog
//! has an end; a partition lasts until it is healed and counts as a clog without end.

use crate::kernel::Kernel;
use crate::network::LinkId;
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
    receive_clogs: Vec<Time>,
    pair_clogs: BTreeMap<(u32, u32), Time>,
    /// Pairs with the smaller number first.
    partitions: BTreeSet<(u32, u32)>,
    /// No clog lasts longer than this: the short cut for a calm network.
    clogged_until: Time,
    /// Counts the times something was unblocked before its time.
    pub(crate) relieved: u32,
}

impl Blockades {
    pub(crate) fn new() -> Blockades {
        Blockades {
            faults: true,
            interfaces: Vec::new(),
            addresses: Vec::new(),
            receive_clogs: Vec::new(),
            pair_clogs: BTreeMap::new(),
            partitions: BTreeSet::new(),
            clogged_until: Time::ZERO,
            relieved: 0,
        }
    }

    pub(crate) fn add_process(&mut self, ip: IpAddr) {
        let interface = self.interface(ip);
        self.interfaces.push(interface);
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

    /// Until when nothing arrives over this link; a time that has passed if nothing holds it.
    pub(crate) fn until(&self, id: LinkId, now: Time) -> Time {
        if self.clogged_until <= now || !self.faults {
            return Time::ZERO;
        }
        let (from, to) = self.pair(id);
        if self.partitions.contains(&(from.min(to), from.max(to))) {
            return Time::NEVER;
        }
        let pair = self
            .pair_clogs
            .get(&(from, to))
            .copied()
            .unwrap_or_default();
        pair.max(self.receive_clogs[to as usize])
    }

    fn interface(&mut self, ip: IpAddr) -> u32 {
        let known = self.addresses.iter().position(|address| *address == ip);
        known.unwrap_or_else(|| {
            self.addresses.push(ip);
            self.receive_clogs.push(Time::ZERO);
            self.addresses.len() - 1
        }) as u32
    }

    fn extend(&mut self, until: Time) {
        self.clogged_until = until.max(self.clogged_until);
    }
}

impl Kernel {
    /// Switches the faults of the network on or off. While they are off, nothing is held back and no connection
    /// breaks by chance: FoundationDB's "speed up". What is held back at that moment arrives.
    pub fn set_faults_enabled(&self, enabled: bool) {
        self.relieve(|blockades| blockades.faults = enabled);
    }

    /// Whether the faults of the network take effect.
    pub fn faults_enabled(&self) -> bool {
        self.0.network.borrow().blockades.faults
    }

    /// Holds back all messages from one address to another for so many seconds. A clog that lasts longer stays.
    pub fn clog_pair(&self, from: IpAddr, to: IpAddr, seconds: f64) {
        let until = self.now().after(seconds);
        self.block(|blockades| {
            let pair = (blockades.interface(from), blockades.interface(to));
            let clog = blockades.pair_clogs.entry(pair).or_default();
            *clog = until.max(*clog);
            blockades.extend(until);
        });
        self.record(|| Event::PairClogged { from, to, until });
    }

    /// Ends the clog of a pair. What was held back arrives.
    pub fn unclog_pair(&self, from: IpAddr, to: IpAddr) {
        self.relieve(|blockades| {
            let pair = (blockades.interface(from), blockades.interface(to));
            blockades.pair_clogs.remove(&pair);
        });
    }

    /// Holds back all messages to an address for so many seconds, if `mode` includes receiving.
    pub fn clog_interface(&self, ip: IpAddr, mode: ClogMode, seconds: f64) {
        if mode == ClogMode::Send {
            return;
        }
        let until = self.now().after(seconds);
        self.block(|blockades| {
            let interface = blockades.interface(ip) as usize;
            let clog = &mut blockades.receive_clogs[interface];
            *clog = until.max(*clog);
            blockades.extend(until);
        });
        self.record(|| Event::InterfaceClogged { ip, until });
    }

    /// Ends the clog of an interface. What was held back arrives.
    pub fn unclog_interface(&self, ip: IpAddr) {
        self.relieve(|blockades| {
            let interface = blockades.interface(ip) as usize;
            blockades.receive_clogs[interface] = Time::ZERO;
        });
    }

    /// Cuts two addresses off from one another, in both directions, until [`Kernel::heal`].
    pub fn partition(&self, a: IpAddr, b: IpAddr) {
        self.block(|blockades| {
            let (x, y) = (blockades.interface(a), blockades.interface(b));
            blockades.partitions.insert((x.min(y), x.max(y)));
            blockades.extend(Time::NEVER);
        });
        self.record(|| Event::Partitioned {
            a,
            b,
            healed: false,
        });
    }

    /// Ends a partition. What was held back arrives.
    pub fn heal(&self, a: IpAddr, b: IpAddr) {
        self.record(|| Event::Partitioned { a, b, healed: true });
        self.relieve(|blockades| {
            let (x, y) = (blockades.interface(a), blockades.interface(b));
            blockades.partitions.remove(&(x.min(y), x.max(y)));
        });
    }

    fn block(&self, change: impl FnOnce(&mut Blockades)) {
        change(&mut self.0.network.borrow_mut().blockades);
        self.monitor_all();
    }

    fn relieve(&self, change: impl FnOnce(&mut Blockades)) {
        {
            let blockades = &mut self.0.network.borrow_mut().blockades;
            change(blockades);
            blockades.relieved += 1;
            if blockades.partitions.is_empty() {
                let clogs = blockades
                    .pair_clogs
                    .values()
                    .chain(&blockades.receive_clogs);
                blockades.clogged_until = clogs.copied().max().unwrap_or_default();
            }
        }
        self.serve_links();
        self.restore();
        self.monitor_all();
    }
}
