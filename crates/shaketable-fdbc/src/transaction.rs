//! The transaction behind `FDBTransaction*`.
//!
//! A handle is a universe and the number of a client's transaction in it. Each call copies its
//! arguments into a closure and posts it, so that nothing has happened when the call returns, and
//! the calls of all threads are carried out in the order in which they were made. Errors of calls
//! that return nothing stay with the client's transaction.

use crate::coverage::Counted;
use crate::fate;
use crate::future::FDBFuture;
use crate::operation;
use crate::outstanding::{Ask, Outstanding};
use crate::recorder::{Asked, Keep, Noted, Origin, Recorder};
use crate::universe::{Slot, Universe};
use crate::value::Value;
use bytes::Bytes;
use shaketable_cluster::client::{Pending, Transaction};
use shaketable_record::Call;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The address of a database that a host has lent; none for a program's own. A name, not a pointer
/// to follow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lent(pub(crate) Option<usize>);

/// What `FDBTransaction*` points to.
pub struct FDBTransaction {
    pub(crate) universe: Arc<Universe>,
    slot: Slot,
    /// What `fdb_transaction_get_committed_version` returns without waiting: the version of the
    /// last commit that wrote something, or -1. Stored before the commit's future becomes ready.
    committed_version: AtomicI64,
    /// The database that a host has lent and that began it, for the record.
    lent: Lent,
}

impl FDBTransaction {
    /// A handle whose object is still to come; see [`FDBTransaction::put`].
    pub(crate) fn new(universe: Arc<Universe>, lent: Lent) -> Arc<FDBTransaction> {
        Arc::new(FDBTransaction {
            universe,
            slot: Slot::empty(),
            lent,
            committed_version: AtomicI64::new(-1),
        })
    }

    /// Gives the handle its object, on the kernel's thread.
    pub(crate) fn put(&self, object: Transaction) {
        self.universe
            .objects(|objects| self.slot.set(objects.transactions.insert(object)));
    }

    /// What is recorded of a call, if calls are recorded.
    pub(crate) fn note(&self, call: impl FnOnce(Keep) -> Call) -> Option<Box<Noted>> {
        self.universe.note(call)
    }

    /// Runs `call` on the client's transaction, later, on the kernel's thread.
    pub(crate) fn apply(
        self: &Arc<FDBTransaction>,
        noted: Option<Box<Noted>>,
        call: impl FnOnce(&Transaction) + Send + 'static,
    ) {
        let handle = self.clone();
        self.universe.post(move |_| {
            if let Some(object) = handle.object() {
                if let Some(noted) = noted {
                    handle.record(&object, *noted);
                }
                call(&object);
            }
        });
    }

    /// Runs `call` like [`FDBTransaction::apply`]; the future gets its result.
    pub(crate) fn submit<T: 'static>(
        self: &Arc<FDBTransaction>,
        ask: Ask,
        noted: Option<Box<Noted>>,
        call: impl FnOnce(&Transaction) -> Pending<T> + Send + 'static,
        wrap: impl FnOnce(T) -> Value + Send + 'static,
    ) -> Arc<FDBFuture> {
        let future = FDBFuture::pending(self.universe.clone());
        let (handle, promise) = (self.clone(), future.clone());
        let place = match &noted {
            Some(noted) => noted.place,
            None => self.universe.place(),
        };
        let site = self.universe.site();
        self.universe.post(move |kernel| {
            if let Some(object) = handle.object() {
                let counted = site.and_then(|site| Counted::new(site, &ask, &object));
                let outstanding = Outstanding {
                    ask,
                    process: object.process(),
                    since: kernel.now(),
                    place,
                };
                let asked = noted.and_then(|noted| handle.record(&object, *noted));
                let pending = if kernel.is_deciding() {
                    fate::under(kernel, &object, &outstanding.ask, call)
                } else {
                    call(&object)
                };
                operation::follow(promise, outstanding, (asked, counted), pending, wrap);
            }
        });
        future
    }

    /// Commits. The version is there when the future is.
    pub(crate) fn commit(self: &Arc<FDBTransaction>) -> Arc<FDBFuture> {
        let handle = self.clone();
        let noted = self.note(|_| Call::Commit);
        self.submit(Ask::Commit, noted, Transaction::commit, move |()| {
            handle.store_committed_version();
            Value::Void
        })
    }

    /// The stamp of the commit to come. It is there before the commit's future, with the version.
    pub(crate) fn versionstamp(self: &Arc<FDBTransaction>) -> Arc<FDBFuture> {
        let handle = self.clone();
        let noted = self.note(|_| Call::GetVersionstamp);
        self.submit(
            Ask::Versionstamp,
            noted,
            Transaction::get_versionstamp,
            move |stamp| {
                handle.store_committed_version();
                Value::Key(Bytes::copy_from_slice(&stamp.to_bytes()))
            },
        )
    }

    fn store_committed_version(&self) {
        // The handle may have been destroyed meanwhile; then its version can no longer be asked
        // for.
        if let Some(object) = self.object() {
            self.committed_version
                .store(object.get_committed_version(), Ordering::Release);
        }
    }

    pub(crate) fn committed_version(&self) -> i64 {
        self.committed_version.load(Ordering::Acquire)
    }

    /// Gives the client's transaction up, after everything that was called before: what is pending
    /// ends with 1025.
    pub(crate) fn destroy(self: Arc<FDBTransaction>) {
        let universe = self.universe.clone();
        universe.post(move |_| {
            let number = self.slot.take();
            let taken = self.universe.objects(|objects| {
                let object = objects.transactions.try_remove(number);
                (object, objects.recorder.clone())
            });
            let (object, recorder) = taken.unwrap_or_default();
            if let Some(recorder) = recorder {
                recorder.borrow_mut().destroy(number, object.as_ref());
            }
            drop(object);
        });
    }

    /// Records a call that is about to be carried out. Returns what waits for its answer.
    fn record(&self, object: &Transaction, noted: Noted) -> Option<Asked> {
        let recorder = self
            .universe
            .objects(|objects| objects.recorder.clone())??;
        let origin = Origin {
            process: object.process(),
            lent: self.lent.0.map(std::ptr::without_provenance),
        };
        let is_commit = noted.call == Call::Commit;
        let asked = Recorder::ask(&recorder, self.slot.get(), origin, object, noted)?;
        if is_commit {
            asked.follow_commit(object);
        }
        Some(asked)
    }

    fn object(&self) -> Option<Transaction> {
        self.universe
            .objects(|objects| objects.transactions.get(self.slot.get()).cloned())
            .flatten()
    }
}
