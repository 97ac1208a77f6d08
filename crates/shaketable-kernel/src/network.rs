//! The network: how long messages take, and what can hold them back or lose them.
//!
//! Between each ordered pair of processes there is a link, a FIFO of messages with the time each is due. One timer
//! per link stands for its first message. A clog never touches a message: when the timer fires and the link
//! is clogged, it is simply set again for the end of the clog, so nothing is lost or reordered.
//!
//! Two processes share one connection, two links. When it breaks, requests pending over it end with
//! `MaybeDelivered`, and each message in flight arrives or is lost, by a coin.

use crate::kernel::Kernel;
use crate::process::ProcessId;
use crate::random::Stream;
use crate::record::Event;
use crate::request::PendingRequest;
use crate::time::Time;
use crate::timer::Action;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;

/// How long messages take and how often connections break. All durations in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkConfig {
    /// A sender waits up to this long for more messages before it sends.
    pub batching: f64,
    /// The shortest time a message spends in one of its two halves of the way.
    pub half_latency_min: f64,
    /// The longest time, usually.
    pub half_latency_fast: f64,
    /// The longest time, rarely.
    pub half_latency_slow: f64,
    /// How rarely.
    pub slow_chance: f64,
    /// Each ordered pair of addresses has a fixed latency of its own up to this.
    pub pair_latency: f64,
    /// The chance, for each message, that it breaks its connection.
    pub connection_failure_chance: f64,
}

impl NetworkConfig {
    /// FoundationDB's simulated network.
    pub fn simulation() -> NetworkConfig {
        NetworkConfig {
            batching: 0.002,
            half_latency_min: 0.000_05,
            half_latency_fast: 0.000_4,
            half_latency_slow: 0.05,
            slow_chance: 0.001,
            pair_latency: 0.0,
            connection_failure_chance: 0.0,
        }
    }

    /// No latency at all: a message costs one trip through the ready queue.
    pub fn instant() -> NetworkConfig {
        NetworkConfig {
            batching: 0.0,
            half_latency_min: 0.0,
            half_latency_fast: 0.0,
            half_latency_slow: 0.0,
            slow_chance: 0.0,
            pair_latency: 0.0,
            connection_failure_chance: 0.0,
        }
    }

    fn is_instant(&self) -> bool {
        self.batching == 0.0
            && self.half_latency_fast == 0.0
            && (self.half_latency_slow == 0.0 || self.slow_chance == 0.0)
            && self.pair_latency == 0.0
    }
}

/// What an interface clog holds back. As in FoundationDB, holding back what is sent has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum ClogMode {
    Send,
    Receive,
    All,
}

/// The way from one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkId {
    from: ProcessId,
    to: ProcessId,
}

impl LinkId {
    fn back(self) -> LinkId {
        LinkId {
            from: self.to,
            to: self.from,
        }
    }
}

/// A message on its way.
pub(crate) trait Parcel {
    /// It has arrived.
    fn arrive(self: Box<Self>, kernel: &Kernel);
    /// The connection that carried it is gone; says whether it may be lost.
    fn may_be_lost(&self) -> bool;
}

pub(crate) struct Network {
    config: NetworkConfig,
    instant: bool,
    faults: bool,
    stream: Stream,
    /// By sender, then by receiver; grown when first used.
    links: Vec<Vec<Link>>,
    /// By process: the number of its address.
    interfaces: Vec<u32>,
    addresses: Vec<IpAddr>,
    receive_clogs: Vec<Time>,
    pair_clogs: BTreeMap<(u32, u32), Time>,
    partitions: BTreeMap<(u32, u32), ()>,
    pair_latencies: BTreeMap<(u32, u32), f64>,
    /// No clog lasts longer than this: the short cut for a calm network.
    clogged_until: Time,
}

#[derive(Default)]
struct Link {
    queue: VecDeque<InFlight>,
    /// Nothing sent later may be due earlier.
    last_due: Time,
    /// Whether the timer for the first message is set (or the link is just being served).
    ticking: bool,
    /// Which connection in a row this is.
    connection: u32,
    pending: Vec<Option<Rc<dyn PendingRequest>>>,
    free: Vec<u32>,
}

