//! The network: how long messages take, in which order they arrive, and how connections break.
//!
//! Between each ordered pair of processes there is a link, a FIFO of messages with the time each is due. One timer
//! per link stands for its first message; a later one that would be due earlier arrives right after it. What
//! holds messages back ([`crate::clog`]) never touches them: when the timer fires and the link is blocked, it is set
//! again for the end of the blockade, so that nothing is lost or reordered.
//!
//! Two processes share one connection, that is two links. When it breaks, requests pending over it end with
//! `MaybeDelivered`, and each message in flight arrives or is lost, by a coin; *reliable* requests stay pending, and their
//! messages travel over the next connection. As in FoundationDB's simulator most connections that break by chance do so
//! silently: nothing arrives any more, and only a ping that stays away tells. Who notices a broken or silent
//! connection, and when, is the business of [`crate::failure`].

use crate::clog::{Blockades, Reach};
use crate::failure::Watch;
use crate::kernel::Kernel;
use crate::process::ProcessId;
use crate::random::Stream;
use crate::record::Event;
use crate::request::PendingRequest;
use crate::time::Time;
use crate::timer::{Action, TimerId};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;

/// How long messages take, how often connections break, and how soon that is noticed. All durations in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkConfig {
    /// A sender waits up to this long for more messages before it sends.
    pub batching: f64,
    /// The shortest time a message spends in one of the two halves of its way.
    pub half_latency_min: f64,
    /// The longest time, usually.
    pub half_latency_fast: f64,
    /// The longest time, rarely.
    pub half_latency_slow: f64,
    /// How rarely.
    pub slow_chance: f64,
    /// Each ordered pair of addresses has a fixed latency of its own up to this, while faults are on.
    pub pair_latency: f64,
    /// How often a message is cut in two whose rest travels later, and is cut again: a receiver sees a part of what was
    /// sent and waits for the rest.
    pub split_chance: f64,
    /// The first message of a connection waits up to this long, for the slower of the two sides. Servers that talk while
    /// faults are off are connected for nothing, and so are clients at first: a test begins long after its
    /// cluster has come up.
    pub connect_latency: f64,
    /// The chance, for each message, that it breaks its connection, while such failures are enabled.
    pub connection_failure_chance: f64,
    /// How often a connection that breaks by chance does so for everybody to see; else only silence tells.
    pub explicit_failure_chance: f64,
    /// How long a connection over which nothing arrives is endured, at least.
    pub connection_timeout_min: f64,
    /// How long, at most.
    pub connection_timeout_max: f64,
    /// After how long a silence the other process is declared failed.
    pub failure_detection_delay: f64,
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
            split_chance: 0.5,
            connect_latency: 0.5,
            // One in 100,000 for each read and each write of a socket: a message is one write, and two reads for each of
            // its parts; and there are the pings, which do not exist here.
            connection_failure_chance: 1e-4,
            explicit_failure_chance: 0.3,
            // The monitor looks every 0.75 s and gives a ping 1.5 s to come back.
            connection_timeout_min: 1.5,
            connection_timeout_max: 2.25,
            failure_detection_delay: 4.0,
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
            connect_latency: 0.0,
            ..NetworkConfig::simulation()
        }
    }

    fn is_instant(&self) -> bool {
        self.batching == 0.0
            && self.half_latency_fast == 0.0
            && (self.half_latency_slow == 0.0 || self.slow_chance == 0.0)
            && self.pair_latency == 0.0
            && self.connect_latency == 0.0
    }
}

/// The way from one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinkId {
    pub(crate) from: ProcessId,
    pub(crate) to: ProcessId,
}

impl LinkId {
    pub(crate) fn back(self) -> LinkId {
        LinkId {
            from: self.to,
            to: self.from,
        }
    }

    /// The link that stands for the connection: the one from the earlier process to the later.
    pub(crate) fn first(self) -> LinkId {
        if self.from <= self.to {
            self
        } else {
            self.back()
        }
    }
}

/// A message on its way.
pub(crate) trait Parcel {
    /// It has arrived; `alone` if nobody else is at work at the moment, as its sender would be.
    fn arrive(self: Box<Self>, kernel: &Kernel, alone: bool);
    /// What becomes of it when its connection breaks.
    fn delivery(&self) -> Delivery;
}

/// What becomes of a message when the connection that carries it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It arrives, or is lost.
    AtMostOnce,
    /// It travels over the next connection.
    Reliable,
    /// It is the news of the break, and needs no connection.
    News,
}

