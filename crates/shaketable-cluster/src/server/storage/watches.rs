//! The watches that wait at a storage server.
//!
//! A watch ends in one of four ways: its key is written and has another value, its shard moves
//! away, its time is up, or the server itself ends. Each of them is an answer, or the loss of one,
//! and after all but the first the client asks again. So nothing that goes wrong here can cost more
//! than the time limit.

use super::{Answer, Storage};
use crate::error::Error;
use crate::proto::{Key, StorageError, Value, Version, WatchFate, WatchValue};
use crate::stress;
use shaketable_kernel::{Reply, Time};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::rc::Rc;

/// What a watch costs on top of its key and value.
const WATCH_BYTES: usize = 64;

/// A waiting watch.
#[derive(Debug)]
pub struct Watch {
    /// The value the watcher has seen.
    pub value: Option<Value>,
    /// Where to send the answer.
    pub reply: Reply<Result<Version, StorageError>>,
    /// When its time is up.
    pub deadline: Time,
    /// By how many seconds its answer is late, if an override says so.
    pub late_seconds: Option<f64>,
}

/// The watches of a storage server.
#[derive(Debug, Default)]
pub struct Watches {
    by_key: BTreeMap<Key, Vec<Watch>>,
    bytes: usize,
    /// Keys with watches that were written since the last check.
    touched: Vec<Key>,
    /// The keys of watches in the order in which they were added, with the time at which each
    /// expires.
    deadlines: VecDeque<(Time, Key)>,
}

impl Watches {
    /// Whether there are no watches.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The memory they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a watch. Abandoned watches on the same key are dropped.
    pub fn add(&mut self, key: Key, watch: Watch) {
        self.bytes += cost(&key, &watch);
        self.deadlines.push_back((watch.deadline, key.clone()));
        let watches = self.by_key.entry(key.clone()).or_default();
        let bytes = &mut self.bytes;
        watches.retain(|old| {
            let waits = !old.reply.is_closed();
            if !waits {
                *bytes -= cost(&key, old);
            }
            waits
        });
        watches.push(watch);
    }

    /// Records that keys of `[begin, end)` were written.
    pub fn written(&mut self, begin: &[u8], end: Option<&[u8]>) {
        match end {
            None => {
                if let Some((key, _)) = self.by_key.get_key_value(begin) {
                    self.touched.push(key.clone());
                }
            }
            Some(end) if begin < end => {
                let range = (Bound::Included(begin), Bound::Excluded(end));
                let keys = self
                    .by_key
                    .range::<[u8], _>(range)
                    .map(|(key, _)| key.clone());
                self.touched.extend(keys);
            }
            Some(_) => {}
        }
    }

    /// Takes the watches whose key was written and has another value now, to be answered.
    pub fn fire(&mut self, mut latest: impl FnMut(&[u8]) -> Option<Value>) -> Vec<Watch> {
        let mut fired = Vec::new();
        for key in std::mem::take(&mut self.touched) {
            let now = latest(&key);
            self.take(&key, |watch| watch.value != now, |watch| fired.push(watch));
        }
        fired
    }

    /// Ends the watches of keys for which `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(&[u8]) -> bool) {
        let moved: Vec<Key> = self
            .by_key
            .keys()
            .filter(|key| !keep(key))
            .cloned()
            .collect();
        for key in moved {
            self.take(
                &key,
                |_| true,
                |watch| watch.reply.send(Err(StorageError::WrongShardServer)),
            );
        }
    }

    /// Ends the watches whose time is up. Returns when to check again, if any are left.
    pub fn expire(&mut self, now: Time) -> Option<Time> {
        loop {
            let (deadline, key) = self.deadlines.front()?.clone();
            let still_there = self.by_key.get(&key).is_some_and(|watches| {
                let mut deadlines = watches.iter().map(|watch| watch.deadline);
                deadlines.any(|waiting| waiting <= deadline)
            });
            if still_there && deadline > now {
                return Some(deadline);
            }
            self.deadlines.pop_front();
            self.take(
                &key,
                |watch| watch.deadline <= now,
                |watch| watch.reply.send(Err(StorageError::Code(Error::TIMED_OUT))),
            );
        }
    }

    fn take(&mut self, key: &Key, which: impl Fn(&Watch) -> bool, mut end: impl FnMut(Watch)) {
        let Some(watches) = self.by_key.remove(key) else {
            return;
        };
        let mut left = Vec::new();
        for watch in watches {
            if which(&watch) {
                self.bytes -= cost(key, &watch);
                end(watch);
            } else {
                left.push(watch);
            }
        }
        if !left.is_empty() {
            self.by_key.insert(key.clone(), left);
        }
    }
}

impl Storage {
    pub(super) fn arm(&self, request: WatchValue, reply: Answer<Version>) {
        let WatchValue {
            key, value, fate, ..
        } = request;
        let disk = self.disk.borrow();
        if disk.served_around(&key).is_none() {
            return reply.send(Err(StorageError::WrongShardServer));
        }
        if disk.rows.latest(&key) != value.as_deref() || fate == Some(WatchFate::Spurious) {
            return reply.send(Ok(disk.version));
        }
        let mut watches = self.watches.borrow_mut();
        let most = self.role.env().knobs().max_storage_server_watch_bytes;
        if watches.bytes() as i64 > most {
            return reply.send(Err(StorageError::Code(Error::WATCH_CANCELLED)));
        }
        let now = self.role.env().process().now();
        let deadline = now.after(self.role.env().knobs().watch_timeout);
        let first = watches.is_empty();
        watches.add(
            key,
            Watch {
                value,
                reply,
                deadline,
                late_seconds: match fate {
                    Some(WatchFate::Late(seconds)) => Some(seconds),
                    _ => None,
                },
            },
        );
        if first {
            self.watch_added.notify_all();
        }
    }

    /// Ends watches that have waited for as long as a server holds them.
    pub(super) async fn expire_watches(self: Rc<Self>) {
        let here = self.role.env().process().clone();
        loop {
            let added = self.watch_added.notified();
            let next = self.watches.borrow_mut().expire(here.now());
            match next {
                None => added.await,
                Some(deadline) => here.sleep_until(deadline).await,
            }
        }
    }

    pub(super) fn tell_change(&self, watch: Watch, version: Version) {
        let env = self.role.env();
        let late = watch.late_seconds;
        match late.or_else(|| env.stresses_for("watch is told late", stress::WATCH_LATE)) {
            None => watch.reply.send(Ok(version)),
            Some(seconds) => {
                let tell = move || watch.reply.send(Ok(version));
                env.process().call_after(seconds, tell);
            }
        }
    }
}

fn cost(key: &Key, watch: &Watch) -> usize {
    key.len() + watch.value.as_ref().map_or(0, Value::len) + WATCH_BYTES
}
