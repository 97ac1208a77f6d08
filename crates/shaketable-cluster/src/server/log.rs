//! The transaction log: makes versions durable and passes them on to storage servers.
//!
//! Every log of a generation receives every version, in order, and a commit counts when all of them
//! have it on disk. A log is *locked* by the recovery that ends its generation: from then on it
//! accepts nothing, and what it holds on disk decides which commits in flight have happened.
//!
//! What survives a reboot is [`LogDisk`]. A log that comes back belongs to a generation that is
//! over; it can be locked and read, but never written.

use crate::proto::{Mutation, MutationKind, Version};
use crate::server::disk_queue::DiskQueue;
use crate::server::messages::{
    ConfirmEpochLive, Epoch, LockedLog, LogBatch, LogInterface, LogUpdate, Payload, PopLog,
    PushBatch, Removed, SubscribeLog, Tag, assert_unbroken,
};
use crate::server::metadata::{Metadata, SERVER_LIST_PREFIX, server_list_key, server_list_tag};
use crate::server::role::{Role, WaitFailure};
use crate::stress;
use shaketable_kernel::{Endpoint, Notify, Reply};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};

/// How soon a log checks again on storage servers that could not ask, in seconds.
const SEND_AGAIN: f64 = 0.25;

/// A log on disk. `batches` beyond `durable` are in memory only and are lost with the process.
#[derive(Debug)]
pub struct LogDisk {
    /// The identity of the log.
    pub id: u64,
    /// Its generation.
    pub epoch: Epoch,
    /// The generation that has ended it; until then, its own.
    pub locked_by: Epoch,
    /// The newest version on disk.
    pub durable: Version,
    /// A version known to be on all logs.
    pub known_committed: Version,
    /// Versions that some storage server may still need.
    pub batches: VecDeque<Rc<LogBatch>>,
    /// The newest version that is no longer among `batches`.
    pub discarded: Version,
    /// The metadata before the first of `batches`.
    pub metadata: Metadata,
    /// How far each storage server has its data on disk.
    pub popped: BTreeMap<Tag, Version>,
    /// Storage servers that were taken off the list, and when. Until that version is known to be
    /// committed a recovery may undo the removal, and then the server needs everything after all.
    pub delisted: BTreeMap<Tag, Version>,
}

impl LogDisk {
    /// A log of a new generation that begins with what the previous one left behind.
    pub fn new(id: u64, epoch: Epoch, version: Version, contents: LockedLog) -> LogDisk {
        LogDisk {
            id,
            epoch,
            locked_by: epoch,
            durable: version,
            known_committed: version,
            discarded: contents.discarded,
            batches: contents.batches.into(),
            metadata: contents.metadata,
            popped: contents.popped,
            delisted: BTreeMap::new(),
        }
    }

    /// The changes that are not on disk yet, up to a version.
    fn changes_until(&self, version: Version) -> Vec<Mutation> {
        let batches = self.batches.iter();
        let new = batches.filter(|batch| self.durable < batch.version && batch.version <= version);
        let entries = new.flat_map(|batch| &batch.entries);
        let changes = entries.filter_map(|entry| match &entry.payload {
            Payload::Mutation(mutation) => Some(mutation.clone()),
            _ => None,
        });
        changes.collect()
    }

    /// Drops what was only in memory when the process dies; what was on disk stays.
    pub fn lose_memory(&mut self) {
        while self
            .batches
            .back()
            .is_some_and(|batch| batch.version > self.durable)
        {
            self.batches.pop_back();
        }
        let newest = assert_unbroken(self.discarded, &self.batches);
        assert_eq!(newest, self.durable, "a disk holds all that was synced");
    }

