//! The database behind `FDBDatabase*`.
//!
//! A handle is a universe and the number of a client's database in it. Databases that a host lends to a workload look
//! the same; destroying one of those does nothing, because FoundationDB's tester lends them too and owns them itself.

use crate::transaction::FDBTransaction;
use crate::universe::{Slot, Universe};
use shaketable_cluster::client::Database;
use shaketable_kernel::Kernel;
use std::sync::Arc;

/// What `FDBDatabase*` points to.
pub struct FDBDatabase {
    pub(crate) universe: Arc<Universe>,
    slot: Slot,
    lent: bool,
}

impl FDBDatabase {
    /// A handle whose object `open` makes, on the kernel's thread.
    pub(crate) fn open(
        universe: Arc<Universe>,
        open: impl FnOnce(&Universe, &Kernel) -> Database + Send + 'static,
    ) -> Arc<FDBDatabase> {
        let database = Arc::new(FDBDatabase {
            universe,
            slot: Slot::empty(),
            lent: false,
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
            lent: true,
        });
        database.put(object);
        database
    }

    fn put(&self, object: Database) {
        self.universe
            .objects(|objects| self.slot.set(objects.databases.insert(object)));
    }

    /// Whether the handle belongs to a host, which alone may destroy it.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent
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
        let transaction = FDBTransaction::new(self.universe.clone());
        let handle = transaction.clone();
        self.apply(move |object| handle.put(object.create_transaction()));
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

    fn object(&self) -> Option<Database> {
        self.universe
            .objects(|objects| objects.databases.get(self.slot.get()).cloned())
            .flatten()
    }
}
