//! The network: how long messages take, in which order they arrive, and how connections break.
//!
//! Between each ordered pair of processes there is a link, a FIFO of messages with the time each is
//! due. One timer per link stands for its first message; a later message that would be due earlier
//! arrives right after it. What holds messages back ([`crate::clog`]) never touches them: when the
//! timer fires and the link is blocked, it is set again for the end of the blockade, so that
//! nothing is lost or reordered.
//!
//! Two processes share one connection, which is two links. When it breaks, requests pending over it
//! end with `MaybeDelivered`, and a coin decides whether each message in flight arrives or is lost;
//! *reliable* requests stay pending, and their messages travel over the next connection. As in
//! FoundationDB's simulator, most connections that break by chance do so silently: nothing arrives
//! any more, and only a missing ping reveals it. Which process notices a broken or silent
//! connection, and when, is decided in [`crate::failure`].

mod config;
mod connection;
mod link;

pub use config::NetworkConfig;
pub(crate) use connection::Reliable;
pub(crate) use link::{Delivery, Link, LinkId, Parcel};

use self::config::Ways;
use self::link::{Connected, Label};
use crate::clog::{Blockades, Reach};
use crate::kernel::Kernel;
use crate::process::ProcessId;
use crate::random::{Stream, Streams};
use crate::record::Event;
use crate::request::Pending;
use crate::time::Time;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

pub(crate) struct Network {
    pub(crate) config: NetworkConfig,
    instant: bool,
    ways: Ways,
    connection_failures: bool,
    /// The source of latencies.
    latencies: Stream,
    /// Decides which connections break and what they lose.
    failures: Stream,
    /// Decides how long a silence is endured.
    pub(crate) patience: Stream,
    /// By sender, then by receiver; grown when first used.
    pub(crate) links: Vec<Vec<Link>>,
    pub(crate) blockades: Blockades,
    pair_latencies: BTreeMap<(u32, u32), f64>,
}

impl Network {
    pub(crate) fn new(config: NetworkConfig, streams: &mut Streams) -> Network {
        Network {
            instant: config.is_instant(),
            ways: Ways::new(&config),
            config,
            connection_failures: false,
            latencies: streams.get("network"),
            failures: streams.get("connection failures"),
            patience: streams.get("connection monitor"),
            links: Vec::new(),
            blockades: Blockades::new(),
            pair_latencies: BTreeMap::new(),
        }
    }

    pub(crate) fn add_process(&mut self, process: ProcessId, ip: IpAddr) {
        assert_eq!(
            process.index(),
            self.links.len(),
            "processes are counted up"
        );
        self.blockades.add_process(process, ip);
        self.links.push(Vec::new());
    }

