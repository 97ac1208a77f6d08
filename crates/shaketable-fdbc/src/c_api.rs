//! What a host holds to hand out C handles of its own simulation.
//!
//! A host runs a kernel itself. Through a [`CApi`] it lends databases of that kernel to the code
//! under test and gives it futures (a delay, say) that are made of its own Rust futures. The code
//! under test then calls the functions of `fdb_c.h` on them as it would in FoundationDB's
//! simulator, and they post to that kernel's inbox. Nothing here is global: several of these, each
//! over a kernel of its own, live side by side in one program.
//!
//! When it is dropped, everything that the code under test still holds is cut off: handles may be
//! destroyed but do nothing any more, pending futures stay pending, and the lent databases are
//! gone.

use crate::coverage::{Milestone, Reached, SiteProbe};
use crate::database::{FDBDatabase, LeaseBreach};
use crate::future::FDBFuture;
use crate::operation::{self, Operation};
use crate::outstanding::{Ask, Outstanding, PlaceProbe};
use crate::recorder::{Keep, RecordSettings, Recorded, Recorder};
use crate::universe::Universe;
use crate::value::Value;
use shaketable_cluster::client::Database;
use shaketable_cluster::error::Error;
use shaketable_kernel::{Kernel, Priority, ProcessId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

/// The C API over one kernel of the host's own. Lives on the kernel's thread.
pub struct CApi {
    kernel: Kernel,
    universe: Arc<Universe>,
    lent: Vec<Arc<FDBDatabase>>,
}

impl CApi {
    /// The C API over this kernel.
    pub fn new(kernel: &Kernel) -> CApi {
        let universe = Arc::new(Universe::new(kernel.inbox()));
        universe.open();
        CApi {
            kernel: kernel.clone(),
            universe,
            lent: Vec::new(),
        }
    }

    /// Lends a database. The handle is valid as long as this value lives; destroying it does
    /// nothing.
    pub fn lend_database(&mut self, database: Database) -> *mut FDBDatabase {
        let handle = FDBDatabase::lend(self.universe.clone(), database);
        let pointer = Arc::as_ptr(&handle).cast_mut();
        self.lent.push(handle);
        pointer
    }

    /// Takes back what was lent under this handle. It stays valid, but each use from now on is
    /// recorded.
    pub fn take_back(&self, handle: *const FDBDatabase) {
        let lent = self.lent.iter().find(|lent| Arc::as_ptr(lent) == handle);
        if let Some(lease) = lent.and_then(|lent| lent.lease()) {
            lease.end();
        }
    }

    /// The forbidden uses of lent databases since the last call.
    pub fn take_breaches(&self) -> Vec<(*const FDBDatabase, LeaseBreach)> {
        let breaches = self.lent.iter().flat_map(|lent| {
            let lease = lent.lease().into_iter();
            lease.flat_map(|lease| {
                lease
                    .take_breaches()
                    .map(|breach| (Arc::as_ptr(lent), breach))
            })
        });
        breaches.collect()
    }

    /// A future that becomes ready when `future` does, which runs as a task of `process`. The code
    /// under test destroys the handle; that, or `fdb_future_cancel`, drops a task that is still
    /// running.
    pub fn future(
        &self,
        process: ProcessId,
        ask: Ask,
        future: impl Future<Output = Result<(), Error>> + 'static,
    ) -> *mut FDBFuture {
        let handle = FDBFuture::pending(self.universe.clone());
        let promise = handle.clone();
        let task = self
            .kernel
            .spawn(process, Priority::DefaultDelay, async move {
                let outcome = future.await.map(|()| Value::Void);
                operation::finish(&promise, outcome);
            });
        let outstanding = Outstanding {
            ask,
            process,
            since: self.kernel.now(),
            place: self.universe.place(),
        };
        operation::keep(&handle, outstanding, (None, None), Operation::Task(task));
        handle.into_raw()
    }

    /// How many futures are pending: if none is, nothing here will ever wake the code under test.
    pub fn pending_operations(&self) -> usize {
        self.universe.operations_count()
    }

    /// The futures of a process that are pending, in no particular order, and what each of them
    /// waits for.
    pub fn outstanding(&self, process: ProcessId) -> Vec<Outstanding> {
        let mut all = Vec::new();
        self.look_at_outstanding(process, |one| all.push(one.clone()));
        all
    }

    /// Shows the same, without a copy.
    pub fn look_at_outstanding(&self, process: ProcessId, look: impl FnMut(&Outstanding)) {
        self.universe.objects(|objects| {
            let kept = objects.operations.iter().map(|(_, kept)| &kept.outstanding);
            kept.filter(|one| one.process == process).for_each(look);
        });
    }

    /// How many operations of a process have succeeded so far, of those that had to wait.
    pub fn operations_done(&self, process: ProcessId) -> u64 {
        let done = self
            .universe
            .objects(|objects| objects.progress.of(process));
        done.unwrap_or(0)
    }

    /// From now on the place of every call is looked up with `probe` and kept while the call is
    /// outstanding.
    pub fn note_places(&self, probe: PlaceProbe) {
        // A second one would be the same.
        let _ = self.universe.place_probe.set(Box::new(probe));
    }

    /// From now on it is counted what becomes of calls, by the place that `probe` returns for each.
    pub fn count_outcomes(&self, probe: SiteProbe) {
        // A second one would be the same.
        let _ = self.universe.site_probe.set(Box::new(probe));
    }

    /// What was counted.
    pub fn take_coverage(&self) -> Vec<Reached> {
        let reached = self.universe.objects(|objects| objects.coverage.finish());
        reached.unwrap_or_default()
    }

    /// From now on it is kept when something was met for the first time.
    pub fn keep_milestones(&self) {
        let clock = &self.kernel;
        self.universe
            .objects(|objects| objects.coverage.keep_milestones(clock));
    }

    /// What was kept; after [`CApi::take_coverage`].
    pub fn take_milestones(&self) -> Vec<Milestone> {
        let milestones = self
            .universe
            .objects(|objects| objects.coverage.take_milestones());
        milestones.unwrap_or_default()
    }

    /// From now on every call of a transaction is recorded.
    pub fn record(&self, settings: RecordSettings) {
        let keep = Box::new(Keep::new(&settings));
        if self.universe.keep.set(keep).is_ok() {
            let recorder = Recorder::new(&self.kernel, settings);
            let recorder = Rc::new(RefCell::new(recorder));
            self.universe
                .objects(|objects| objects.recorder = Some(recorder));
        }
    }

    /// What was recorded, if anything was to be: the clients by their processes, and the phases by
    /// the databases that were lent for them.
    pub fn take_record(
        &self,
        client_of: impl Fn(ProcessId) -> Option<u32>,
        phase_of: impl Fn(*const FDBDatabase) -> Option<u32>,
    ) -> Option<Recorded> {
        let recorder = self.universe.objects(|objects| objects.recorder.take())??;
        let recorded = recorder.borrow_mut().finish(client_of, phase_of);
        Some(recorded)
    }

    /// Calls `observer` for each error that reaches the code under test as the result of an
    /// operation, just before it does.
    pub fn observe_errors(&self, observer: impl Fn(Error) + 'static) {
        let observer = Rc::new(observer);
        self.universe
            .objects(|objects| objects.error_observer = Some(observer));
    }

    /// How often each error reached the code under test as the result of an operation, by its code.
    pub fn errors(&self) -> BTreeMap<i32, u64> {
        let errors = self.universe.objects(|objects| objects.errors.clone());
        errors.unwrap_or_default()
    }
}

impl Drop for CApi {
    fn drop(&mut self) {
        self.universe.close();
    }
}
