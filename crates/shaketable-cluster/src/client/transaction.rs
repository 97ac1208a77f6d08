//! The surface of a transaction.
//!
//! Every method does its checks and its bookkeeping at the moment of the call. What takes time runs
//! as a task of the kernel from then on, whether or not the returned [`Pending`] is awaited: a read
//! that the caller has dropped still adds its conflict range, and a commit still waits for it.
//!
//! The order of the checks is FoundationDB's, because it is visible: a deferred error comes first,
//! then special keys, then the use of a transaction that is being committed (which also ends that
//! commit), then a cancelled or timed-out transaction, and only then the arguments.

mod attempt;
mod commit;
mod options;
mod reads;
mod retry;
mod special;
mod stamp;
mod state;
mod writes;

pub(crate) use attempt::Attempt;
pub(crate) use state::State;

use super::database::Context;
use super::grv::GrvKind;
use super::pending::{Pending, Promise, Shared};
use super::special_keys;
use crate::error::Error;
use crate::proto::{ReadVersion, Version, Versionstamp};
use pin_project_lite::pin_project;
use shaketable_kernel::{Priority, ProcessId};
use std::cell::{Ref, RefCell, RefMut};
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{self, Poll, ready};

/// A transaction. Cheap to clone: clones are the same transaction. When the last one is dropped,
/// pending operations end with 1025; a commit that has been sent may still take effect.
#[derive(Clone, Debug)]
pub struct Transaction(Rc<Handle>);

/// Which of the two sets of conflict ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictRangeKind {
    /// What the transaction depends on.
    Read,
    /// What depends on the transaction.
    Write,
}

/// What ends with the last clone of a transaction.
#[derive(Debug)]
struct Handle(Rc<Inner>);

/// The transaction itself. Tasks hold it too.
pub(crate) struct Inner {
    pub(crate) context: Rc<Context>,
    /// Whether it belongs to a tenant. Tenants are disabled in this cluster, so that there is none:
    /// what asks for the tenant fails, what the transaction knows by itself does not.
    is_in_tenant: bool,
    state: RefCell<State>,
    special: RefCell<special_keys::State>,
}

impl Transaction {
    pub(crate) fn new(context: Rc<Context>, is_in_tenant: bool) -> Transaction {
        let random = context.random.clone();
        let inner = Rc::new(Inner {
            special: RefCell::new(special_keys::State::new(move || random.next_u64())),
            // Last, so that nothing that could panic needs it in a place of its own.
            state: RefCell::new(State::new(&context)),
            is_in_tenant,
            context,
        });
        inner.apply_persistent_options();
        Transaction(Rc::new(Handle(inner)))
    }

    pub(crate) fn inner(&self) -> &Rc<Inner> {
        &self.0.0
    }

    /// The process that the transaction belongs to.
    pub fn process(&self) -> ProcessId {
        self.inner().context.process.id()
    }

    /// The version at which the transaction reads, if it has got one. Does not ask for it.
    pub fn known_read_version(&self) -> Option<Version> {
        self.inner().known_read_version()
    }

    /// Reads at this version instead of asking for one. The errors are deferred: 2010 if there
    /// already is a read version, 2011 if `version` is not positive.
    pub fn set_read_version(&self, version: Version) {
        self.inner().defer(|inner| {
            let native = &mut inner.state_mut().native;
            if native.read_version.is_some() {
                return Err(Error::READ_VERSION_ALREADY_SET);
            }
            if version <= 0 {
                return Err(Error::VERSION_INVALID);
            }
            let read_version = ReadVersion {
                version,
                locked: false,
                metadata_version: None,
            };
            native.read_version = Some(Shared::ready(Ok(read_version)));
            native.is_given_version = false;
            Ok(())
        });
    }

    /// The version at which this transaction reads.
    pub fn get_read_version(&self) -> Pending<Version> {
        let inner = self.inner();
        inner.operation(|| {
            if inner.context.api_version_at_least(101) {
                inner.check_broken()?;
            }
            let version = inner.request_read_version(false);
            Ok(match version.peek() {
                Some(result) => Pending::ready(result.and_then(|v| inner.check_locked(v))),
                None => {
                    let this = inner.clone();
                    inner.start(move || async move { this.check_locked(version.wait().await?) })
                }
            })
        })
    }