/// How long the two halves of a way take: the numbers of [`NetworkConfig`], ready to be used.
struct Ways {
    slow_chance: f64,
    shortest: f64,
    /// What a draw is multiplied by: below `slow_chance`, and above it, where it begins at `slow_chance`.
    slow: f64,
    fast: f64,
}

impl Ways {
    fn new(config: &NetworkConfig) -> Ways {
        let span = |longest| longest - config.half_latency_min;
        Ways {
            slow_chance: config.slow_chance,
            shortest: config.half_latency_min,
            slow: span(config.half_latency_slow) / config.slow_chance,
            fast: span(config.half_latency_fast) / (1.0 - config.slow_chance),
        }
    }

    /// One number says both whether a half is slow and how slow.
    fn half(&self, draw: f64) -> f64 {
        let more = if draw < self.slow_chance {
            draw * self.slow
        } else {
            (draw - self.slow_chance) * self.fast
        };
        self.shortest + more
    }
}

pub(crate) struct Network {
    pub(crate) config: NetworkConfig,
    instant: bool,
    ways: Ways,
    connection_failures: bool,
    /// Latencies come from here.
    latencies: Stream,
    /// Which connections break and what they lose.
    failures: Stream,
    /// By sender, then by receiver; grown when first used.
    links: Vec<Vec<Link>>,
    pub(crate) blockades: Blockades,
    pair_latencies: BTreeMap<(u32, u32), f64>,
}

#[derive(Default)]
pub(crate) struct Link {
    queue: VecDeque<InFlight>,
    /// The timer for the first message.
    timer: Option<TimerId>,
    /// Which connection in a row this is, and whether it has been made.
    connection: u32,
    connected: Connected,
    /// Until when nothing arrives because the connection is silently broken, or being made.
    mute_until: Time,
    pending: Vec<Option<Rc<dyn PendingRequest>>>,
    free: Vec<u32>,
    /// What the sender of this link knows about its receiver, if it cares.
    pub(crate) watch: Option<Box<Watch>>,
    /// Whether somebody is counting how long the connection stays silent; of its two links, the first says so.
    pub(crate) monitored: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Connected {
    #[default]
    NotYet,
    Yes,
    /// It broke.
    NoMore,
}

struct InFlight {
    due: Time,
    connection: u32,
    parcel: Box<dyn Parcel>,
}

impl Link {
    /// Whether the sender waits for a reply.
    pub(crate) fn awaits(&self) -> bool {
        self.pending.len() > self.free.len()
    }

    fn pending(&self) -> Vec<Rc<dyn PendingRequest>> {
        self.pending.iter().flatten().cloned().collect()
    }
}

impl Network {
    pub(crate) fn new(config: NetworkConfig, latencies: Stream, failures: Stream) -> Network {
        Network {
            instant: config.is_instant(),
            ways: Ways::new(&config),
            config,
            connection_failures: false,
            latencies,
            failures,
            links: Vec::new(),
            blockades: Blockades::new(),
            pair_latencies: BTreeMap::new(),
        }
    }

    pub(crate) fn add_process(&mut self, ip: IpAddr) {
        self.blockades.add_process(ip);
        self.links.push(Vec::new());
    }

    #[inline]
    pub(crate) fn link(&mut self, id: LinkId) -> &mut Link {
        let row = &mut self.links[id.from.index()];
        if row.len() <= id.to.index() {
            row.resize_with(id.to.index() + 1, Link::default);
        }
        &mut row[id.to.index()]
    }

    /// The links within reach that have ever been used and satisfy the condition.
    pub(crate) fn links_where(
        &self,
        reach: Reach,
        mut condition: impl FnMut(LinkId, &Link) -> bool,
    ) -> Vec<LinkId> {
        self.blockades.links(reach, |id| {
            let link = self.links[id.from.index()].get(id.to.index());
            link.is_some_and(|link| condition(id, link))
        })
    }

    /// The links from others to a process that have ever been used and satisfy the condition.
    pub(crate) fn links_to(
        &self,
        to: ProcessId,
        mut condition: impl FnMut(&Link) -> bool,
    ) -> Vec<LinkId> {
        let used = self.links.iter().enumerate().filter_map(|(from, row)| {
            let from = ProcessId(from as u32);
            let link = row.get(to.index()).filter(|_| from != to)?;
            condition(link).then_some(LinkId { from, to })
        });
        used.collect()
    }

    /// A process has died: whoever talks to its next incarnation must connect anew.
    pub(crate) fn disconnect_all(&mut self, process: ProcessId) {
        for link in &mut self.links[process.index()] {
            link.connected = Connected::NoMore;
        }
        for row in &mut self.links {
            if let Some(link) = row.get_mut(process.index()) {
                link.connected = Connected::NoMore;
            }
        }
    }

