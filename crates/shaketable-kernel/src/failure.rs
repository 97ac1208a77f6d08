//! Which process notices that another process or a connection has failed, and when: without a
//! single ping.
//!
//! A real cluster pings. Here the kernel knows what a ping would find: nothing new while a link is
//! open and its ends are alive. So it sets a timer only when a link in use is blocked or one of its
//! ends is dead. Idle time costs nothing.
//!
//! As in FoundationDB's simulator, the dead fall silent: no connection breaks when a process dies.
//!
//! * A connection over which nothing arrives for about two seconds is closed: pending requests end
//!   with `MaybeDelivered`, except reliable ones.
//! * A process that stays silent for four seconds more counts as failed for the process that
//!   watches it, until it is reachable again. If it is dead, reliable requests to it end then, too,
//!   and later ones are refused.
//! * A process that comes back tells those who watch it or wait for it: what they asked of its
//!   earlier life ends, and they have seen it fail, however short that was.

use crate::clog::Reach;
use crate::kernel::Kernel;
use crate::network::{Delivery, LinkId, Network, NetworkConfig, Parcel, Reliable};
use crate::process::ProcessId;
use crate::sync::Notify;
use crate::time::Time;

/// What one process knows about another that it watches.
#[derive(Default)]
pub(crate) struct Watch {
    failed: bool,
    /// How often it has failed.
    failures: u64,
    changed: Notify,
    /// Whether a timer waits for the silence to become a failure.
    timing: bool,
}

impl Watch {
    fn set(&mut self, failed: bool) -> Option<Notify> {
        if self.failed == failed {
            return None;
        }
        self.failed = failed;
        self.failures += u64::from(failed);
        Some(self.changed.clone())
    }
}

impl Kernel {
    /// Whether, as far as `observer` knows, `process` has failed.
    pub fn is_failed(&self, observer: ProcessId, process: ProcessId) -> bool {
        self.watch(observer, process, |watch| watch.failed)
    }

    /// Waits until `observer` learns that `process` has failed: it died, or nothing has come from
    /// it for too long. A failure after this call counts even if it is over when the future is
    /// polled.
    pub fn on_failed(
        &self,
        observer: ProcessId,
        process: ProcessId,
    ) -> impl Future<Output = ()> + use<> {
        let seen = self.watch(observer, process, |watch| watch.failures);
        let kernel = self.clone();
        async move {
            loop {
                let changed = kernel.watch(observer, process, |watch| {
                    (!watch.failed && watch.failures == seen).then(|| watch.changed.notified())
                });
                match changed {
                    Some(changed) => changed.await,
                    None => return,
                }
            }
        }
    }

    /// Waits until `observer` can reach `process`, as far as it knows.
    pub fn on_available(
        &self,
        observer: ProcessId,
        process: ProcessId,
    ) -> impl Future<Output = ()> + use<> {
        let kernel = self.clone();
        async move {
            while let Some(changed) = kernel.watch(observer, process, |watch| {
                watch.failed.then(|| watch.changed.notified())
            }) {
                changed.await;
            }
        }
    }

    /// The sender of a link learns that the receiver has come back, as that incarnation.
    pub(crate) fn hear_of_return(&self, id: LinkId, incarnation: u32) {
        // Whoever has not noticed the death learns of it now.
        self.set_failed(id, true);
        self.disconnect(id, incarnation - 1, Reliable::End);
        self.set_failed(id, false);
        // It may be silent again, or still, for another reason.
        self.monitor(id);
    }

    fn watch<T>(
        &self,
        observer: ProcessId,
        process: ProcessId,
        look: impl FnOnce(&mut Watch) -> T,
    ) -> T {
        let id = LinkId {
            from: observer,
            to: process,
        };
        let mut network = self.0.network.borrow_mut();
        if network.link(id).watch.is_none() {
            let failed = self.is_known_dead(process, &network.config);
            network.link(id).watch = Some(Box::new(Watch {
                failed,
                ..Watch::default()
            }));
            drop(network);
            self.monitor(id);
            network = self.0.network.borrow_mut();
        }
        let watch = network.link(id).watch.as_mut().expect("it was set above");
        look(watch)
    }

    fn set_failed(&self, id: LinkId, failed: bool) {
        let changed = self
            .0
            .network
            .borrow_mut()
            .link(id)
            .watch
            .as_mut()
            .and_then(|watch| watch.set(failed));
        if let Some(changed) = changed {
            changed.notify_all();
        }
    }