struct InFlight {
    due: Time,
    connection: u32,
    parcel: Box<dyn Parcel>,
}

impl Network {
    pub(crate) fn new(config: NetworkConfig, stream: Stream) -> Network {
        Network {
            instant: config.is_instant(),
            config,
            faults: true,
            stream,
            links: Vec::new(),
            interfaces: Vec::new(),
            addresses: Vec::new(),
            receive_clogs: Vec::new(),
            pair_clogs: BTreeMap::new(),
            partitions: BTreeMap::new(),
            pair_latencies: BTreeMap::new(),
            clogged_until: Time::ZERO,
        }
    }

    pub(crate) fn add_process(&mut self, ip: IpAddr) {
        let interface = self.interface(ip);
        self.interfaces.push(interface);
        self.links.push(Vec::new());
    }

    fn interface(&mut self, ip: IpAddr) -> u32 {
        let known = self.addresses.iter().position(|address| *address == ip);
        known.unwrap_or_else(|| {
            self.addresses.push(ip);
            self.receive_clogs.push(Time::ZERO);
            self.addresses.len() - 1
        }) as u32
    }

    fn link(&mut self, id: LinkId) -> &mut Link {
        let row = &mut self.links[id.from.index()];
        if row.len() <= id.to.index() {
            row.resize_with(id.to.index() + 1, Link::default);
        }
        &mut row[id.to.index()]
    }

    fn pair(&self, id: LinkId) -> (u32, u32) {
        (
            self.interfaces[id.from.index()],
            self.interfaces[id.to.index()],
        )
    }

    fn latency(&mut self, id: LinkId) -> f64 {
        if self.instant {
            return 0.0;
        }
        let config = &self.config;
        let batching = config.batching * self.stream.uniform();
        let half = || {
            let longest = if self.stream.chance(config.slow_chance) {
                config.half_latency_slow
            } else {
                config.half_latency_fast
            };
            self.stream.range(config.half_latency_min, longest)
        };
        let mut latency = batching + half() + half();
        if config.pair_latency > 0.0 {
            let (longest, stream) = (config.pair_latency, &self.stream);
            latency += *self
                .pair_latencies
                .entry((
                    self.interfaces[id.from.index()],
                    self.interfaces[id.to.index()],
                ))
                .or_insert_with(|| longest * stream.uniform());
        }
        latency
    }

    /// Until when nothing arrives over this link.
    fn blocked_until(&self, id: LinkId, now: Time) -> Time {
        let (from, to) = self.pair(id);
        if !self.partitions.is_empty()
            && self.partitions.contains_key(&(from.min(to), from.max(to)))
        {
            return Time::NEVER;
        }
        if !self.faults || self.clogged_until <= now {
            return Time::ZERO;
        }
        let pair = self
            .pair_clogs
            .get(&(from, to))
            .copied()
            .unwrap_or_default();
        pair.max(self.receive_clogs[to as usize])
    }

    pub(crate) fn register(
        &mut self,
        from: ProcessId,
        to: ProcessId,
        request: Rc<dyn PendingRequest>,
    ) -> u32 {
        let link = self.link(LinkId { from, to });
        match link.free.pop() {
            Some(slot) => {
                link.pending[slot as usize] = Some(request);
                slot
            }
            None => {
                link.pending.push(Some(request));
                link.pending.len() as u32 - 1
            }
        }
    }

    pub(crate) fn unregister(
        &mut self,
        from: ProcessId,
        to: ProcessId,
        slot: u32,
    ) -> Option<Rc<dyn PendingRequest>> {
        let link = self.link(LinkId { from, to });
        let request = link.pending[slot as usize].take();
        if request.is_some() {
            link.free.push(slot);
        }
        request
    }

    /// The requests pending over a link, in the order of their slots.
    fn pending(&mut self, id: LinkId) -> Vec<Rc<dyn PendingRequest>> {
        self.link(id).pending.iter().flatten().cloned().collect()
    }

    /// Forgets everything in flight; returned for the caller to drop.
    pub(crate) fn clear(&mut self) -> impl Sized + use<> {
        self.links
            .iter_mut()
            .map(std::mem::take)
            .collect::<Vec<_>>()
    }
}