    fn latency(&mut self, id: LinkId) -> f64 {
        if self.instant {
            return 0.0;
        }
        let (config, stream) = (&self.config, &self.latencies);
        let [batching, mut part, first, second] = stream.uniform_four();
        let ways = &self.ways;
        let mut latency = config.batching * batching + ways.half(first) + ways.half(second);
        // One number says how many parts there are: what is left of it, once it is known that there is another, is still uniform.
        while part < config.split_chance {
            part /= config.split_chance;
            let [first, second, ..] = stream.uniform_four();
            latency += ways.half(first) + ways.half(second);
        }
        if config.pair_latency > 0.0 && self.blockades.faults_enabled() {
            let pair = self.blockades.pair(id);
            latency += *self
                .pair_latencies
                .entry(pair)
                .or_insert_with(|| config.pair_latency * stream.uniform());
        }
        latency
    }

    /// Whether the next message breaks its connection.
    fn breaks(&self) -> bool {
        self.connection_failures
            && self.blockades.faults_enabled()
            && self.failures.chance(self.config.connection_failure_chance)
    }

    /// Connects two processes anew: nothing passes until that is done.
    fn connect(&mut self, id: LinkId, now: Time) {
        let slower = self.failures.uniform().max(self.failures.uniform());
        let until = now.after(self.config.connect_latency * slower);
        for id in [id, id.back()] {
            let link = self.link(id);
            link.connected = Connected::Yes;
            link.mute_until = until;
        }
    }