    /// Whether a process has been dead for so long that everybody knows.
    fn is_known_dead(&self, process: ProcessId, config: &NetworkConfig) -> bool {
        let longest = config.connection_timeout_max_seconds + config.failure_detection_seconds;
        let dead_since = self.dead_since(process);
        dead_since.is_some_and(|died| self.now().since(died) > longest)
    }

    /// Whether the receiver of a link is dead and its sender does not know.
    pub(crate) fn is_silent(&self, id: LinkId) -> bool {
        let mut network = self.0.network.borrow_mut();
        let watch = network.link(id).watch.as_ref();
        !self.is_alive(id.to) && !watch.is_some_and(|watch| watch.failed)
    }

    /// Times the silence of a process that has just died, for all who watch it or wait for it.
    pub(crate) fn fall_silent(&self, process: ProcessId) {
        let concerned = self
            .0
            .network
            .borrow()
            .links_to(process, |link| link.awaits() || link.watch.is_some());
        for id in concerned {
            self.monitor(id);
        }
    }

    /// Sends the news that a process has come back to the processes that watch it. Nobody times
    /// the silence of its earlier life any longer, and it has forgotten whom it watched.
    pub(crate) fn announce_return(&self, process: ProcessId) {
        let concerned = {
            let mut network = self.0.network.borrow_mut();
            network.forget_silences(process);
            network.links_to(process, |link| link.watch.is_some())
        };
        let incarnation = self.incarnation(process);
        for id in concerned {
            let news = Parcel::Return { incarnation };
            self.ship(id.back(), "available again", news, Delivery::News);
            // The news may be held up, like everything else from there.
            self.monitor(id);
        }
    }

    /// Monitors every link that a new blockade may affect.
    pub(crate) fn monitor_all(&self, reach: Reach) {
        let used = self
            .0
            .network
            .borrow()
            .links_where(reach, |_, link| link.awaits() || link.watch.is_some());
        for id in used {
            self.monitor(id);
        }
    }

    /// Whether a silence from now until then is long enough for a process to act on it.
    pub(crate) fn is_noticeable(&self, until: Time) -> bool {
        let shortest = self
            .0
            .network
            .borrow()
            .config
            .connection_timeout_min_seconds;
        until.since(self.now()) > shortest
    }

    /// Times the silence between two processes, if it will last long enough to be noticed.
    #[inline]
    pub(crate) fn monitor(&self, id: LinkId) {
        if let Some(died) = self.dead_since(id.to) {
            self.time_death(id, died);
            return;
        }
        let now = self.now();
        let until = blocked(&self.0.network.borrow(), id, now);
        if until > now {
            self.time_silence(id, now, until);
        }
    }

    /// Times the silence of a dead process. From now on its requester watches it, too.
    #[cold]
    fn time_death(&self, id: LinkId, died: Time) {
        let watched = self.0.network.borrow_mut().link(id).watch.is_some();
        if watched {
            self.time_silence(id, died, Time::NEVER);
        } else {
            self.watch(id.from, id.to, |_| ()); // which comes back here
        }
    }

    /// Times a silence from a moment on, which may be past, until then.
    fn time_silence(&self, id: LinkId, since: Time, until: Time) {
        let now = self.now();
        let silence = Silence {
            relieved: self.0.network.borrow().blockades.relieved,
            incarnations: [id.from, id.to].map(|end| self.incarnation(end)),
        };
        let mut network = self.0.network.borrow_mut();
        let lasts = until.since(now);
        let endured = network.config.connection_timeout_min_seconds;
        let longest = network.config.connection_timeout_max_seconds;
        let detected = network.config.failure_detection_seconds;
        let close = lasts > endured
            && awaits(&mut network, id)
            && !std::mem::replace(&mut network.link(id.first()).monitored, true);
        let watch = network.link(id).watch.as_mut();
        let fail = watch.is_some_and(|watch| {
            let fail = lasts > endured + detected && !watch.failed && !watch.timing;
            watch.timing |= fail;
            fail
        });
        if !close && !fail {
            return;
        }
        let patience = network.patience.range(endured, longest);
        drop(network);
        let closes = since.after(patience);
        if close {
            // One that was closed before is tried again, for as long.
            let closes = if closes > now {
                closes
            } else {
                now.after(patience)
            };
            self.call_at(closes, move |kernel| kernel.silent_connection(id, silence));
        }
        if fail {
            self.call_at(closes.after(detected).max(now), move |kernel| {
                kernel.silent_process(id, silence)
            });
        }
    }

