//! One kernel as the C API sees it: a place to post calls to, and the objects that the handles
//! stand for.
//!
//! Every handle carries its universe, and nothing else determines which kernel it belongs to: there
//! is no global state in this path, so many simulations run side by side in the threads of one
//! program. A call posts a closure and returns; the closure runs on the kernel's thread, in the
//! order of the calls, and only there touches the client's objects. A handle knows its object by a
//! number ([`Slot`]), which the first closure fills in and later ones read.
//!
//! A universe may be used before it has a kernel: between `fdb_setup_network` and `fdb_run_network`
//! a program may open databases and begin transactions, and these calls wait in the inbox. When the
//! kernel ends, [`Universe::close`] drops all objects on its thread; from then on calls are
//! forgotten, futures stay as they are, and handles can be destroyed on any thread.

use crate::coverage::{Coverage, SiteProbe};
use crate::fork;
use crate::network::ClusterName;
use crate::outstanding::{Kept, PlaceProbe, Progress};
use crate::program_clusters::ProgramCluster;
use crate::recorder::{Keep, Noted, Recorder};
use crate::thread_bound::ThreadBound;
use once_cell::race::OnceBox;
use shaketable_cluster::client::{Database, Transaction};
use shaketable_cluster::error::Error;
use shaketable_kernel::{Inbox, Kernel};
use shaketable_record::Call;
use shaketable_serve::Poller;
use slab::Slab;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A kernel and the objects on it that C holds handles of.
pub struct Universe {
    inbox: Inbox,
    objects: OnceBox<ThreadBound<Objects>>,
    /// How to find the place of a call, if it is wanted.
    pub(crate) place_probe: OnceBox<PlaceProbe>,
    /// How to find the place of a call, if outcomes are counted.
    pub(crate) site_probe: OnceBox<SiteProbe>,
    /// Set while calls are recorded.
    pub(crate) keep: OnceBox<Keep>,
    /// Whether a database of it is in the process of a server.
    is_served: AtomicBool,
    /// How many operations its objects hold: a host asks for that at every turn of its loop.
    operations_count: AtomicUsize,
}

/// What lives on the kernel's thread. Dropped in this order: operations that are forgotten first
/// complete nothing when their transactions go.
#[derive(Default)]
pub(crate) struct Objects {
    /// In boxes, because they are large and move several times.
    pub(crate) operations: Slab<Box<Kept>>,
    pub(crate) progress: Progress,
    pub(crate) transactions: Slab<Transaction>,
    pub(crate) databases: Slab<Database>,
    /// The clusters of an ordinary program; a host keeps its own.
    pub(crate) clusters: BTreeMap<ClusterName, ProgramCluster>,
    /// The sockets to servers, once there is one.
    pub(crate) poller: Option<Poller>,
    /// How often each error was the result of an operation.
    pub(crate) errors: BTreeMap<i32, u64>,
    /// Called for each of them.
    pub(crate) error_observer: Option<Rc<dyn Fn(Error)>>,
    /// What became of operations, by place.
    pub(crate) coverage: Coverage,
    /// Records calls, if a host wants that.
    pub(crate) recorder: Option<Rc<RefCell<Recorder>>>,
}

/// The number of a handle's object among those of its kind. Written and read on the kernel's thread
/// alone; atomic only because the handle that holds it is shared.
pub(crate) struct Slot(AtomicUsize);

impl Slot {
    pub(crate) const EMPTY: usize = usize::MAX;

    pub(crate) fn empty() -> Slot {
        Slot(AtomicUsize::new(Slot::EMPTY))
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, number: usize) {
        self.0.store(number, Ordering::Relaxed);
    }

    pub(crate) fn take(&self) -> usize {
        let number = self.get();
        self.set(Slot::EMPTY);
        number
    }
}

impl Universe {
    /// The universe of the kernel that reads, or will read, this inbox.
    pub(crate) fn new(inbox: Inbox) -> Universe {
        Universe {
            inbox,
            objects: OnceBox::new(),
            place_probe: OnceBox::new(),
            site_probe: OnceBox::new(),
            keep: OnceBox::new(),
            is_served: AtomicBool::new(false),
            operations_count: AtomicUsize::new(0),
        }
    }

    /// Whether a database of it is in the process of a server.
    pub(crate) fn is_served(&self) -> bool {
        self.is_served.load(Ordering::Relaxed)
    }

    /// A database of it is in the process of a server.
    pub(crate) fn set_served(&self) {
        self.is_served.store(true, Ordering::Relaxed);
    }

    /// Makes room for objects on the calling thread, which is the kernel's, before it runs the
    /// first call.
    pub(crate) fn open(&self) {
        let first = self
            .objects
            .set(Box::new(ThreadBound::new(Objects::default())))
            .is_ok();
        assert!(first, "a universe lives on one thread and is opened once");
    }

    /// Runs `job` later, on the kernel's thread, after everything that was posted before.
    pub(crate) fn post(&self, job: impl FnOnce(&Kernel) + Send + 'static) {
        if !fork::is_fork() {
            self.inbox.post(job);
        }
    }

    /// The place of the caller, if it is wanted.
    pub(crate) fn place(&self) -> Option<usize> {
        self.place_probe.get().and_then(|probe| probe())
    }

    /// The number of the caller's place, if outcomes are counted.
    pub(crate) fn site(&self) -> Option<u32> {
        self.site_probe.get().map(|probe| probe())
    }

    /// What is recorded of a call, if calls are recorded.
    pub(crate) fn note(&self, call: impl FnOnce(Keep) -> Call) -> Option<Box<Noted>> {
        let keep = self.keep.get()?;
        Some(Box::new(Noted {
            call: call(*keep),
            place: self.place(),
        }))
    }

    /// Whether the calling thread is the kernel's.
    pub(crate) fn is_here(&self) -> bool {
        self.objects.get().is_some_and(ThreadBound::is_here)
    }

    /// Runs `body` on the objects, on the kernel's thread; `None` when the universe is closed.
    /// Whatever is taken out must be dropped after `body`, not inside: dropping a transaction ends
    /// its futures, and these come back here.
    pub(crate) fn objects<R>(&self, body: impl FnOnce(&mut Objects) -> R) -> Option<R> {
        self.objects.get()?.with(body)
    }

    /// Keeps an operation, on the kernel's thread; returns its number while the universe is open.
    pub(crate) fn add_operation(&self, operation: Box<Kept>) -> Option<usize> {
        self.objects(|objects| {
            let number = objects.operations.insert(operation);
            self.operations_count
                .store(objects.operations.len(), Ordering::Relaxed);
            number
        })
    }

    /// Takes an operation back, on the kernel's thread.
    pub(crate) fn take_operation(&self, number: usize) -> Option<Box<Kept>> {
        self.objects(|objects| {
            let operation = objects.operations.remove(number);
            self.operations_count
                .store(objects.operations.len(), Ordering::Relaxed);
            operation
        })
    }

    /// How many operations it holds.
    pub(crate) fn operations_count(&self) -> usize {
        self.operations_count.load(Ordering::Relaxed)
    }

    /// Drops all objects, on the kernel's thread.
    pub(crate) fn close(&self) {
        if let Some(objects) = self.objects.get() {
            drop(objects.take());
        }
        self.operations_count.store(0, Ordering::Relaxed);
    }
}
