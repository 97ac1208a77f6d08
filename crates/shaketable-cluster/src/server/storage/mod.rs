//! The storage server: holds shards and answers reads at versions.
//!
//! It subscribes to one log of the current generation and applies what it is sent. A read at a
//! version the server has not reached waits, for a second at most; a read at a version that has
//! left the window fails. Handlers answer immediately: there is no task per read, only a queue of
//! waiting reads.
//!
//! What the server applies may still be undone: a version that reached this server's log but not
//! all logs is rolled back when a recovery decides so. No client can have been given such a version
//! to read at.

mod disk;
mod fetch;
mod mapped;
mod reads;
mod watches;

pub use disk::{FIRST_VERSION, StorageDisk};

use crate::error::Error;
use crate::process::Process;
use crate::proto::{
    GetKey, GetKeyValues, GetMappedKeyValues, GetSplitPoints, GetStorageMetrics, GetValue,
    KeyRange, KeySelector, KeyValues, MappedKeyValues, MutationKind, StorageError,
    StorageInterface, Value, Version, WatchValue,
};
use crate::server::messages::{
    Epoch, LogUpdate, Payload, PopLog, Removed, ServerDbInfo, SubscribeLog, Tag, WaitShardsHeld,
    assert_unbroken,
};
use crate::server::role::Role;
use crate::stress;
use bytes::Bytes;
use shaketable_kernel::{
    AsyncVar, Endpoint, First, Notify, ProcessId, Reply, Request, Time, first_of,
};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use watches::{Watch, Watches};

/// How far the window may grow beyond its length before the old end is cut off, in versions.
const WINDOW_SLACK: Version = 5_000_000;

/// How long a server must be far behind before it reports it: two checks, two seconds apart.
const BEHIND_CHECKS_SECONDS: f64 = 4.0;

/// The name of a storage server on the disk of its process.
pub const DISK_NAME: &str = "storage";

type Answer<T> = Reply<Result<T, StorageError>>;

/// Shared by a storage server's tasks.
struct Storage {
    role: Role,
    tag: Tag,
    disk: Rc<RefCell<StorageDisk>>,
    info: AsyncVar<Option<Rc<ServerDbInfo>>>,
    epoch: Cell<Epoch>,
    /// When the newest version was applied.
    applied_at: Cell<Time>,
    /// The newest version when the window was last moved, and when that was.
    window: Cell<(Version, Time)>,
    /// Since when reads have requested versions that are far ahead.
    far_behind_since: Cell<Option<Time>>,
    waiting: RefCell<BTreeMap<(Version, u64), Waiting>>,
    /// Reads in the order in which they expire.
    deadlines: RefCell<VecDeque<(Time, Version, u64)>>,
    next_wait: Cell<u64>,
    deadline_set: Notify,
    watches: RefCell<Watches>,
    watch_added: Notify,
    sink: RefCell<Option<Endpoint<LogUpdate>>>,
    resubscribe: Notify,
    advanced: Notify,
    held: RefCell<Vec<(WaitShardsHeld, Reply<()>)>>,
    fetches: RefCell<Vec<u64>>,
}

/// A request whose version has not arrived yet.
enum Waiting {
    Value(GetValue, Answer<Option<Value>>),
    Key(GetKey, Answer<KeySelector>),
    Range(GetKeyValues, Answer<KeyValues>),
    Mapped(GetMappedKeyValues, Answer<MappedKeyValues>),
    Watch(WatchValue, Answer<Version>),
}

/// The interface of the storage server of a process, whether or not it runs at the moment.
pub fn interface(here: &Process, process: ProcessId, tag: Tag) -> StorageInterface {
    StorageInterface {
        id: tag,
        address: here.describe(process).address.to_string().into(),
        get_value: here.well_known_endpoint(process, "storage get value"),
        get_key: here.well_known_endpoint(process, "storage get key"),
        get_key_values: here.well_known_endpoint(process, "storage get key values"),
        get_mapped_key_values: here.well_known_endpoint(process, "storage get mapped key values"),
        watch_value: here.well_known_endpoint(process, "storage watch value"),
        get_metrics: here.well_known_endpoint(process, "storage get metrics"),
        get_split_points: here.well_known_endpoint(process, "storage get split points"),
    }
}

/// The endpoint where data distribution asks a storage server whether it has fetched its shards.
pub fn wait_shards_held(here: &Process, process: ProcessId) -> Endpoint<WaitShardsHeld> {
    here.well_known_endpoint(process, "storage wait shards held")
}

