//! Reads whose version has not arrived yet.
//!
//! A read at a version that is here is answered at once. Any other waits in a queue ordered by
//! version and leaves it in one of two ways: its version arrives, or its second is up and it fails
//! because the version is in the future. A server that has been far behind for a while does not let
//! reads wait at all, so that clients ask another one.

use super::{Answer, Storage};
use crate::error::Error;
use crate::proto::{
    GetKey, GetKeyValues, GetMappedKeyValues, GetValue, KeySelector, KeyValues, MappedKeyValues,
    StorageError, Value, Version, WatchValue,
};
use std::rc::Rc;

/// How long a server must be far behind before it reports it: two checks, two seconds apart.
const BEHIND_CHECKS_SECONDS: f64 = 4.0;

/// The version that does not arrive.
const NEVER: Version = Version::MAX;

/// A request whose version has not arrived yet.
pub(super) enum Waiting {
    Value(GetValue, Answer<Option<Value>>),
    Key(GetKey, Answer<KeySelector>),
    Range(GetKeyValues, Answer<KeyValues>),
    Mapped(GetMappedKeyValues, Answer<MappedKeyValues>),
    Watch(WatchValue, Answer<Version>),
}

impl Storage {
    pub(super) fn at_version(self: &Rc<Self>, version: Version, request: Waiting) {
        let version = if request.is_early() { NEVER } else { version };
        let disk = self.disk.borrow();
        if version <= disk.version {
            drop(disk);
            return self.answer(request);
        }
        if version != NEVER && self.is_behind(version - disk.version) {
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
    pub(super) async fn give_up_reads(self: Rc<Self>) {
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

    /// Answers the reads that have waited for a version up to this one.
    pub(super) fn answer_waiting(self: &Rc<Self>, version: Version) {
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
}

impl Waiting {
    /// Whether the version has not arrived, whatever has.
    fn is_early(&self) -> bool {
        match self {
            Waiting::Value(request, _) => request.is_early,
            Waiting::Key(request, _) => request.is_early,
            Waiting::Range(request, _) => request.is_early,
            Waiting::Mapped(request, _) => request.primary.is_early,
            Waiting::Watch(..) => false,
        }
    }

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