    /// Whether both ends of a link are in the lives that they were in when this silence began.
    fn concerns(&self, silence: Silence, id: LinkId) -> bool {
        silence.incarnations == [id.from, id.to].map(|end| self.incarnation(end))
    }

    /// Closes a connection that has been silent for as long as is tolerated, unless the blockade
    /// was lifted in the meantime.
    fn silent_connection(&self, id: LinkId, silence: Silence) {
        if !self.concerns(silence, id) {
            return;
        }
        let now = self.now();
        let dead = !self.is_alive(id.to);
        let close = {
            let mut network = self.0.network.borrow_mut();
            network.link(id.first()).monitored = false;
            let blocked =
                blocked(&network, id, now) > now && network.blockades.relieved == silence.relieved;
            (dead || blocked) && awaits(&mut network, id)
        };
        if !close {
            // Its two links share this timer.
            self.monitor(id);
            self.monitor(id.back());
        } else if dead {
            self.disconnect(id, silence.incarnations[1], Reliable::Stay);
        } else {
            self.close_connection(id.from, id.to);
        }
    }

    /// Declares a watched process failed after it has been silent for long enough, unless the
    /// blockade was lifted in the meantime.
    fn silent_process(&self, id: LinkId, silence: Silence) {
        if !self.concerns(silence, id) {
            return;
        }
        let now = self.now();
        let dead = !self.is_alive(id.to);
        let until = {
            let mut network = self.0.network.borrow_mut();
            if let Some(watch) = &mut network.link(id).watch {
                watch.timing = false;
            }
            let silent = network.blockades.relieved == silence.relieved;
            if silent {
                blocked(&network, id, now)
            } else {
                Time::ZERO
            }
        };
        if dead {
            self.set_failed(id, true);
            self.disconnect(id, silence.incarnations[1], Reliable::End);
        } else if until > now {
            self.set_failed(id, true);
            self.restore_at(id, until);
        } else {
            self.monitor(id);
        }
    }

    /// Declares a process available again when the blockade ends, if it does.
    fn restore_at(&self, id: LinkId, until: Time) {
        self.call_at(until, move |kernel| {
            let until = blocked(&kernel.0.network.borrow(), id, kernel.now());
            if until > kernel.now() {
                kernel.restore_at(id, until);
            } else if kernel.is_alive(id.to) {
                kernel.set_failed(id, false);
            }
        });
    }

    /// Makes processes available again after the blockades in front of them have ended early.
    pub(crate) fn restore(&self, reach: Reach) {
        let now = self.now();
        let failed = {
            let network = self.0.network.borrow();
            network.links_where(reach, |id, link| {
                link.watch.as_ref().is_some_and(|watch| watch.failed)
                    && blocked(&network, id, now) <= now
            })
        };
        for id in failed {
            if self.is_alive(id.to) {
                self.set_failed(id, false);
            }
        }
    }
}

impl Network {
    /// Forgets that silences of the connections of a process are being timed, and what it knew
    /// itself.
    fn forget_silences(&mut self, process: ProcessId) {
        for link in &mut self.links[process.index()] {
            link.monitored = false;
            link.watch = None;
        }
        for row in &mut self.links {
            if let Some(link) = row.get_mut(process.index()) {
                link.monitored = false;
                if let Some(watch) = &mut link.watch {
                    watch.timing = false;
                }
            }
        }
    }
}

/// The time until which no ping comes back: a ping needs both directions.
#[inline]
fn blocked(network: &Network, id: LinkId, now: Time) -> Time {
    if id.from == id.to {
        return Time::ZERO; // no network between a process and itself
    }
    let blockades = &network.blockades;
    blockades
        .until(id, now)
        .max(blockades.until(id.back(), now))
}

/// Whether either of two processes waits for the other.
fn awaits(network: &mut Network, id: LinkId) -> bool {
    network.link(id).awaits() || network.link(id.back()).awaits()
}

/// What a timer remembers of the silence that it times, to know whether it still lasts.
#[derive(Clone, Copy)]
struct Silence {
    /// How often blockades had been lifted early.
    relieved: u32,
    /// The lives of the two ends.
    incarnations: [u32; 2],
}