/// Starts the storage server of a process on what is on its disk. `info` announces generations.
pub fn start(
    role: &Role,
    disk: Rc<RefCell<StorageDisk>>,
    info: AsyncVar<Option<Rc<ServerDbInfo>>>,
) {
    let tag = disk.borrow().tag;
    let storage = Rc::new(Storage {
        role: role.clone(),
        tag,
        disk,
        info,
        epoch: Cell::new(0),
        applied_at: Cell::new(role.env().process().now()),
        window: Cell::new((0, Time::ZERO)),
        far_behind_since: Cell::new(None),
        waiting: RefCell::default(),
        deadlines: RefCell::default(),
        next_wait: Cell::new(0),
        deadline_set: Notify::new(),
        watches: RefCell::default(),
        watch_added: Notify::new(),
        sink: RefCell::default(),
        resubscribe: Notify::new(),
        advanced: Notify::new(),
        held: RefCell::default(),
        fetches: RefCell::default(),
    });
    storage.serve("storage get value", |storage, request: GetValue, reply| {
        let version = request.version;
        storage.at_version(version, Waiting::Value(request, reply));
    });
    storage.serve("storage get key", |storage, request: GetKey, reply| {
        let version = request.version;
        storage.at_version(version, Waiting::Key(request, reply));
    });
    storage.serve(
        "storage get key values",
        |storage, request: GetKeyValues, reply| {
            let version = request.version;
            storage.at_version(version, Waiting::Range(request, reply));
        },
    );
    storage.serve(
        "storage get mapped key values",
        |storage, request: GetMappedKeyValues, reply| {
            let version = request.primary.version;
            storage.at_version(version, Waiting::Mapped(request, reply));
        },
    );
    storage.serve(
        "storage watch value",
        |storage, request: WatchValue, reply| {
            let version = request.version;
            storage.at_version(version, Waiting::Watch(request, reply));
        },
    );
    storage.serve(
        "storage get metrics",
        |storage, request: GetStorageMetrics, reply| {
            let disk = storage.disk.borrow();
            reply.send(
                match storage.served(&disk, &request.range.begin, disk.version) {
                    Ok(_) => Ok(reads::bytes(&disk.rows, &request.range, disk.version)),
                    Err(error) => Err(error),
                },
            );
        },
    );
    storage.serve(
        "storage get split points",
        |storage, request: GetSplitPoints, reply| {
            let disk = storage.disk.borrow();
            let GetSplitPoints { range, chunk_bytes } = &request;
            reply.send(match storage.served(&disk, &range.begin, disk.version) {
                Ok(_) => Ok(reads::split_points(
                    &disk.rows,
                    range,
                    disk.version,
                    *chunk_bytes,
                )),
                Err(error) => Err(error),
            });
        },
    );
    storage.serve(
        "storage wait shards held",
        |storage, request: WaitShardsHeld, reply| {
            storage.held.borrow_mut().push((request, reply));
            storage.answer_held();
        },
    );
    let receiver = storage.clone();
    let sink = role.serve(move |update: LogUpdate, reply| {
        receiver.update(update);
        reply.send(());
    });
    *storage.sink.borrow_mut() = Some(sink);
    role.spawn(storage.clone().subscribe_for_ever());
    role.spawn(storage.clone().give_up_reads());
    role.spawn(storage.clone().expire_watches());
    storage.start_fetches();
}

impl Storage {
    fn serve<Q: Request>(
        self: &Rc<Self>,
        name: &'static str,
        handle: impl Fn(&Rc<Storage>, Q, Reply<Q::Reply>) + 'static,
    ) {
        let storage = self.clone();
        self.role
            .serve_well_known(name, move |request, reply| handle(&storage, request, reply));
    }

    // Reads.

    /// The first version that can be read. A server moves its window when it writes to its disk,
    /// not with every version. While nothing is committed no version arrives, but time passes: a
    /// real cluster would commit empty batches, so the window moves as if it did.
    fn oldest_readable(&self, disk: &StorageDisk) -> Version {
        let env = self.role.env();
        let knobs = env.knobs();
        let since_applied = env.process().now().since(self.applied_at.get());
        let written = since_applied >= knobs.storage_commit_interval;
        // A batch under way would delay the empty ones too.
        let idle = env.quiet_seconds_since(self.applied_at.get());
        let interval = knobs.empty_batch_interval();
        let passed = (idle / interval).floor() * interval * knobs.versions_per_second as f64;
        let moved = if written || env.is_instant() {
            disk.version
        } else {
            self.window.get().0
        };
        let newest = moved + passed as Version;
        disk.rows
            .oldest()
            .max(newest - knobs.max_read_transaction_life_versions)
    }