    /// Notes a request that waits for its reply; gives the number to forget it by.
    pub(crate) fn register(&mut self, id: LinkId, request: Rc<dyn PendingRequest>) -> u32 {
        let link = self.link(id);
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

    /// Forgets a request; it is returned for the caller to drop.
    pub(crate) fn unregister(&mut self, id: LinkId, slot: u32) -> Option<Rc<dyn PendingRequest>> {
        let link = self.link(id);
        let request = link.pending.get_mut(slot as usize)?.take();
        if request.is_some() {
            link.free.push(slot);
        }
        request
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
        network.ways = Ways::new(&config);
        network.config = config;
    }

    /// The parameters of the network.
    pub fn network_config(&self) -> NetworkConfig {
        self.0.network.borrow().config.clone()
    }

    /// Lets connections break by chance, or not. At first they do not.
    pub fn set_connection_failures(&self, enabled: bool) {
        self.0.network.borrow_mut().connection_failures = enabled;
    }

    /// Breaks the connection of two processes: requests pending over it, in both directions, end with
    /// `MaybeDelivered` unless they are reliable, and messages in flight may be lost.
    pub fn close_connection(&self, a: ProcessId, b: ProcessId) {
        let there = LinkId { from: a, to: b };
        let mut pending = Vec::new();
        {
            let mut network = self.0.network.borrow_mut();
            let mut in_flight = false;
            for id in [there, there.back()] {
                let link = network.link(id);
                link.connection += 1;
                link.connected = Connected::NoMore;
                link.mute_until = Time::ZERO;
                in_flight |= !link.queue.is_empty();
                pending.extend(link.pending());
            }
            if in_flight {
                network.connect(there, self.now());
            }
        }
        self.record(|| Event::ConnectionClosed { a, b });
        for request in pending {
            if !request.is_reliable() {
                request.disconnect();
            }
        }
        for id in [there, there.back()] {
            self.serve_link(id, false);
        }
    }

    /// Whether both ends of a link come back after a reboot: clients do not.
    fn are_servers(&self, id: LinkId) -> bool {
        self.boots(id.from) && self.boots(id.to)
    }

    /// A connection breaks by chance. Mostly nobody is told: nothing arrives until somebody's ping stays away.
    fn break_connection(&self, id: LinkId) {
        let silence = {
            let mut network = self.0.network.borrow_mut();
            let NetworkConfig {
                connection_timeout_min: min,
                connection_timeout_max: max,
                explicit_failure_chance,
                ..
            } = network.config;
            let explicit = network.failures.chance(explicit_failure_chance);
            let silence = network.failures.range(min, max);
            let now = self.now();
            let silent = network.link(id).mute_until > now;
            if !explicit {
                for id in [id, id.back()] {
                    network.link(id).mute_until = now.after(silence);
                }
            }
            // One that is silent already breaks no further.
            (!silent).then_some(if explicit { 0.0 } else { silence })
        };
        let Some(silence) = silence else { return };
        let connection = self.0.network.borrow_mut().link(id).connection;
        let close = move |kernel: &Kernel| {
            let same = kernel.0.network.borrow_mut().link(id).connection == connection;
            if same {
                kernel.close_connection(id.from, id.to);
            }
        };
        if silence > 0.0 {
            self.call_at(self.now().after(silence), close);
        } else {
            close(self);
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
            parcel.arrive(self, false);
            return;
        }
        let now = self.now();
        let id = LinkId { from, to };
        let mut network = self.0.network.borrow_mut();
        let breaks = network.breaks();
        let connected = network.link(id).connected; // there is a link from now on
        if connected != Connected::Yes && parcel.delivery() != Delivery::News {
            let strangers = connected == Connected::NotYet;
            if strangers && !(network.blockades.faults_enabled() && self.are_servers(id)) {
                for id in [id, id.back()] {
                    network.link(id).connected = Connected::Yes;
                }
            } else {
                network.connect(id, now);
            }
        }
        let latency = network.latency(id);
        let blocked = network.blockades.until(id, now) > now;
        let link = &mut network.links[id.from.index()][id.to.index()];
        let held = blocked || link.mute_until > now;
        let due = now.after(latency);
        if due <= now && link.queue.is_empty() && !held {
            drop(network);
            self.record(|| Event::MessageSent {
                from,
                to,
                message: name,
                due,
            });
            self.record(|| Event::MessageDelivered { from, to });
            parcel.arrive(self, false);
        } else {
            link.queue.push_back(InFlight {
                due,
                connection: link.connection,
                parcel,
            });
            if link.timer.is_none() {
                link.timer = Some(self.set_timer(due, Action::Link(id)));
            }
            drop(network);
            self.record(|| Event::MessageSent {
                from,
                to,
                message: name,
                due,
            });
            if blocked {
                self.monitor(id);
            }
        }
        if breaks {
            self.break_connection(id);
        }
    }

    /// Delivers what is due on a link, and sets its timer for the rest. Called by that timer (`alone`), or when a blockade
    /// has ended before its time, by whoever ended it.
    pub(crate) fn serve_link(&self, id: LinkId, alone: bool) {
        let now = self.now();
        let LinkId { from, to } = id;
        let mut timer_fired = alone;
        loop {
            let mut guard = self.0.network.borrow_mut();
            let network = &mut *guard;
            let Some(link) = network.links[from.index()].get_mut(to.index()) else {
                return;
            };
            if std::mem::take(&mut timer_fired) {
                link.timer = None;
            }
            let due = link.queue.front().map(|first| {
                let due = first.due.max(network.blockades.until(id, now));
                // News of a break needs no connection.
                if link.mute_until > now && first.parcel.delivery() != Delivery::News {
                    due.max(link.mute_until)
                } else {
                    due
                }
            });
            let Some(message) = (match due {
                Some(due) if due <= now => link.queue.pop_front(),
                _ => None,
            }) else {
                // A partition has no end to wait for; healing it serves the link.
                let timer = due
                    .filter(|due| *due != Time::NEVER)
                    .map(|due| self.set_timer(due, Action::Link(id)));
                if let Some(old) = std::mem::replace(&mut link.timer, timer) {
                    // A link's timer holds nothing whose destructor could matter.
                    self.0.timers.borrow_mut().cancel(old);
                }
                return;
            };
            let lost = message.connection != link.connection
                && message.parcel.delivery() == Delivery::AtMostOnce
                && network.failures.chance(0.5);
            let last = link.queue.is_empty() && link.timer.is_none();
            drop(guard);
            if lost {
                self.record(|| Event::MessageLost { from, to });
                drop(message);
            } else {
                self.record(|| Event::MessageDelivered { from, to });
                message.parcel.arrive(self, alone);
            }
            if last {
                return; // whoever sends something from now on sets the timer
            }
        }
    }

    /// Delivers what blockades that are over still hold back.
    pub(crate) fn serve_links(&self, reach: Reach) {
        let waiting = self
            .0
            .network
            .borrow()
            .links_where(reach, |_, link| !link.queue.is_empty());
        for id in waiting {
            self.serve_link(id, false);
        }
    }

    /// Ends the requests over a link that were sent to that incarnation of its receiver or an earlier one.
    pub(crate) fn disconnect(&self, id: LinkId, incarnation: u32) {
        let pending = self.0.network.borrow_mut().link(id).pending();
        for request in pending {
            if request.incarnation() <= incarnation {
                request.disconnect();
            }
        }
    }
}
