//! The database behind `FDBDatabase*`.
//!
//! A handle is a universe and the number of a client's database in it. Databases that a host lends
//! to a workload look the same; destroying one of those does nothing, because FoundationDB's tester
//! lends them too and owns them itself. There, destroying one leads to a crash sooner or later, and
//! so does using one that was taken back; here a [`Lease`] records it.

use crate::network::ClusterName;
use crate::transaction::{FDBTransaction, Lent};
use crate::universe::{Slot, Universe};
use shaketable_cluster::client::{Database, Transaction};
use shaketable_kernel::Kernel;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What `FDBDatabase*` points to.
pub struct FDBDatabase {
    pub(crate) universe: Arc<Universe>,
    slot: Slot,
    /// Which cluster of the program it belongs to; a host's database belongs to none.
    pub(crate) cluster: Option<ClusterName>,
    lease: Option<Lease>,
}

/// The state of a handle that a host has lent.
#[derive(Default)]
pub(crate) struct Lease {
    over: AtomicBool,
    used_afterwards: AtomicBool,
    destroyed: AtomicBool,
}

/// A forbidden use of a database that was lent to the code under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseBreach {
    /// It began a transaction after the database was taken back.
    UsedAfterwards,
    /// It destroyed the database.
    Destroyed,
}

impl Lease {
    /// The lease is over.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// The forbidden uses since the last call.
    pub(crate) fn take_breaches(&self) -> impl Iterator<Item = LeaseBreach> {
        let used = self.used_afterwards.swap(false, Ordering::Relaxed);
        let destroyed = self.destroyed.swap(false, Ordering::Relaxed);
        let used = used.then_some(LeaseBreach::UsedAfterwards);
        used.into_iter()
            .chain(destroyed.then_some(LeaseBreach::Destroyed))
    }
}

impl FDBDatabase {
    /// A handle of a cluster of the program, whose object `open` makes, on the kernel's thread.
    pub(crate) fn open(
        universe: Arc<Universe>,
        cluster: ClusterName,
        open: impl FnOnce(&Universe, &Kernel) -> Database + Send + 'static,
    ) -> Arc<FDBDatabase> {
        let database = Arc::new(FDBDatabase {
            universe,
            slot: Slot::empty(),
            cluster: Some(cluster),
            lease: None,
        });
        let handle = database.clone();
        database
            .universe
            .post(move |kernel| handle.put(open(&handle.universe, kernel)));
        database
    }

    /// A handle that the host keeps and lends. Called on the kernel's thread.
    pub(crate) fn lend(universe: Arc<Universe>, object: Database) -> Arc<FDBDatabase> {
        let database = Arc::new(FDBDatabase {
            universe,
            slot: Slot::empty(),
            cluster: None,
            lease: Some(Lease::default()),
        });
        database.put(object);
        database
    }

    /// Another handle of the same database.
    pub(crate) fn share(self: &Arc<FDBDatabase>) -> Arc<FDBDatabase> {
        let database = Arc::new(FDBDatabase {
            universe: self.universe.clone(),
            slot: Slot::empty(),
            cluster: self.cluster.clone(),
            lease: None,
        });
        let handle = database.clone();
        self.apply(move |object| handle.put(object.clone()));
        database
    }

    fn put(&self, object: Database) {
        self.universe
            .objects(|objects| self.slot.set(objects.databases.insert(object)));
    }

    /// The lease, if a host has lent the handle.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Whether the handle may be destroyed; a host's may not, and the attempt is recorded.
    pub(crate) fn may_be_destroyed(&self) -> bool {
        match &self.lease {
            None => true,
            Some(lease) => {
                lease.destroyed.store(true, Ordering::Relaxed);
                false
            }
        }
    }

    /// Runs `call` on the client's database, later, on the kernel's thread.
    pub(crate) fn apply(self: &Arc<FDBDatabase>, call: impl FnOnce(&Database) + Send + 'static) {
        let handle = self.clone();
        self.universe.post(move |_| {
            if let Some(object) = handle.object() {
                call(&object);
            }
        });
    }

    /// A transaction of this database.
    pub(crate) fn create_transaction(self: &Arc<FDBDatabase>) -> Arc<FDBTransaction> {
        self.begin(Database::create_transaction)
    }

    /// A transaction inside a tenant of this database.
    pub(crate) fn create_tenant_transaction(self: &Arc<FDBDatabase>) -> Arc<FDBTransaction> {
        self.begin(Database::create_tenant_transaction)
    }

    fn begin(self: &Arc<FDBDatabase>, create: fn(&Database) -> Transaction) -> Arc<FDBTransaction> {
        if let Some(lease) = &self.lease
            && lease.over.load(Ordering::Relaxed)
        {
            lease.used_afterwards.store(true, Ordering::Relaxed);
        }
        let lent = self.lease.as_ref().map(|_| Arc::as_ptr(self).addr());
        let transaction = FDBTransaction::new(self.universe.clone(), Lent(lent));
        let handle = transaction.clone();
        self.apply(move |object| handle.put(create(object)));
        transaction
    }

    /// Gives the client's database up, after everything that was called before.
    pub(crate) fn destroy(self: Arc<FDBDatabase>) {
        let universe = self.universe.clone();
        universe.post(move |_| {
            let number = self.slot.take();
            let object = self
                .universe
                .objects(|objects| objects.databases.try_remove(number));
            drop(object);
        });
    }

    pub(crate) fn object(&self) -> Option<Database> {
        self.universe
            .objects(|objects| objects.databases.get(self.slot.get()).cloned())
            .flatten()
    }
}