    fn at_version(self: &Rc<Self>, version: Version, request: Waiting) {
        let disk = self.disk.borrow();
        if version <= disk.version {
            drop(disk);
            return self.answer(request);
        }
        if self.is_behind(version - disk.version) {
            return request.fail(StorageError::Code(Error::PROCESS_BEHIND));
        }
        let number = self.next_wait.get();
        self.next_wait.set(number + 1);
        self.waiting.borrow_mut().insert((version, number), request);
        let env = self.role.env();
        let deadline = env.process().now().after(env.knobs().future_version_delay);
        let mut deadlines = self.deadlines.borrow_mut();
        deadlines.push_back((deadline, version, number));
        if deadlines.len() == 1 {
            self.deadline_set.notify_all();
        }
    }

    /// Whether this server has been far behind long enough to let others answer. A real one
    /// requests a read version every two seconds and compares; this one learns from the reads it
    /// receives.
    fn is_behind(&self, lag: Version) -> bool {
        let env = self.role.env();
        if lag <= env.knobs().behind_check_versions {
            return false;
        }
        let now = env.process().now();
        let since = self.far_behind_since.get().unwrap_or(now);
        self.far_behind_since.set(Some(since));
        now.since(since) >= BEHIND_CHECKS_SECONDS
    }

    /// Fails reads that have waited long enough: their version is in the future.
    async fn give_up_reads(self: Rc<Self>) {
        let here = self.role.env().process().clone();
        loop {
            let next = self
                .deadlines
                .borrow()
                .front()
                .map(|(deadline, _, _)| *deadline);
            match next {
                None => self.deadline_set.notified().await,
                Some(deadline) if deadline > here.now() => here.sleep_until(deadline).await,
                Some(_) => {
                    let due = self.deadlines.borrow_mut().pop_front();
                    let late = due.and_then(|(_, version, number)| {
                        self.waiting.borrow_mut().remove(&(version, number))
                    });
                    if let Some(request) = late {
                        request.fail(StorageError::Code(Error::FUTURE_VERSION));
                    }
                }
            }
        }
    }

    /// The range around a key that is served at a version.
    fn served(
        &self,
        disk: &StorageDisk,
        key: &[u8],
        version: Version,
    ) -> Result<KeyRange, StorageError> {
        assert!(version <= disk.version, "a version is read once it is here");
        if version < self.oldest_readable(disk) {
            return Err(StorageError::Code(Error::TRANSACTION_TOO_OLD));
        }
        let (range, from) = disk
            .served_around(key)
            .ok_or(StorageError::WrongShardServer)?;
        if version < from {
            return Err(StorageError::Code(Error::TRANSACTION_TOO_OLD));
        }
        Ok(range)
    }

    /// Answers a request whose version has arrived.
    fn answer(self: &Rc<Self>, request: Waiting) {
        match request {
            Waiting::Value(request, reply) => reply.send(self.get_value(&request)),
            Waiting::Key(request, reply) => reply.send(self.get_key(&request)),
            Waiting::Range(request, reply) => reply.send(self.get_key_values(&request)),
            Waiting::Mapped(request, reply) => self.start_mapped(request, reply),
            Waiting::Watch(request, reply) => self.arm(request, reply),
        }
    }

    fn get_value(&self, request: &GetValue) -> Result<Option<Value>, StorageError> {
        let disk = self.disk.borrow();
        self.served(&disk, &request.key, request.version)?;
        Ok(disk
            .rows
            .get(&request.key, request.version)
            .map(Bytes::copy_from_slice))
    }

    fn get_key(&self, request: &GetKey) -> Result<KeySelector, StorageError> {
        let disk = self.disk.borrow();
        let selector = &request.selector;
        // A walk backwards begins with the keys before the selector's.
        let around = if selector.offset <= 0 && !selector.or_equal {
            disk.last_key_before(&selector.key)
        } else {
            selector.key.clone()
        };
        let served = self.served(&disk, &around, request.version)?;
        Ok(reads::resolve(
            &disk.rows,
            selector,
            request.version,
            &served,
        ))
    }