impl Kernel {
    /// Replaces the parameters of the network.
    pub fn set_network_config(&self, config: NetworkConfig) {
        let mut network = self.0.network.borrow_mut();
        network.instant = config.is_instant();
        network.config = config;
    }

    /// The parameters of the network.
    pub fn network_config(&self) -> NetworkConfig {
        self.0.network.borrow().config.clone()
    }

    /// Switches network faults on or off: while off, clogs are ignored and connections do not break by chance.
    pub fn set_faults_enabled(&self, enabled: bool) {
        self.0.network.borrow_mut().faults = enabled;
        if !enabled {
            self.serve_links();
        }
    }

    /// Whether network faults take effect.
    pub fn faults_enabled(&self) -> bool {
        self.0.network.borrow().faults
    }

    /// Holds back all messages from one address to another for so many seconds. An earlier, longer clog stays.
    pub fn clog_pair(&self, from: IpAddr, to: IpAddr, seconds: f64) {
        let until = self.now().after(seconds);
        {
            let mut network = self.0.network.borrow_mut();
            let pair = (network.interface(from), network.interface(to));
            let clog = network.pair_clogs.entry(pair).or_default();
            *clog = until.max(*clog);
            network.clogged_until = until.max(network.clogged_until);
        }
        self.record(|| Event::PairClogged { from, to, until });
    }

    /// Ends a clog of a pair.
    pub fn unclog_pair(&self, from: IpAddr, to: IpAddr) {
        {
            let mut network = self.0.network.borrow_mut();
            let pair = (network.interface(from), network.interface(to));
            network.pair_clogs.remove(&pair);
        }
        self.serve_links();
    }

    /// Holds back all messages to an address for so many seconds, if `mode` includes receiving.
    pub fn clog_interface(&self, ip: IpAddr, mode: ClogMode, seconds: f64) {
        if mode == ClogMode::Send {
            return;
        }
        let until = self.now().after(seconds);
        {
            let mut network = self.0.network.borrow_mut();
            let interface = network.interface(ip) as usize;
            let clog = &mut network.receive_clogs[interface];
            *clog = until.max(*clog);
            network.clogged_until = until.max(network.clogged_until);
        }
        self.record(|| Event::InterfaceClogged { ip, until });
    }

    /// Ends a clog of an interface.
    pub fn unclog_interface(&self, ip: IpAddr) {
        {
            let mut network = self.0.network.borrow_mut();
            let interface = network.interface(ip) as usize;
            network.receive_clogs[interface] = Time::ZERO;
        }
        self.serve_links();
    }

    /// Cuts two addresses off from one another, in both directions, until [`Kernel::heal`].
    pub fn partition(&self, a: IpAddr, b: IpAddr) {
        {
            let mut network = self.0.network.borrow_mut();
            let (x, y) = (network.interface(a), network.interface(b));
            network.partitions.insert((x.min(y), x.max(y)), ());
        }
        self.record(|| Event::Partitioned {
            a,
            b,
            healed: false,
        });
    }

    /// Ends a partition. What was held back arrives.
    pub fn heal(&self, a: IpAddr, b: IpAddr) {
        {
            let mut network = self.0.network.borrow_mut();
            let (x, y) = (network.interface(a), network.interface(b));
            network.partitions.remove(&(x.min(y), x.max(y)));
        }
        self.record(|| Event::Partitioned { a, b, healed: true });
        self.serve_links();
    }

    /// Breaks the connection of two processes: requests pending over it, in both directions, end with `MaybeDelivered`.
    pub fn close_connection(&self, a: ProcessId, b: ProcessId) {
        let there = LinkId { from: a, to: b };
        let mut pending = Vec::new();
        {
            let mut network = self.0.network.borrow_mut();
            for id in [there, there.back()] {
                network.link(id).connection += 1;
                pending.extend(network.pending(id));
            }
        }
        self.record(|| Event::ConnectionClosed { a, b });
        for request in pending {
            request.disconnect();
        }
    }

