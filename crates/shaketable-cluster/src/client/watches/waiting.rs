//! The request that waits at a storage server for a value to change.
//!
//! All watches of a handle on one key and one value share it. When a watch comes with another value
//! for the same key, the later version decides which of the two is out of date. A change counts
//! once its version is known to be committed: a storage server may tell of a version that a
//! recovery undoes.

use crate::client::database::Context;
use crate::client::fate::{Fate, Fated};
use crate::client::grv::GrvKind;
use crate::client::pending::Shared;
use crate::error::Error;
use crate::proto::{Key, TransactionPriority, Value, Version, WatchFate};
use shaketable_kernel::{Priority, Task};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The storage server holds as many watches as it can: look again later.
const WATCH_CANCELLED: Error = Error(1029);
/// If this many versions pass before an answer is known to be committed, there was a recovery in
/// between.
const RECOVERY_VERSIONS: Version = 50_000_000;

/// A request that waits at a storage server, shared by all watches that need it.
pub(super) struct Waiting {
    value: Option<Value>,
    version: Cell<Version>,
    users: Cell<usize>,
    done: Shared<()>,
    task: RefCell<Option<Task<()>>>,
}

/// A watch that waits for a shared request. The request is dropped with its last user.
struct User {
    context: Rc<Context>,
    key: Key,
    waiting: Rc<Waiting>,
}

impl Context {
    /// Waits until the value of a key differs from `value`, which it had at `version`.
    pub(super) async fn wait_for_change(
        self: &Rc<Self>,
        key: Key,
        value: Option<Value>,
        version: Version,
        fated: Option<Rc<Fated>>,
    ) -> Result<(), Error> {
        let known = self.watches.waiting.borrow().get(&key).cloned();
        let waiting = match known {
            None => self.ask_and_wait(&key, value, version, fated),
            Some(waiting) if waiting.value == value => {
                waiting.version.set(waiting.version.get().max(version));
                waiting
            }
            Some(older) if version > older.version.get() => {
                self.finish_waiting(&key, &older, Ok(()));
                self.ask_and_wait(&key, value, version, fated)
            }
            Some(other) if version == other.version.get() => {
                let current = self.current_value(&key).await;
                if current != other.value {
                    self.finish_waiting(&key, &other, Ok(()));
                }
                if current != value {
                    return Ok(());
                }
                self.ask_and_wait(&key, value, version, fated)
            }
            // The key has been seen with another value at a later version.
            Some(_) => return Ok(()),
        };
        let user = User::of(self, &key, &waiting);
        user.waiting.done.wait().await
    }

    /// The current value of a key.
    async fn current_value(self: &Rc<Self>, key: &Key) -> Option<Value> {
        let kind = GrvKind {
            priority: TransactionPriority::Default,
            causal_read_risky: false,
        };
        loop {
            if let Ok(version) = self.request_read_version(kind, &[]).wait().await
                && let Ok(value) = self.get_value(key, version.version).await
            {
                return value;
            }
            self.process
                .sleep(self.knobs().future_version_retry_delay)
                .await;
        }
    }

    /// Starts a new request.
    fn ask_and_wait(
        self: &Rc<Self>,
        key: &Key,
        value: Option<Value>,
        version: Version,
        fated: Option<Rc<Fated>>,
    ) -> Rc<Waiting> {
        let fate = match fated.as_ref().map(|fated| fated.fate) {
            Some(Fate::Watch(fate)) => Some(fate),
            _ => None,
        };
        if let Some(fated) = &fated {
            self.meet(fated);
        }
        let waiting = Rc::new(Waiting {
            value,
            version: Cell::new(version),
            users: Cell::new(0),
            done: Shared::new(),
            task: RefCell::default(),
        });
        self.watches
            .waiting
            .borrow_mut()
            .insert(key.clone(), waiting.clone());
        let (context, key, weak) = (self.clone(), key.clone(), Rc::downgrade(&waiting));
        let task = self
            .process
            .spawn(Priority::DefaultPromiseEndpoint, async move {
                while let Some(waiting) = weak.upgrade() {
                    let (value, version) = (waiting.value.clone(), waiting.version.get());
                    drop(waiting);
                    let result = context.watch_value(&key, value, version, fate).await;
                    let Some(waiting) = weak.upgrade() else {
                        return;
                    };
                    match result {
                        // A watch that came later has seen the old value again in the meantime.
                        Ok(changed) if changed < waiting.version.get() => {}
                        Err(Error::FUTURE_VERSION) => {}
                        Ok(_) => return context.finish_waiting(&key, &waiting, Ok(())),
                        Err(error) => return context.finish_waiting(&key, &waiting, Err(error)),
                    }
                }
            });
        *waiting.task.borrow_mut() = Some(task);
        waiting
    }

    fn finish_waiting(&self, key: &Key, waiting: &Rc<Waiting>, result: Result<(), Error>) {
        self.forget_waiting(key, waiting);
        waiting.done.set(result);
    }

    fn forget_waiting(&self, key: &Key, waiting: &Rc<Waiting>) {
        let mut all = self.watches.waiting.borrow_mut();
        if all.get(key).is_some_and(|known| Rc::ptr_eq(known, waiting)) {
            all.remove(key);
        }
    }

    /// Waits at a storage server. The answer counts once its version is known to be committed.
    async fn watch_value(
        self: &Rc<Self>,
        key: &Key,
        value: Option<Value>,
        mut version: Version,
        fate: Option<WatchFate>,
    ) -> Result<Version, Error> {
        self.validate_version(version)?;
        let kind = GrvKind {
            priority: TransactionPriority::Immediate,
            causal_read_risky: false,
        };
        loop {
            match self.watch_once(key, &value, version, fate).await {
                Ok(Some(changed)) => {
                    let committed = loop {
                        if let Ok(read) = self.request_read_version(kind, &[]).wait().await
                            && read.version >= changed
                        {
                            break read.version;
                        }
                        self.process
                            .sleep(self.knobs().future_version_retry_delay)
                            .await;
                    };
                    if committed - changed < RECOVERY_VERSIONS {
                        return Ok(changed);
                    }
                    version = committed;
                }
                Ok(None) => {}
                Err(WATCH_CANCELLED | Error::PROCESS_BEHIND) => {
                    self.process.sleep(self.knobs().watch_polling_time).await;
                }
                Err(Error::TIMED_OUT) => {
                    self.process
                        .sleep(self.knobs().future_version_retry_delay)
                        .await;
                }
                Err(error) => {
                    self.process
                        .sleep(self.knobs().future_version_retry_delay)
                        .await;
                    return Err(error);
                }
            }
        }
    }
}

impl User {
    fn of(context: &Rc<Context>, key: &Key, waiting: &Rc<Waiting>) -> User {
        waiting.users.set(waiting.users.get() + 1);
        User {
            context: context.clone(),
            key: key.clone(),
            waiting: waiting.clone(),
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.waiting.users.set(self.waiting.users.get() - 1);
        if self.waiting.users.get() == 0 {
            self.context.forget_waiting(&self.key, &self.waiting);
            let task = self.waiting.task.borrow_mut().take();
            drop(task);
        }
    }
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
