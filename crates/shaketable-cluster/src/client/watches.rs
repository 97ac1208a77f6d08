//! Watches: from the call, through the commit, to the change.
//!
//! A watch first reads its key like any serializable read, and the commit waits for that. It then
//! takes one of the handle's places and is inert until its transaction commits; if the commit
//! fails, so does the watch. If the transaction itself writes another value in the meantime, the
//! watch completes at once. After the commit it waits at a storage server for the value to differ
//! from the one that was read. All watches of a handle on one key and one value share one request.
//! Dropping the future of a watch frees its place.
//!
//! Here is a watch up to its commit; `waiting` is the request at the storage server.

mod waiting;

use super::Pending;
use super::database::Context;
use super::fate::Fated;
use super::transaction::{Attempt, Inner, State, Transaction};
use crate::client::pending::Shared;
use crate::data::key::{ALL_END, METADATA_VERSION, max_write_key_bytes};
use crate::error::Error;
use crate::proto::{Key, ReadVersion, Value, Version};
use shaketable_kernel::{First, Priority, first_of};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use waiting::Waiting;

/// The watches of one handle.
#[derive(Debug)]
pub(crate) struct WatchRegistry {
    outstanding: Cell<i32>,
    max: Cell<i32>,
    waiting: RefCell<BTreeMap<Key, Rc<Waiting>>>,
}

/// One watch of a transaction.
#[derive(Debug)]
pub(crate) struct Watch {
    key: Key,
    /// What was read.
    value: RefCell<Option<Option<Value>>>,
    /// What the transaction itself has written to the key since, if it has. Until the read is done
    /// there is nothing to compare that with; afterwards it is the same as `value`, because a write
    /// of anything else ends the watch.
    written: RefCell<Option<Option<Value>>>,
    /// Completes when the transaction itself ends the watch.
    trigger: Shared<()>,
    /// The version from which the key is watched.
    armed: Shared<Version>,
    /// Whether the database was asked for the value.
    is_asked: Cell<bool>,
    /// What becomes of it, if that is decided.
    fated: RefCell<Option<Rc<Fated>>>,
}

/// FoundationDB's default for the number of watches of a handle.
const OUTSTANDING_MAX: i32 = 10_000;

impl Transaction {
    /// Completes when the value of a key changes, from this transaction's commit on. Dropping the
    /// future ends the watch.
    pub fn watch(&self, key: Key) -> Pending<()> {
        let inner = self.inner();
        inner.operation(|| {
            inner.check_used_during_commit()?;
            inner.check_broken()?;
            {
                let state = inner.state();
                if state.options.read_your_writes_disabled {
                    return Err(Error::WATCHES_DISABLED);
                }
                let is_readable = key < state.max_read_key()
                    || key == METADATA_VERSION
                    || !inner.context.api_version_at_least(300);
                if key >= ALL_END || !is_readable {
                    return Err(Error::KEY_OUTSIDE_LEGAL_RANGE);
                }
                if key.len() > max_write_key_bytes(&key, state.options.raw_access) {
                    return Err(Error::KEY_TOO_LARGE);
                }
            }
            let watch = Rc::new(Watch::new(key.clone()));
            let attempt = {
                let mut state = inner.state_mut();
                watch.fated.replace(state.fated.take());
                state
                    .watches
                    .entry(key.clone())
                    .or_default()
                    .push(watch.clone());
                state.attempt.clone()
            };
            let reading = Reading::begin(&attempt);
            let get = match inner.begin_get(key, false) {
                Ok(value) => {
                    let place = inner.register(&watch, value?)?;
                    drop(reading);
                    return Ok(match place {
                        None => Pending::ready(Ok(())),
                        Some(place) => inner.spawn_watch(watch, async { Ok(Some(place)) }),
                    });
                }
                Err(get) => get,
            };
            watch.is_asked.set(true);
            inner.request_read_version(false);
            let (this, target) = (inner.clone(), watch.clone());
            Ok(inner.spawn_watch(watch, async move {
                let reading = reading;
                let ended = first_of(target.trigger.wait(), attempt.ended());
                let value = match first_of(ended, this.finish_get(&get)).await {
                    First::Left(First::Left(result)) => return result.map(|()| None),
                    First::Left(First::Right(error)) => return Err(error),
                    First::Right(value) => value?,
                };
                let place = this.register(&target, value)?;
                drop(reading);
                Ok(place)
            }))
        })
    }
}

impl Transaction {
    /// Ends the watches of a transaction that is cancelled before it commits.
    ///
    /// FoundationDB leaves pending those watches that have their value. A program that cancels at
    /// once sees this only with values that the transaction wrote itself, because any other value
    /// takes a round trip. A database inside the program takes no time for the round trip; this
    /// function behaves as if it did.
    pub(super) fn cancel_watches(&self) {
        let inner = self.inner();
        if !inner.context.is_instant || inner.state().commit_started {
            return;
        }
        let watches = inner.state().native.watches.clone();
        for watch in watches.iter().filter(|watch| watch.is_asked.get()) {
            watch.fail(Error::TRANSACTION_CANCELLED);
        }
    }
}