    /// Sends a message.
    pub(crate) fn ship(
        &self,
        from: ProcessId,
        to: ProcessId,
        name: &'static str,
        parcel: Box<dyn Parcel>,
    ) {
        if from == to {
            parcel.arrive(self);
            return;
        }
        let now = self.now();
        let id = LinkId { from, to };
        let mut network = self.0.network.borrow_mut();
        let chance = network.config.connection_failure_chance;
        let breaks = network.faults && chance > 0.0 && network.stream.chance(chance);
        let latency = network.latency(id);
        let blocked = network.blocked_until(id, now) > now;
        let link = network.link(id);
        let due = now.after(latency).max(link.last_due);
        if due == now && link.queue.is_empty() && !blocked {
            drop(network);
            self.record(|| Event::MessageSent {
                from,
                to,
                message: name,
                due,
            });
            parcel.arrive(self);
            return;
        }
        link.last_due = due;
        link.queue.push_back(InFlight {
            due,
            connection: link.connection,
            parcel,
        });
        let start = !std::mem::replace(&mut link.ticking, true);
        drop(network);
        if start {
            self.set_timer(due, Action::Link(id));
        }
        self.record(|| Event::MessageSent {
            from,
            to,
            message: name,
            due,
        });
        if breaks {
            self.close_connection(from, to);
        }
    }

    /// The timer of a link: delivers what is due, and sets it again for the rest.
    pub(crate) fn link_due(&self, id: LinkId) {
        loop {
            let now = self.now();
            let mut network = self.0.network.borrow_mut();
            let blocked = network.blocked_until(id, now);
            let link = network.link(id);
            // While this serves the link, nobody else sets its timer.
            link.ticking = true;
            let Some(first) = link.queue.front() else {
                link.ticking = false;
                return;
            };
            let due = first.due.max(blocked);
            if due > now {
                // A partition has no end to wait for; healing it serves the link.
                link.ticking = due != Time::NEVER;
                drop(network);
                if due != Time::NEVER {
                    self.set_timer(due, Action::Link(id));
                }
                return;
            }
            let Some(message) = link.queue.pop_front() else {
                return;
            };
            let broken = message.connection != link.connection;
            let lost = broken && message.parcel.may_be_lost() && network.stream.chance(0.5);
            drop(network);
            let LinkId { from, to } = id;
            if lost {
                self.record(|| Event::MessageLost { from, to });
            } else {
                self.record(|| Event::MessageDelivered { from, to });
                message.parcel.arrive(self);
            }
        }
    }

    /// Delivers what a clog or partition that is over still holds back.
    fn serve_links(&self) {
        let waiting: Vec<LinkId> = {
            let network = self.0.network.borrow();
            let rows = network.links.iter().enumerate();
            rows.flat_map(|(from, row)| {
                row.iter()
                    .enumerate()
                    .filter(|(_, link)| !link.queue.is_empty())
                    .map(move |(to, _)| LinkId {
                        from: ProcessId(from as u32),
                        to: ProcessId(to as u32),
                    })
            })
            .collect()
        };
        for id in waiting {
            self.link_due(id);
        }
    }

    /// A process has died: whoever waits for it learns so when the news has travelled.
    pub(crate) fn connections_lost(&self, process: ProcessId) {
        let incarnation = self.incarnation(process);
        for other in self.processes() {
            let id = LinkId {
                from: other,
                to: process,
            };
            let waiting = other != process && !self.0.network.borrow_mut().pending(id).is_empty();
            if waiting {
                self.ship(
                    process,
                    other,
                    "connection closed",
                    Box::new(Obituary { id, incarnation }),
                );
            }
        }
    }
}

/// Says that a process has died to one that waits for it.
struct Obituary {
    /// The way of the requests that have died with it.
    id: LinkId,
    incarnation: u32,
}

impl Parcel for Obituary {
    fn arrive(self: Box<Self>, kernel: &Kernel) {
        let pending = kernel.0.network.borrow_mut().pending(self.id);
        for request in pending {
            if request.incarnation() <= self.incarnation {
                request.disconnect();
            }
        }
    }

    fn may_be_lost(&self) -> bool {
        false
    }
}
