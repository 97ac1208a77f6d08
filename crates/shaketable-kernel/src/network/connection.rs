//! Connections: made when two processes first talk, broken on purpose or by chance, and made again.

use super::Network;
use super::config::NetworkConfig;
use super::link::{Connected, LinkId};
use crate::kernel::Kernel;
use crate::process::ProcessId;
use crate::record::Event;
use crate::time::Time;

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
                request.disconnect();
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

    /// Breaks a connection by chance. Usually neither side learns of it: nothing arrives until a
    /// ping is missed.
    pub(super) fn break_connection(&self, id: LinkId) {
        let silence = {
            let mut network = self.0.network.borrow_mut();
            let NetworkConfig {
                connection_timeout_min_seconds: min,
                connection_timeout_max_seconds: max,
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
            // A connection that is already silent breaks no further.
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

    /// Ends the requests over a link that were sent to that incarnation of its receiver or an
    /// earlier one.
    pub(crate) fn disconnect(&self, id: LinkId, incarnation: u32) {
        let pending = self.0.network.borrow_mut().link(id).pending();
        for request in pending {
            if request.incarnation() <= incarnation {
                request.disconnect();
            }
        }
    }
}