impl Inner {
    /// Records what was read. Returns `None` if the transaction has written something else in
    /// between.
    fn register(&self, watch: &Rc<Watch>, value: Option<Value>) -> Result<Option<Place>, Error> {
        let is_changed = watch
            .written
            .borrow()
            .as_ref()
            .is_some_and(|written| *written != value);
        *watch.value.borrow_mut() = Some(value);
        if is_changed {
            watch.trigger.set(Ok(()));
            return Ok(None);
        }
        let place = Place::take(&self.context)?;
        self.state_mut().native.watches.push(watch.clone());
        Ok(Some(place))
    }

    /// Runs a watch from its registration to its end.
    fn spawn_watch(
        &self,
        watch: Rc<Watch>,
        register: impl Future<Output = Result<Option<Place>, Error>> + 'static,
    ) -> Pending<()> {
        let (promise, pending) = Pending::new();
        let context = self.context.clone();
        let run = async move {
            let Some(_place) = register.await? else {
                return Ok(());
            };
            match first_of(watch.trigger.wait(), watch.armed.wait()).await {
                First::Left(result) => result,
                First::Right(version) => {
                    let value = watch.value.borrow().clone().flatten();
                    let fated = watch.fated.take();
                    context
                        .wait_for_change(watch.key.clone(), value, version?, fated)
                        .await
                }
            }
        };
        let task = self
            .context
            .process
            .spawn(Priority::DefaultPromiseEndpoint, async move {
                promise.send(run.await)
            });
        pending.guarded_by(task)
    }
}

impl Watch {
    fn new(key: Key) -> Watch {
        Watch {
            key,
            value: RefCell::default(),
            written: RefCell::default(),
            trigger: Shared::new(),
            armed: Shared::new(),
            is_asked: Cell::new(false),
            fated: RefCell::default(),
        }
    }

    /// Ends the watch with an error, unless it has already ended.
    pub(crate) fn fail(&self, error: Error) {
        self.trigger.set(Err(error));
    }
}

impl State {
    /// Notifies the watches of a range that the transaction wrote there. `None` is a value that is
    /// not known, which counts as a change.
    pub(crate) fn trigger_watches(
        &mut self,
        begin: &Key,
        end: &Key,
        value: Option<Option<&Value>>,
    ) {
        if self.watches.is_empty() {
            return;
        }
        for watch in self
            .watches
            .range::<Key, _>(begin..end)
            .flat_map(|(_, watches)| watches)
        {
            let differs = |known: &RefCell<Option<Option<Value>>>| {
                known
                    .borrow()
                    .as_ref()
                    .is_some_and(|known| Some(known.as_ref()) != value)
            };
            if value.is_none() || differs(&watch.written) || differs(&watch.value) {
                watch.trigger.set(Ok(()));
            } else {
                *watch.written.borrow_mut() = value.map(Option::<&Value>::cloned);
            }
        }
        let is_over = |watches: &mut Vec<Rc<Watch>>| {
            watches.retain(|watch| watch.trigger.peek().is_none());
            watches.is_empty()
        };
        let over: Vec<Key> = self
            .watches
            .range_mut::<Key, _>(begin..end)
            .filter_map(|(key, watches)| is_over(watches).then(|| key.clone()))
            .collect();
        for key in over {
            self.watches.remove(&key);
        }
    }
}

/// Starts the watches of a transaction that has committed: from its version on, or from its read
/// version if it wrote nothing.
pub(crate) fn begin(
    context: &Rc<Context>,
    watches: Vec<Rc<Watch>>,
    committed: Option<Version>,
    read: Option<Shared<ReadVersion>>,
) {
    let arm = move |version: Result<Version, Error>| {
        watches.iter().for_each(|watch| watch.armed.set(version));
    };
    match (committed, read) {
        (Some(version), _) => arm(Ok(version)),
        (None, Some(read)) => {
            let wait = async move { arm(read.wait().await.map(|read| read.version)) };
            let priority = Priority::DefaultPromiseEndpoint;
            context.process.spawn(priority, wait).detach();
        }
        (None, None) => {}
    }
}

impl WatchRegistry {
    pub(crate) fn set_max(&self, max: i32) {
        self.max.set(max);
    }
}

impl Default for WatchRegistry {
    fn default() -> Self {
        WatchRegistry {
            outstanding: Cell::new(0),
            max: Cell::new(OUTSTANDING_MAX),
            waiting: RefCell::default(),
        }
    }
}

/// A read that a commit waits for, even if its task is dropped.
struct Reading(Rc<Attempt>);

impl Reading {
    fn begin(attempt: &Rc<Attempt>) -> Reading {
        attempt.begin_read();
        Reading(attempt.clone())
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.end_read(None);
    }
}

/// One of the places that a handle has for watches.
struct Place(Rc<Context>);

impl Place {
    fn take(context: &Rc<Context>) -> Result<Place, Error> {
        let watches = &context.watches;
        if watches.outstanding.get() >= watches.max.get() {
            return Err(Error::TOO_MANY_WATCHES);
        }
        watches.outstanding.set(watches.outstanding.get() + 1);
        Ok(Place(context.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let outstanding = &self.0.watches.outstanding;
        outstanding.set(outstanding.get() - 1);
    }
}