    /// Follows the list of storage servers: a log keeps what any of them needs.
    fn note_servers(&mut self, batch: &LogBatch) {
        if !batch.touches_metadata {
            return;
        }
        for entry in &batch.entries {
            let Payload::Mutation(mutation) = &entry.payload else {
                continue;
            };
            if !mutation.param1.starts_with(SERVER_LIST_PREFIX) {
                continue;
            }
            if mutation.kind == MutationKind::ClearRange {
                let cleared = |tag: Tag| {
                    let key = server_list_key(tag);
                    mutation.param1 <= key && key < mutation.param2
                };
                let gone = self.popped.keys().filter(|tag| cleared(**tag));
                self.delisted.extend(gone.map(|tag| (*tag, batch.version)));
            } else if let Some(tag) = server_list_tag(&mutation.param1) {
                self.delisted.remove(&tag);
                self.popped.entry(tag).or_insert(batch.version);
            }
        }
    }

    /// Whether a storage server that has everything up to a version can still be sent the rest. A
    /// new server has missed nothing.
    fn can_serve_after(&self, version: Version) -> bool {
        version == 0 || version >= self.discarded
    }

    fn pop(&mut self, tag: Tag, upto: Version) {
        if let Some(popped) = self.popped.get_mut(&tag) {
            *popped = upto.max(*popped);
        }
        let (certain, popped) = (self.known_committed, &mut self.popped);
        self.delisted.retain(|tag, since| {
            let is_certain = *since <= certain;
            if is_certain {
                popped.remove(tag);
            }
            !is_certain
        });
        let needed = self
            .popped
            .values()
            .copied()
            .min()
            .unwrap_or(self.known_committed);
        let upto = needed.min(self.known_committed);
        while self
            .batches
            .front()
            .is_some_and(|batch| batch.version <= upto)
        {
            let batch = self.batches.pop_front().expect("looked at above");
            assert!(batch.version > self.discarded, "batches leave in order");
            self.discarded = batch.version;
            self.metadata.apply_batch(&batch);
        }
    }
}

struct Log {
    role: Role,
    disk: Rc<RefCell<LogDisk>>,
    queue: Rc<RefCell<DiskQueue>>,
    /// The newest version received.
    version: Version,
    locked: bool,
    /// Pushes whose predecessor has not arrived yet, by that predecessor's version.
    early: BTreeMap<Version, (PushBatch, Reply<()>)>,
    /// Pushes that are not on disk yet, and their size.
    unsynced: Vec<Reply<()>>,
    unsynced_bytes: usize,
    /// In the order of their tags.
    subscribers: Vec<Subscriber>,
    /// Whether a task is checking on the storage servers that could not ask.
    sends_later: bool,
    received: Notify,
}

struct Subscriber {
    tag: Tag,
    sink: Endpoint<LogUpdate>,
    sent: Version,
    /// Whether it could not ask at the last check.
    held: bool,
    /// Kept alive: when it is dropped, the storage server subscribes again.
    _lives: Reply<Removed>,
}

impl Subscriber {
    /// Sends everything that is durable and new.
    fn send(&mut self, role: &Role, disk: &LogDisk, first_answer: bool) {
        // Usually only a little is new, so the search starts at the end.
        let behind = |version: Version| {
            let newer = disk.batches.iter().rev();
            disk.batches.len() - newer.take_while(|batch| batch.version > version).count()
        };
        let (first, upto) = (behind(self.sent), behind(disk.durable));
        if first >= upto && !first_answer {
            return;
        }
        // By their numbers: of those it is known beforehand how many there are.
        let new = first..upto.max(first);
        let batches: Vec<_> = new.map(|number| disk.batches[number].clone()).collect();
        if let [first, .., last] | [first @ last] = &batches[..] {
            // One that is new, or was taken off the list, has no claim to what it has not got.
            let popped = || disk.popped.get(&self.tag);
            assert!(
                first.previous <= self.sent || popped().is_none_or(|popped| self.sent < *popped),
                "a log keeps what a storage server has not popped"
            );
            assert!(last.version <= disk.durable, "only what is durable is sent");
            self.sent = last.version;
        }
        let update = LogUpdate {
            epoch: disk.epoch,
            first: first_answer,
            batches,
            known_committed: disk.known_committed,
        };
        role.env().process().send(&self.sink, update);
        let env = role.env();
        if let Some(seconds) = env.stresses_for("storage server lags", stress::STORAGE_LAGS) {
            env.process().clog_towards(self.sink.process(), seconds);
        }
    }
}