    #[inline]
    pub(crate) fn link(&mut self, id: LinkId) -> &mut Link {
        let processes = self.links.len();
        let row = &mut self.links[id.from.index()];
        if row.len() <= id.to.index() {
            lengthen(row, id.to.index() + 1, processes);
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

    fn latency(&mut self, id: LinkId) -> f64 {
        if self.instant {
            return 0.0;
        }
        let (config, stream) = (&self.config, &self.latencies);
        let mut stream = stream.fours();
        let [batching, mut part, first, second] = stream.draw();
        let ways = self.ways; // a copy stays in registers
        let mut latency = config.batching_seconds * batching + ways.half(first) + ways.half(second);
        // One number decides how many parts there are: once it is known that there is another part,
        // what is left of the number is still uniform.
        while part < config.split_chance {
            part /= config.split_chance;
            let [first, second, ..] = stream.draw();
            latency += ways.half(first) + ways.half(second);
        }
        drop(stream);
        if config.pair_latency_seconds > 0.0 && self.blockades.faults_enabled() {
            latency += self.pair_latency(id);
        }
        latency
    }

    /// The fixed latency of a pair of addresses; drawn when it is first asked for.
    #[inline(never)]
    fn pair_latency(&mut self, id: LinkId) -> f64 {
        let pair = self.blockades.pair(id);
        let longest = self.config.pair_latency_seconds;
        let draw = || longest * self.latencies.uniform();
        *self.pair_latencies.entry(pair).or_insert_with(draw)
    }

    /// Records a request that waits for its reply, until [`Network::unregister`].
    pub(crate) fn register(&mut self, id: LinkId, request: Rc<Pending>) {
        self.link(id).keep(request);
    }

    /// Forgets a request; it is returned for the caller to drop.
    pub(crate) fn unregister(&mut self, id: LinkId, slot: u32) -> Option<Rc<Pending>> {
        self.link(id).forget(slot)
    }

    /// Forgets everything in flight; returned for the caller to drop.
    pub(crate) fn clear(&mut self) -> impl Sized + use<> {
        self.links
            .iter_mut()
            .map(std::mem::take)
            .collect::<Vec<_>>()
    }
}

/// Makes a row of links that long, with room for one to each process: who sends to a few others
/// sends to most of them in the end.
#[cold]
fn lengthen(row: &mut Vec<Link>, length: usize, processes: usize) {
    row.reserve_exact(processes - row.len());
    row.resize_with(length, Link::default);
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

    /// Sends a message.
    pub(crate) fn ship(&self, id: LinkId, name: &'static str, parcel: Parcel, delivery: Delivery) {
        let LinkId { from, to } = id;
        if from == to {
            self.hand_over(id, parcel);
            return;
        }
        let now = self.now();
        let mut guard = self.0.network.borrow_mut();
        let network = &mut *guard;
        let breaks = network.breaks();
        let latency = network.latency(id);
        let blocked = network.blockades.until(id, now) > now;
        let mut link = network.link(id); // there is a link from now on
        if link.connected != Connected::Yes && delivery != Delivery::News {
            self.connect(network, id, now);
            link = network.link(id);
        }
        link.sent = link.sent.wrapping_add(1);
        let number = link.sent;
        let held = blocked || link.mute_until > now;
        let due = now.after(latency);
        let sent = || Event::MessageSent {
            from,
            to,
            message: name,
            due,
        };
        if due <= now && link.queue.is_empty() && !held {
            drop(guard);
            self.record(sent);
            self.record(|| Event::MessageDelivered { from, to });
            self.hand_over(id, parcel);
        } else {
            let label = Label {
                due,
                connection: link.connection,
                number,
                delivery,
            };
            link.queue.push_back(label, parcel);
            if link.timer.is_none() {
                link.timer = Some(self.set_link_timer(due, id));
            }
            drop(guard);
            self.record(sent);
            if blocked {
                self.monitor(id);
            }
        }
        if breaks || self.names_events() {
            self.maybe_break_connection(id, breaks, number);
        }
    }

    /// A message arrives while its sender is still running.
    #[inline(never)]
    fn hand_over(&self, id: LinkId, parcel: Parcel) {
        parcel.arrive(self, id, false);
    }

    /// Makes the connection for a message that is about to be sent.
    #[cold]
    fn connect(&self, network: &mut Network, id: LinkId, now: Time) {
        let strangers = network.link(id).connected == Connected::NotYet;
        if strangers && !(network.blockades.faults_enabled() && self.are_servers(id)) {
            for id in [id, id.back()] {
                network.link(id).connected = Connected::Yes;
            }
        } else {
            network.connect(id, now);
        }
    }

    /// Delivers what is due on a link, and sets its timer for the rest. Called by that timer
    /// (`alone`), or when a blockade has ended early.
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
                let timer = link.timer.take();
                assert!(timer.is_some(), "only the timer of a link fires for it");
            }
            let Some(first) = link.queue.front() else {
                self.wait_for_link(link, id, Time::NEVER);
                return;
            };
            let mut due = first.due.max(network.blockades.until(id, now));
            // News of a break needs no connection.
            if link.mute_until > now && first.delivery != Delivery::News {
                due = due.max(link.mute_until);
            }
            if due > now {
                self.wait_for_link(link, id, due);
                return;
            }
            let (made, now_made) = (first.connection, link.connection);
            assert!(made <= now_made, "connections are counted up");
            let lost = made != now_made
                && first.delivery == Delivery::AtMostOnce
                && self.loses(id, first.number, network.failures.chance(0.5));
            let parcel = link.queue.pop_front().expect("it was looked at above");
            let last = link.queue.is_empty() && link.timer.is_none();
            drop(guard);
            if lost {
                self.record(|| Event::MessageLost { from, to });
                drop(parcel);
            } else {
                self.record(|| Event::MessageDelivered { from, to });
                parcel.arrive(self, id, alone);
            }
            if last {
                return; // what is sent from now on sets the timer
            }
        }
    }

    /// Sets the timer of a link for the time when its first message is due, if that comes: a
    /// partition has no end to wait for; healing it serves the link.
    #[inline(never)]
    fn wait_for_link(&self, link: &mut Link, id: LinkId, due: Time) {
        let timer = (due != Time::NEVER).then(|| self.set_link_timer(due, id));
        if let Some(old) = std::mem::replace(&mut link.timer, timer) {
            // A link's timer holds nothing whose destructor could matter.
            self.0.timers.borrow_mut().cancel(old);
        }
    }

    /// Delivers messages that were held back by blockades that are over.
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
}