    /// The version of the last successful commit that wrote something, or -1.
    pub fn get_committed_version(&self) -> Version {
        self.inner().state().committed_version
    }

    /// The stamp of the next commit. It is there when the commit is.
    pub fn get_versionstamp(&self) -> Pending<Versionstamp> {
        let inner = self.inner();
        inner.operation(|| {
            inner.check_used_during_commit()?;
            inner.check_broken()?;
            let state = inner.state();
            Ok(state.native.versionstamp.wait(&state.attempt))
        })
    }

    /// The estimated size of the commit.
    pub fn get_approximate_size(&self) -> Pending<i64> {
        self.inner()
            .operation(|| Ok(Pending::ready(Ok(self.inner().state().approximate_size()))))
    }

    /// What this transaction has cost, as tag throttling counts it.
    pub fn get_total_cost(&self) -> Pending<i64> {
        self.inner()
            .operation(|| Ok(Pending::ready(Ok(self.inner().state().native.total_cost))))
    }

    /// How many seconds tag throttling has delayed this transaction: this cluster throttles no
    /// tags.
    pub fn get_tag_throttled_duration(&self) -> Pending<f64> {
        self.inner().operation(|| Ok(Pending::ready(Ok(0.0))))
    }

    /// Ends all pending and later operations with 1025, until `reset`.
    pub fn cancel(&self) {
        let attempt = self.inner().state().attempt.clone();
        attempt.end(Error::TRANSACTION_CANCELLED);
        self.cancel_watches();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let inner = &self.0;
        let attempt = inner.state().attempt.clone();
        attempt.end(Error::TRANSACTION_CANCELLED);
        // The rest goes with the transaction.
        let (watches, committing) = {
            let native = &mut inner.state_mut().native;
            (mem::take(&mut native.watches), native.committing.take())
        };
        for watch in watches {
            watch.fail(Error::TRANSACTION_CANCELLED);
        }
        drop(committing);
        inner.state_mut().timeout = None;
    }
}