/// A log as its worker sees it.
#[derive(Clone)]
pub struct LogHandle {
    /// What other servers see.
    pub interface: LogInterface,
    /// Breaks when the log ends.
    pub failure: Endpoint<WaitFailure>,
    /// Its generation.
    pub epoch: Epoch,
    log: Rc<RefCell<Log>>,
}

impl LogHandle {
    /// Ends the log's generation and returns what it holds; `None` if a later generation has
    /// already ended it.
    pub fn lock(&self, epoch: Epoch) -> Option<LockedLog> {
        self.log.borrow_mut().lock(epoch)
    }
}

/// Starts a log on what is on disk; `writable` if its generation has just begun.
pub fn start(role: &Role, disk: Rc<RefCell<LogDisk>>, writable: bool) -> LogHandle {
    let (id, epoch, version, locked) = {
        let disk = disk.borrow();
        (
            disk.id,
            disk.epoch,
            disk.durable,
            !writable || disk.locked_by > disk.epoch,
        )
    };
    let log = Rc::new(RefCell::new(Log {
        role: role.clone(),
        queue: DiskQueue::of(role.env()),
        disk,
        version,
        locked,
        early: BTreeMap::new(),
        unsynced: Vec::new(),
        unsynced_bytes: 0,
        subscribers: Vec::new(),
        sends_later: false,
        received: Notify::new(),
    }));
    if !locked {
        role.spawn(sync_for_ever(log.clone()));
    }
    let [for_push, for_confirm, for_subscribe, for_pop] = [(); 4].map(|()| log.clone());
    let interface = LogInterface {
        id,
        process: role.process(),
        push: role.serve(move |push, reply| for_push.borrow_mut().push(push, reply)),
        confirm: role.serve(move |ConfirmEpochLive, reply| {
            if !for_confirm.borrow().locked {
                reply.send(());
            }
        }),
        subscribe: role.serve(move |request, reply| {
            for_subscribe.borrow_mut().subscribe(request, reply);
        }),
        pop: role.serve(move |PopLog { tag, upto }, reply| {
            for_pop.borrow().pop(tag, upto);
            reply.send(());
        }),
    };
    LogHandle {
        interface,
        failure: role.serve_failure(),
        epoch,
        log,
    }
}

impl Log {
    fn push(&mut self, push: PushBatch, reply: Reply<()>) {
        if self.locked {
            return; // without an answer: the generation is over
        }
        if push.batch.previous != self.version {
            assert!(push.batch.previous > self.version, "a batch is pushed once");
            self.early.insert(push.batch.previous, (push, reply));
            return;
        }
        let mut next = Some((push, reply));
        while let Some((push, reply)) = next {
            assert!(push.batch.version > self.version, "versions grow");
            self.version = push.batch.version;
            let mut disk = self.disk.borrow_mut();
            assert!(
                push.known_committed <= disk.durable,
                "what is on all logs is on this one"
            );
            disk.known_committed = push.known_committed.max(disk.known_committed);
            disk.note_servers(&push.batch);
            self.unsynced_bytes += push.batch.bytes;
            disk.batches.push_back(push.batch);
            self.unsynced.push(reply);
            next = self.early.remove(&self.version);
        }
        self.received.notify_all();
    }

    fn pop(&self, tag: Tag, upto: Version) {
        let mut disk = self.disk.borrow_mut();
        disk.pop(tag, upto);
        let first = disk.batches.front();
        let needed = first.map_or(disk.durable, |batch| batch.previous);
        self.queue.borrow_mut().pop(needed);
    }

