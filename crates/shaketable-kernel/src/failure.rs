//! Which process notices that another process or a connection has failed, and when: without a
//! single ping.
//!
//! A real cluster pings. Here the kernel knows what a ping would find: nothing new while a link is
//! open and its ends are alive. So it sets a timer only when a link in use is blocked, and reports
//! a death by a message to the processes that wait for the dead one. Idle time costs nothing.
//!
//! * A connection over which nothing arrives for about two seconds is closed: pending requests end
//!   with `MaybeDelivered`.
//! * A process from which nothing arrives for four seconds counts as failed for the process that
//!   watches it, until it is reachable again.
//! * A process that dies counts as failed once the news has travelled, until news of its next
//!   incarnation has.

use crate::clog::Reach;
use crate::kernel::Kernel;
use crate::network::{Delivery, LinkId, Network, Parcel};
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
    /// Whether a timer waits for the silence to become a failure, or a failure to end.
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
            let failed = !self.is_alive(process);
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

    /// Sends the news that a process has died to the processes that wait for it.
    pub(crate) fn announce_death(&self, process: ProcessId) {
        let incarnation = self.incarnation(process);
        let concerned = self
            .0
            .network
            .borrow()
            .links_to(process, |link| link.awaits() || link.watch.is_some());
        for id in concerned {
            let news = News {
                id,
                incarnation,
                alive: false,
            };
            self.ship(process, id.from, "connection closed", Box::new(news));
        }
    }

    /// Sends the news that a process has come back to the processes that watch it.
    pub(crate) fn announce_boot(&self, process: ProcessId) {
        let concerned = self
            .0
            .network
            .borrow()
            .links_to(process, |link| link.watch.is_some());
        for id in concerned {
            self.announce_boot_to(id);
        }
    }

    fn announce_boot_to(&self, id: LinkId) {
        let incarnation = self.incarnation(id.to);
        let news = News {
            id,
            incarnation,
            alive: true,
        };
        self.ship(id.to, id.from, "available again", Box::new(news));
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
        let config = &self.0.network.borrow().config;
        let shortest = config
            .connection_timeout_min_seconds
            .min(config.failure_detection_seconds);
        until.since(self.now()) > shortest
    }

    /// Times the silence between two processes, if it will last long enough to be noticed.
    #[inline]
    pub(crate) fn monitor(&self, id: LinkId) {
        let now = self.now();
        let until = blocked(&self.0.network.borrow(), id, now);
        if until > now {
            self.time_silence(id, now, until);
        }
    }

    /// Times a silence that lasts until then.
    fn time_silence(&self, id: LinkId, now: Time, until: Time) {
        let mut network = self.0.network.borrow_mut();
        let silence = until.since(now);
        let relieved = network.blockades.relieved;
        let (endured, detected) = (
            network.config.connection_timeout_min_seconds,
            network.config.failure_detection_seconds,
        );
        let longest = network.config.connection_timeout_max_seconds;
        let close = silence > endured
            && awaits(&mut network, id)
            && !std::mem::replace(&mut network.link(id.first()).monitored, true);
        let watch = network.link(id).watch.as_mut();
        let fail = watch.is_some_and(|watch| {
            let fail = silence > detected && !watch.failed && !watch.timing;
            watch.timing |= fail;
            fail
        });
        drop(network);
        if close {
            let patience = self.stream("connection monitor").range(endured, longest);
            self.call_at(now.after(patience), move |kernel| {
                kernel.silent_connection(id, relieved)
            });
        }
        if fail {
            self.call_at(now.after(detected), move |kernel| {
                kernel.silent_process(id, relieved)
            });
        }
    }

    /// Closes a connection that has been silent for as long as is tolerated, unless the blockade
    /// was lifted in the meantime.
    fn silent_connection(&self, id: LinkId, relieved: u32) {
        let now = self.now();
        let close = {
            let mut network = self.0.network.borrow_mut();
            network.link(id.first()).monitored = false;
            blocked(&network, id, now) > now
                && network.blockades.relieved == relieved
                && awaits(&mut network, id)
        };
        if close {
            self.close_connection(id.from, id.to);
        } else {
            self.monitor(id);
        }
    }

    /// Declares a watched process failed after it has been silent for long enough, unless the
    /// blockade was lifted in the meantime.
    fn silent_process(&self, id: LinkId, relieved: u32) {
        let now = self.now();
        let until = {
            let mut network = self.0.network.borrow_mut();
            if let Some(watch) = &mut network.link(id).watch {
                watch.timing = false;
            }
            let silent = network.blockades.relieved == relieved;
            if silent {
                blocked(&network, id, now)
            } else {
                Time::ZERO
            }
        };
        if until > now {
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

/// News of the death or the return of a process, on its way to a process that watches or awaits it.
struct News {
    /// The link from the receiver of the news to the process.
    id: LinkId,
    incarnation: u32,
    alive: bool,
}

impl Parcel for News {
    fn arrive(self: Box<Self>, kernel: &Kernel, _: bool) {
        let News {
            id,
            incarnation,
            alive,
        } = *self;
        kernel.set_failed(id, !alive);
        if alive {
            // It is alive, but may be silent for another reason.
            kernel.monitor(id);
            return;
        }
        kernel.disconnect(id, incarnation);
        // A watch that began while this was on its way has not heard of the return.
        if kernel.is_alive(id.to) && kernel.incarnation(id.to) > incarnation {
            kernel.announce_boot_to(id);
        }
    }

    fn delivery(&self) -> Delivery {
        Delivery::News
    }
}
