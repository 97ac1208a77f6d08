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
//!
//! Here are the server's interface and its state. A request goes through `waiting`, until its version
//! has arrived, to `serving`, `mapped` or `watches`; `following` brings versions from the logs, and
//! `fetch` brings shards from other servers.

mod disk;
mod fetch;
mod following;
mod mapped;
mod reads;
mod serving;
mod waiting;
mod watches;

pub use disk::{FIRST_VERSION, StorageDisk};

use crate::process::Process;
use crate::proto::{
    GetKey, GetKeyValues, GetMappedKeyValues, GetSplitPoints, GetStorageMetrics, GetValue,
    StorageError, StorageInterface, Version, WatchValue,
};
use crate::server::messages::{Epoch, LogUpdate, ServerDbInfo, Tag, WaitShardsHeld};
use crate::server::role::Role;
use shaketable_kernel::{AsyncVar, Endpoint, Notify, ProcessId, Reply, Request, Time};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use waiting::Waiting;
use watches::Watches;

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

/// The interface of the storage server of a process, whether or not it runs at the moment.
pub fn interface(here: &Process, process: ProcessId, tag: Tag) -> StorageInterface {
    StorageInterface {
        id: tag,
        address: here.describe(process).address,
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
}