    fn subscribe(&mut self, request: SubscribeLog, reply: Reply<Removed>) {
        if self.locked {
            return;
        }
        let SubscribeLog { tag, after, sink } = request;
        if !self.disk.borrow().can_serve_after(after) {
            return reply.send(Removed);
        }
        let subscriber = Subscriber {
            tag,
            sink,
            sent: after,
            held: false,
            _lives: reply,
        };
        let by_tag = |known: &Subscriber| known.tag;
        let place = self.subscribers.binary_search_by_key(&tag, by_tag);
        if let Ok(place) = place {
            // The previous subscription is first told that it is over.
            drop(self.subscribers.remove(place));
        }
        let (Ok(place) | Err(place)) = place;
        self.subscribers.insert(place, subscriber);
        self.subscribers[place].send(&self.role, &self.disk.borrow(), true);
    }

    /// Sends all subscribers what is new to them, except those that cannot ask for it: a storage
    /// server asks for every update, and the request must arrive. Returns whether there are any
    /// such subscribers. No request is actually sent; the log only checks whether one could have
    /// arrived.
    fn send_to_all(&mut self) -> bool {
        if self.locked {
            return false;
        }
        let here = self.role.env().process();
        let now = here.now();
        let mut any_held = false;
        // All are checked before any is sent to: what is sent to one may delay another.
        for subscriber in &mut self.subscribers {
            subscriber.held = here.held_until(subscriber.sink.process()) > now;
            any_held |= subscriber.held;
        }
        let disk = self.disk.borrow();
        for subscriber in &mut self.subscribers {
            if !subscriber.held {
                subscriber.send(&self.role, &disk, false);
            }
        }
        any_held
    }

    fn lock(&mut self, epoch: Epoch) -> Option<LockedLog> {
        let mut disk = self.disk.borrow_mut();
        if epoch < disk.locked_by {
            return None;
        }
        disk.locked_by = epoch;
        disk.lose_memory();
        self.locked = true;
        self.early.clear();
        self.unsynced.clear();
        self.subscribers.clear();
        let locked = LockedLog {
            id: disk.id,
            durable: disk.durable,
            known_committed: disk.known_committed,
            batches: disk.batches.iter().cloned().collect(),
            discarded: disk.discarded,
            metadata: disk.metadata.clone(),
            popped: disk.popped.clone(),
        };
        locked.assert_whole();
        Some(locked)
    }
}

/// Makes everything that has arrived durable, in an endless loop.
async fn sync_for_ever(log: Rc<RefCell<Log>>) {
    let (role, received) = {
        let log = log.borrow();
        (log.role.clone(), log.received.clone())
    };
    // Two lists take turns, so that neither has to be allocated again.
    let mut replies = Vec::new();
    loop {
        if log.borrow().unsynced.is_empty() {
            received.notified().await;
        }
        let (version, stall) = {
            let mut log = log.borrow_mut();
            let bytes = std::mem::take(&mut log.unsynced_bytes);
            let stall = log.queue.borrow_mut().push(role.env(), log.version, bytes);
            std::mem::swap(&mut log.unsynced, &mut replies);
            (log.version, stall)
        };
        role.env().sync_disk(stall).await;
        if let Some(keeper) = role.env().keeper() {
            let kept = {
                let log = log.borrow();
                keeper.keep(version, log.disk.borrow().changes_until(version))
            };
            kept.await;
        }
        let this = Rc::downgrade(&log);
        let mut log = log.borrow_mut();
        if log.locked {
            return;
        }
        let before = std::mem::replace(&mut log.disk.borrow_mut().durable, version);
        assert!(before < version, "a sync makes something durable");
        for reply in replies.drain(..) {
            reply.send(());
        }
        if log.send_to_all() && !std::mem::replace(&mut log.sends_later, true) {
            role.spawn(send_later(role.clone(), this));
        }
    }
}

/// Sends to storage servers whose requests did not arrive, until none is left. When the next batch
/// is durable they are checked again anyway.
async fn send_later(role: Role, log: Weak<RefCell<Log>>) {
    loop {
        role.env().process().sleep(SEND_AGAIN).await;
        let Some(log) = log.upgrade() else { return };
        let mut log = log.borrow_mut();
        log.sends_later = log.send_to_all();
        if !log.sends_later {
            return;
        }
    }
}