    fn get_key_values(&self, request: &GetKeyValues) -> Result<KeyValues, StorageError> {
        let disk = self.disk.borrow();
        let around = if request.reverse {
            disk.last_key_before(&request.end.key)
        } else {
            request.begin.key.clone()
        };
        let served = self.served(&disk, &around, request.version)?;
        let bound = |selector: &KeySelector| {
            reads::bound(&disk.rows, selector, request.version, &served)
                .ok_or(StorageError::WrongShardServer)
        };
        let (begin, end) = (bound(&request.begin)?, bound(&request.end)?);
        if begin < end && (begin < served.begin || end > served.end) {
            return Err(StorageError::WrongShardServer);
        }
        let mut limit_bytes = request.limit_bytes;
        if self
            .role
            .env()
            .buggify("storage server limits the bytes of a range read")
        {
            limit_bytes = limit_bytes.min(self.role.env().knobs().buggify_limit_bytes as usize);
        }
        Ok(reads::read(&disk.rows, &begin, &end, request, limit_bytes))
    }

    // Watches.

    fn arm(&self, request: WatchValue, reply: Answer<Version>) {
        let WatchValue { key, value, .. } = request;
        let disk = self.disk.borrow();
        if disk.served_around(&key).is_none() {
            return reply.send(Err(StorageError::WrongShardServer));
        }
        if disk.rows.latest(&key) != value.as_deref() {
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
            },
        );
        if first {
            self.watch_added.notify_all();
        }
    }

    /// Ends watches that have waited for as long as a server holds them.
    async fn expire_watches(self: Rc<Self>) {
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

    fn tell_change(&self, watch: Watch, version: Version) {
        let env = self.role.env();
        match env.stresses_for("watch is told late", stress::WATCH_LATE) {
            None => watch.reply.send(Ok(version)),
            Some(seconds) => {
                let tell = move || watch.reply.send(Ok(version));
                env.process().call_after(seconds, tell);
            }
        }
    }

    // Versions from the logs.

    /// Follows the generations: rolls back what the last one has not kept, and subscribes to a log
    /// of the new one.
    async fn subscribe_for_ever(self: Rc<Self>) {
        let here = self.role.env().process().clone();
        let process = self.role.process();
        let mut choice = self.tag as usize;
        loop {
            let changed = self.info.on_change();
            let Some(info) = self.info.get() else {
                changed.await;
                continue;
            };
            if info.epoch > self.epoch.get() {
                self.begin_generation(&info);
            }
            let sink = self
                .sink
                .borrow()
                .clone()
                .expect("set before this task starts");
            let log = &info.logs[choice % info.logs.len()];
            let source = log.process;
            let after = self.disk.borrow().version;
            let subscription = log.subscribe.request(
                process,
                SubscribeLog {
                    tag: self.tag,
                    after,
                    sink,
                },
            );
            let broken = first_of(subscription, self.resubscribe.notified());
            match first_of(changed, broken).await {
                First::Left(()) => {}
                First::Right(First::Left(Ok(Removed))) => return self.retire(),
                First::Right(_) => {
                    // Either the generation is over, or only this log or the connection to it.
                    let changed = self.info.on_change();
                    let _ = first_of(changed, here.sleep(0.1)).await;
                    // As in FoundationDB, a log that is merely silent is asked again; if it is
                    // dead, another one is chosen.
                    choice += usize::from(here.is_failed(source));
                }
            }
        }
    }

    /// Ends this server, which was taken off the list while it was away. A client that still knows
    /// it is refused from now on and looks up its shards again; before, the client would have
    /// waited here for versions that never come.
    fn retire(&self) {
        self.role.env().process().disk().remove(DISK_NAME);
        self.role.stop();
    }

    fn begin_generation(self: &Rc<Self>, info: &ServerDbInfo) {
        let mut disk = self.disk.borrow_mut();
        let beginnings = info.beginnings.iter();
        let missed = beginnings.filter(|beginning| beginning.epoch > disk.epoch);
        let kept = missed.map(|beginning| beginning.recovery_version).min();
        self.epoch.set(info.epoch);
        disk.epoch = info.epoch;
        if let Some(kept) = kept.filter(|kept| *kept < disk.version) {
            assert!(
                kept >= disk.known_committed,
                "a recovery at {kept} undoes {}, which was on all logs",
                disk.known_committed
            );
            disk.rollback(kept);
            drop(disk);
            // A watch may have been compared with a value that is now undone: it asks again.
            let undone = self.watches.take();
            drop(undone);
            self.fetches.borrow_mut().clear();
            self.start_fetches();
        }
    }

    fn update(self: &Rc<Self>, update: LogUpdate) {
        if update.epoch != self.epoch.get() {
            return;
        }
        if let Some(first) = update.batches.first() {
            assert_unbroken(first.previous, &update.batches);
        }
        let version = {
            let mut disk = self.disk.borrow_mut();
            let mut watches = self.watches.borrow_mut();
            let mut shards_changed = false;
            for batch in update.batches {
                if batch.version <= disk.version {
                    continue;
                }
                // A new server holds nothing, so it has missed nothing before its first answer.
                let new = disk.version == 0 && update.first;
                if batch.previous > disk.version && !new {
                    // Something was lost on the way.
                    self.resubscribe.notify_all();
                    break;
                }
                for entry in &batch.entries {
                    if !entry.tags.contains(&self.tag) {
                        continue;
                    }
                    match &entry.payload {
                        Payload::Mutation(mutation) => {
                            disk.apply(batch.version, mutation);
                            if !watches.is_empty() {
                                let end = (mutation.kind == MutationKind::ClearRange)
                                    .then_some(&*mutation.param2);
                                watches.written(&mutation.param1, end);
                            }
                        }
                        Payload::Shard(change) => {
                            disk.change_shard(batch.version, change);
                            shards_changed = true;
                        }
                    }
                }
                disk.version = batch.version;
                self.applied_at.set(self.role.env().process().now());
            }
            disk.known_committed = update.known_committed.max(disk.known_committed);
            let version = disk.version;
            if !watches.is_empty() {
                if shards_changed {
                    watches.retain(|key| disk.served_around(key).is_some());
                }
                for watch in watches.fire(|key| disk.rows.latest(key).map(Bytes::copy_from_slice)) {
                    self.tell_change(watch, version);
                }
            }
            drop((disk, watches));
            if shards_changed {
                self.start_fetches();
            }
            version
        };
        let now = self.role.env().process().now();
        let knobs = self.role.env().knobs();
        let (moved, moved_at) = self.window.get();
        // A recovery moves past the whole window at once.
        let jumped = version - moved >= knobs.max_versions_in_flight;
        if jumped || now.since(moved_at) >= knobs.storage_commit_interval {
            self.window.set((version, now));
        }
        self.answer_held();
        self.far_behind_since.set(None);
        self.advanced.notify_all();
        loop {
            let mut waiting = self.waiting.borrow_mut();
            match waiting.first_entry() {
                Some(entry) if entry.key().0 <= version => {
                    let request = entry.remove();
                    drop(waiting);
                    self.answer(request);
                }
                _ => break,
            }
        }
        self.move_window();
    }

    /// Cuts off the old end of the window. Everything before it is on disk, so the logs need not
    /// keep it.
    fn move_window(&self) {
        let life = self.role.env().knobs().max_read_transaction_life_versions;
        let mut disk = self.disk.borrow_mut();
        let oldest = disk.version - life;
        if oldest - disk.rows.oldest() < WINDOW_SLACK {
            return;
        }
        disk.forget_before(oldest);
        assert!(
            disk.rows.oldest() <= disk.known_committed,
            "what is on disk is never undone"
        );
        let Some(info) = self.info.get() else { return };
        for log in info.logs.iter() {
            let pop = PopLog {
                tag: self.tag,
                upto: disk.rows.oldest(),
            };
            log.pop.send(self.role.process(), pop);
        }
    }

    // Shards being fetched.

    fn answer_held(&self) {
        if self.held.borrow().is_empty() {
            return;
        }
        let disk = self.disk.borrow();
        let mut held = self.held.borrow_mut();
        let due = held.extract_if(.., |(request, _)| {
            disk.version >= request.after && disk.holds(&request.range)
        });
        for (_, reply) in due {
            reply.send(());
        }
    }
}

impl Waiting {
    fn fail(self, error: StorageError) {
        match self {
            Waiting::Value(_, reply) => reply.send(Err(error)),
            Waiting::Key(_, reply) => reply.send(Err(error)),
            Waiting::Range(_, reply) => reply.send(Err(error)),
            Waiting::Mapped(_, reply) => reply.send(Err(error)),
            Waiting::Watch(_, reply) => reply.send(Err(error)),
        }
    }
}