impl Inner {
    pub(crate) fn state(&self) -> Ref<'_, State> {
        self.state.borrow()
    }

    pub(crate) fn state_mut(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    /// Runs a call that returns nothing. Its error is deferred; if there is a deferred error
    /// already, the call is skipped.
    fn defer(&self, call: impl FnOnce(&Self) -> Result<(), Error>) {
        if self.state().deferred_error.is_some() {
            return;
        }
        if let Err(error) = call(self) {
            self.state_mut().deferred_error = Some(error);
        }
    }

    /// Runs a call that returns a future, unless a deferred error is in the way.
    pub(super) fn operation<T: 'static>(
        &self,
        call: impl FnOnce() -> Result<Pending<T>, Error>,
    ) -> Pending<T> {
        let deferred = self
            .context
            .deferred_error
            .get()
            .or(self.state().deferred_error);
        match deferred.map_or_else(call, Err) {
            Ok(pending) => pending,
            Err(error) => Pending::ready(Err(error)),
        }
    }

    /// Refuses the use of a transaction whose commit has begun, and ends that commit.
    pub(super) fn check_used_during_commit(&self) -> Result<(), Error> {
        let (started, protected, attempt) = {
            let state = self.state();
            let protected = !state.options.commit_protection_disabled;
            (state.commit_started, protected, state.attempt.clone())
        };
        if !started {
            return Ok(());
        }
        if protected {
            attempt.end(Error::USED_DURING_COMMIT);
        }
        Err(Error::USED_DURING_COMMIT)
    }

    /// Refuses the use of a transaction that was cancelled or timed out.
    pub(super) fn check_broken(&self) -> Result<(), Error> {
        self.state().attempt.broken().map_or(Ok(()), Err)
    }

    /// Starts the part of an operation that takes time. It ends early if the attempt does. Takes a
    /// closure, so that the future is made where it stays.
    pub(super) fn start<T: 'static, F>(&self, work: impl FnOnce() -> F + 'static) -> Pending<T>
    where
        F: Future<Output = Result<T, Error>> + 'static,
    {
        let (promise, pending) = Pending::new();
        let attempt = self.state().attempt.clone();
        let index = attempt.add(promise.to_fail());
        let working = Working {
            work: work(),
            owner: attempt.clone(),
            index,
            promise: Some(promise),
        };
        let priority = Priority::DefaultPromiseEndpoint;
        let task = self.context.process.start(priority, working);
        attempt.keep(index, task);
        pending
    }

    /// Starts a read, which a commit waits for.
    fn start_read<T: 'static, F>(&self, work: impl FnOnce() -> F + 'static) -> Pending<T>
    where
        F: Future<Output = Result<T, Error>> + 'static,
    {
        let fated = self.state_mut().fated.take();
        if let Some(fated) = fated {
            return self.start_fated_read(fated, work);
        }
        // The read version is requested at the moment of the call, so that calls made together
        // share a request.
        self.request_read_version(false);
        let attempt = self.state().attempt.clone();
        attempt.begin_read();
        self.start(move || Reading {
            work: work(),
            attempt,
        })
    }

    /// Completes a read whose result is known at once.
    fn finish_read<T: 'static>(&self, result: Result<T, Error>) -> Pending<T> {
        self.state().attempt.count_read(&result);
        Pending::ready(result)
    }

    /// The read version, which is requested if this is the first call that needs it.
    pub(crate) fn request_read_version(&self, for_commit: bool) -> Shared<ReadVersion> {
        let mut state = self.state_mut();
        if let Some(version) = &state.native.read_version {
            return version.clone();
        }
        // A commit without reads need not be sure that it sees what other transactions have
        // committed.
        let causal_read_risky = for_commit || state.options.causal_read_risky;
        let kind = GrvKind {
            priority: state.options.priority,
            causal_read_risky,
        };
        let version = self.context.request_read_version(kind, &state.options.tags);
        state.native.read_version = Some(version.clone());
        version
    }

    /// The version at which to read from the database.
    pub(crate) async fn read_version(&self) -> Result<Version, Error> {
        let version = self.request_read_version(false);
        let version = match version.peek() {
            Some(result) => self.check_locked(result?)?,
            None => self.check_locked(version.wait().await?)?,
        };
        self.check_tenant()?;
        Ok(version)
    }

    /// Refuses what needs the tenant that the transaction belongs to.
    fn check_tenant(&self) -> Result<(), Error> {
        if self.is_in_tenant {
            return Err(Error::TENANT_NOT_FOUND);
        }
        Ok(())
    }

    /// The read version if it is known.
    pub(crate) fn known_read_version(&self) -> Option<Version> {
        let version = self.state().native.read_version.as_ref()?.peek()?;
        version.ok().map(|v| v.version)
    }

    fn check_locked(&self, version: ReadVersion) -> Result<Version, Error> {
        if version.locked && !self.state().options.lock_aware {
            return Err(Error::DATABASE_LOCKED);
        }
        Ok(version.version)
    }
}

pin_project! {
    /// The part of an operation that takes time. Not an `async` block, which would reserve room for
    /// the work twice.
    struct Working<F, T> {
        #[pin]
        work: F,
        owner: Rc<Attempt>,
        index: usize,
        promise: Option<Promise<T>>,
    }
}

impl<T: 'static, F: Future<Output = Result<T, Error>>> Future for Working<F, T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<()> {
        let this = self.project();
        let result = ready!(this.work.poll(context));
        this.owner.remove(*this.index);
        if let Some(promise) = this.promise.take() {
            promise.send(result);
        }
        Poll::Ready(())
    }
}

pin_project! {
    /// A read, which tells its attempt when it has ended.
    struct Reading<F> {
        #[pin]
        work: F,
        attempt: Rc<Attempt>,
    }
}

impl<T, F: Future<Output = Result<T, Error>>> Future for Reading<F> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let result = ready!(this.work.poll(context));
        this.attempt.end_read(result.as_ref().err().copied());
        Poll::Ready(result)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}
