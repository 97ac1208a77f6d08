//! Connections: made when two processes first talk, broken on purpose or by chance, and made again.

use super::Network;
use super::config::NetworkConfig;
use super::link::{Connected, LinkId};
use crate::decision::{DecisionName, Happening, Verdict};
use crate::kernel::Kernel;
use crate::process::ProcessId;
use crate::record::Event;
use crate::time::Time;
use std::fmt;

/// What becomes of reliable requests when others end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reliable {
    /// They wait for the next connection.
    Stay,
    /// They end too: their receiver is gone.
    End,
}

/// How a connection breaks by chance.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Break {
    /// Both sides learn of it.
    Closes,
    /// Nothing arrives for this long; then it closes.
    FallsSilent { seconds: f64 },
}

impl Break {
    /// Reads what [`fmt::Display`] writes; whatever else it is, the connection closes.
    fn parse(text: &str) -> Break {
        let seconds = text
            .strip_prefix(SILENT)
            .and_then(|rest| rest.strip_suffix(" s"));
        let seconds = seconds.and_then(|seconds| seconds.parse().ok());
        seconds.map_or(Break::Closes, |seconds| Break::FallsSilent { seconds })
    }
}

/// How the outcome begins of a connection that neither side knows to be broken.
const SILENT: &str = "falls silent for ";

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Break::Closes => f.write_str("closes"),
            Break::FallsSilent { seconds } => write!(f, "{SILENT}{seconds} s"),
        }
    }
}

impl Network {
    /// Drops the connections of a process that has died: its next incarnation needs new ones.
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

    /// Whether the next message breaks its connection.
    pub(super) fn breaks(&self) -> bool {
        self.connection_failures
            && self.blockades.faults_enabled()
            && self.failures.chance(self.config.connection_failure_chance)
    }

    /// How the connection breaks that the next message breaks.
    fn draw_break(&self) -> Break {
        let NetworkConfig {
            connection_timeout_min_seconds: min,
            connection_timeout_max_seconds: max,
            explicit_failure_chance,
            ..
        } = self.config;
        let explicit = self.failures.chance(explicit_failure_chance);
        let seconds = self.failures.range(min, max);
        if explicit {
            Break::Closes
        } else {
            Break::FallsSilent { seconds }
        }
    }

    /// Makes a new connection between two processes: nothing passes until that is done.
    pub(super) fn connect(&mut self, id: LinkId, now: Time) {
        let slower = self.failures.uniform().max(self.failures.uniform());
        let until = now.after(self.config.connect_latency_seconds * slower);
        for id in [id, id.back()] {
            let link = self.link(id);
            link.connected = Connected::Yes;
            link.mute_until = until;
        }
    }
}

impl Kernel {
    /// Sets whether connections break by chance. Initially they do not.
    pub fn set_connection_failures(&self, enabled: bool) {
        self.0.network.borrow_mut().connection_failures = enabled;
    }

    /// Breaks the connection between two processes: requests pending over it, in both directions,
    /// end with `MaybeDelivered` unless they are reliable, and messages in flight may be lost.
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
        self.record_fault(Event::ConnectionClosed { a, b });
        for request in pending {
            if !request.is_reliable() {
                request.disconnect(self);
            }
        }
        for id in [there, there.back()] {
            self.serve_link(id, false);
        }
    }

    /// Whether both ends of a link come back after a reboot: clients do not.
    pub(super) fn are_servers(&self, id: LinkId) -> bool {
        self.boots(id.from) && self.boots(id.to)
    }

    /// After a message was sent: breaks its connection if chance or an override says so.
    #[cold]
    pub(super) fn maybe_break_connection(&self, id: LinkId, drawn: bool, number: u32) {
        let drawn = drawn.then(|| self.0.network.borrow().draw_break());
        let broken = match self.events_happen() {
            Happening::AsDrawn => drawn,
            Happening::Never => None,
            Happening::ByName => self.decide_break(id, number, drawn),
        };
        if let Some(broken) = broken {
            self.break_connection(id, broken);
        }
    }

    fn decide_break(&self, id: LinkId, number: u32, drawn: Option<Break>) -> Option<Break> {
        const GROUP: &str = "connection";
        let number = Some(u64::from(number));
        let mut decisions = self.0.decisions.borrow_mut();
        if drawn.is_none() && decisions.is_unforced(GROUP, number) {
            return None;
        }
        let name = self.name_on_link(GROUP, id, number);
        let outcome = drawn.map(|drawn| drawn.to_string());
        match decisions.judge(name, outcome, self.now()) {
            Verdict::AsDrawn => drawn,
            Verdict::Dropped => None,
            Verdict::Forced(outcome) => match outcome {
                Some(outcome) => Some(Break::parse(&outcome)),
                None => Some(drawn.unwrap_or(Break::Closes)),
            },
        }
    }

    /// Whether a message is lost with its connection, given what chance says.
    #[inline]
    pub(super) fn loses(&self, id: LinkId, number: u32, drawn: bool) -> bool {
        match self.events_happen() {
            Happening::AsDrawn => drawn,
            Happening::Never => false,
            Happening::ByName => self.decide_loss(id, number, drawn),
        }
    }

    #[cold]
    fn decide_loss(&self, id: LinkId, number: u32, drawn: bool) -> bool {
        const GROUP: &str = "lost message";
        let number = Some(u64::from(number));
        let mut decisions = self.0.decisions.borrow_mut();
        let name = self.name_on_link(GROUP, id, number);
        match decisions.judge(name, drawn.then(String::new), self.now()) {
            Verdict::AsDrawn => drawn,
            Verdict::Dropped => false,
            Verdict::Forced(_) => true,
        }
    }

    fn name_on_link(&self, group: &str, id: LinkId, number: Option<u64>) -> DecisionName {
        let [from, to] = [id.from, id.to].map(|process| self.process(process));
        DecisionName {
            group: group.to_owned(),
            place: Some(format!("{}→{}", from.name, to.name)),
            number,
        }
    }

    /// Breaks a connection. Usually neither side learns of it: nothing arrives until a ping is
    /// missed.
    fn break_connection(&self, id: LinkId, broken: Break) {
        let silence = {
            let mut network = self.0.network.borrow_mut();
            let now = self.now();
            let silent = network.link(id).mute_until > now;
            let silence = match broken {
                Break::Closes => 0.0,
                Break::FallsSilent { seconds } => {
                    for id in [id, id.back()] {
                        network.link(id).mute_until = now.after(seconds);
                    }
                    seconds
                }
            };
            // A connection that is already silent breaks no further.
            (!silent).then_some(silence)
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

    /// Ends the requests over a link that were sent to that incarnation of its receiver or an
    /// earlier one.
    pub(crate) fn disconnect(&self, id: LinkId, incarnation: u32, reliable: Reliable) {
        let pending = self.0.network.borrow_mut().link(id).pending();
        for request in pending {
            let stays = request.is_reliable() && reliable == Reliable::Stay;
            if request.incarnation() <= incarnation && !stays {
                request.disconnect(self);
            }
        }
    }
}
