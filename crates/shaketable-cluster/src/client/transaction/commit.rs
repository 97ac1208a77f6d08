//! Committing.
//!
//! A commit waits for the reads of its attempt and fails with the first error that any of them had.
//! Then the overlay is handed over and the transaction travels to a commit proxy. A transaction
//! that has written nothing succeeds at once, without a request.
//!
//! When the reply is lost the fate of the transaction is unknown, and the client must not report
//! that before it is settled: it first commits another transaction that conflicts with it. Once
//! that has committed, the original either has or never will, because its read conflict can no
//! longer pass. For this, every transaction that is sent has a key in common between what it reads
//! and what it writes; if it has none of its own, a random one is added. With an idempotency id the
//! client then looks up what happened and never reports an unknown result.
//!
//! Here is the way of a commit; `unknown` settles the fate of one whose reply was lost.

mod unknown;

use super::state::{CommitNote, Native, State};
use super::writes::MUTATION_BYTES;
use super::{Attempt, Inner, Transaction};
use crate::client::conflicts::RANGE_BYTES;
use crate::client::database::Context;
use crate::client::fate::{Fate, Fated};
use crate::client::pending::{Fail, Shared};
use crate::client::range_set::RangeSet;
use crate::client::watches::Watch;
use crate::client::{Pending, special_keys, watches};
use crate::data::key::{ALL_END, joined};
use crate::error::Error;
use crate::proto::{
    ClientDbInfo, Commit, CommitOutcome, CommitTransaction, Key, KeyRange, ReadVersion, Version,
    Versionstamp,
};
use crate::release::API_VERSION_8_0;
use crate::truth::CommitTruth;
use bytes::Bytes;
use shaketable_kernel::{Disconnected, First, Priority, first_of};
use std::rc::Rc;

/// The prefix of the random keys that make a transaction conflict with itself and with no other.
const SELF_CONFLICT_PREFIX: &[u8] = b"\xff/SC/";

impl Transaction {
    /// Commits the transaction. Before API version 410 a transaction was as good as new afterwards.
    pub fn commit(&self) -> Pending<()> {
        let pending = self.commit_once();
        if self.inner().context.api_version_at_least(410) {
            return pending;
        }
        let inner = Rc::downgrade(self.inner());
        let (promise, reset) = Pending::new();
        let subscription = pending.then(move |outcome| {
            if let Some(inner) = inner.upgrade() {
                inner.reset_after_commit(outcome);
            }
            promise.send(outcome);
        });
        reset.guarded_by(subscription)
    }

    fn commit_once(&self) -> Pending<()> {
        let inner = self.inner();
        inner.operation(|| {
            inner.check_used_during_commit()?;
            inner.check_broken()?;
            let (ready, special) = {
                let mut state = inner.state_mut();
                state.commit_started = true;
                state.native.fated = state.fated.take();
                (state.attempt.reads(), state.options.special_writes)
            };
            if let (Some(reads), false) = (ready, special) {
                return reads.and_then(|()| inner.commit_now());
            }
            let this = inner.clone();
            Ok(inner.start(move || async move {
                if special {
                    special_keys::commit(&*this).await?;
                }
                let attempt = this.state().attempt.clone();
                attempt.reads_done().await?;
                let done = Shared::new();
                let result = done.clone();
                if !this.start_commit(move |outcome| result.set(outcome))? {
                    return Ok(());
                }
                done.wait().await
            }))
        })
    }
}

impl Transaction {
    /// Has `note` called with what the next commit of this attempt sends, if it sends anything. It
    /// is sent with the tag, under which the cluster's history knows it. Changes nothing else.
    pub fn note_commit(&self, tag: u64, note: impl FnOnce(&CommitTransaction) + 'static) {
        let note = Box::new(note);
        self.inner().state_mut().native.note = Some(CommitNote { tag, note });
    }
}

impl Transaction {
    /// Has what becomes of the next commit of this attempt noted. Changes nothing else.
    pub fn follow_commit(&self) -> CommitTruth {
        let truth = CommitTruth::default();
        self.inner().state_mut().native.truth = Some(truth.clone());
        truth
    }
}

impl Inner {
    /// Commits a transaction whose reads have ended. If the attempt ends first, the caller gets its
    /// error, but a commit that has been sent is still on its way.
    fn commit_now(self: &Rc<Self>) -> Result<Pending<()>, Error> {
        let (promise, pending) = Pending::new();
        let attempt = self.state().attempt.clone();
        let index = attempt.add(promise.to_fail());
        let owner = attempt.clone();
        let sent = self.start_commit(move |outcome| {
            owner.remove(index);
            promise.send(outcome);
        });
        if sent != Ok(true) {
            attempt.remove(index);
        }
        Ok(if sent? {
            pending
        } else {
            Pending::ready(Ok(()))
        })
    }

    /// Hands the transaction over and sends it; `done` gets the outcome. Returns `false` if it
    /// wrote nothing: it has then committed already, and `done` is not called.
    fn start_commit(
        self: &Rc<Self>,
        done: impl FnOnce(Result<(), Error>) + 'static,
    ) -> Result<bool, Error> {
        self.state_mut().prepare_commit();
        match self.check_commit() {
            Ok(false) => {
                self.commit_nothing();
                Ok(false)
            }
            Err(error) => {
                self.end_commit(Err(error));
                Err(error)
            }
            Ok(true) => {
                let version = self.request_read_version(true);
                let attempt = self.state().attempt.clone();
                let watched = self.fail_watches_with(&attempt);
                let this = self.clone();
                let task =
                    self.context
                        .process
                        .start(Priority::DefaultPromiseEndpoint, async move {
                            let outcome = match version.wait().await {
                                Ok(version) => match this.may_send(version) {
                                    Ok(version) => this.send_commit(version).await,
                                    Err(error) => Err(error),
                                },
                                Err(error) => Err(error),
                            };
                            if let Some(watched) = watched {
                                attempt.remove(watched);
                            }
                            let outcome = outcome.map(|stamp| this.record_commit(stamp));
                            this.end_commit(outcome);
                            done(outcome);
                        });
                self.state_mut().native.committing = Some(task);
                Ok(true)
            }
        }
    }

    /// Makes the watches of a commit fail if its attempt ends before it does. FoundationDB before
    /// 8.0 leaves them pending.
    fn fail_watches_with(&self, attempt: &Attempt) -> Option<usize> {
        if !self.context.api_version_at_least(API_VERSION_8_0) {
            return None;
        }
        let watches = self.state().native.watches.clone();
        (!watches.is_empty()).then(|| attempt.add(Rc::new(Watches(watches))))
    }

    /// Whether a commit with this read version may be sent.
    fn may_send(&self, version: ReadVersion) -> Result<Version, Error> {
        let version = self.check_locked(version)?;
        self.check_tenant()?;
        Ok(version)
    }

    /// Whether there is anything to send, and whether it may be sent.
    fn check_commit(&self) -> Result<bool, Error> {
        let state = self.state();
        let commit = &state.native.commit;
        if commit.mutations.is_empty() && commit.write_conflict_ranges.is_empty() {
            return Ok(false);
        }
        if state.options.read_only {
            return Err(Error::TRANSACTION_READ_ONLY);
        }
        // Conflict ranges count since API version 300.
        let conflicts = if self.context.api_version_at_least(300) {
            conflict_bytes(commit)
        } else {
            0
        };
        if mutation_bytes(commit) + conflicts > state.options.size_limit {
            return Err(Error::TRANSACTION_TOO_LARGE);
        }
        Ok(true)
    }

    fn commit_nothing(self: &Rc<Self>) {
        let stamp = {
            let mut state = self.state_mut();
            state.committed_version = -1;
            state.native.versionstamp.clone()
        };
        stamp.set(Err(Error::NO_COMMIT_VERSION));
        self.end_commit(Ok(()));
    }

    /// Begins the watches of a transaction that has committed, or ends those of one that has not.
    fn end_commit(self: &Rc<Self>, outcome: Result<(), Error>) {
        let (pending, committed) = {
            let mut state = self.state_mut();
            (
                std::mem::take(&mut state.native.watches),
                state.committed_version,
            )
        };
        match outcome {
            Ok(()) if !pending.is_empty() => {
                let version = (committed > 0).then_some(committed);
                let read_version = version.is_none().then(|| self.request_read_version(false));
                watches::begin(&self.context, pending, version, read_version);
            }
            Ok(()) => {}
            Err(error) => {
                pending.iter().for_each(|watch| watch.fail(error));
                let stamp = self.state().native.versionstamp.clone();
                stamp.set(Err(Error::TRANSACTION_INVALID_VERSION));
            }
        }
        if !self.context.api_version_at_least(700) {
            // Older clients forget the read version and the conflict ranges with the commit.
            let mut native = self.drop_native();
            if let Some(task) = native.committing.take() {
                task.detach();
            }
        }
    }

    fn record_commit(&self, stamp: Versionstamp) {
        let promise = {
            let mut state = self.state_mut();
            state.committed_version = stamp.version;
            state.native.versionstamp.clone()
        };
        promise.set(Ok(stamp));
    }

    /// Sends the transaction and finds out what became of it.
    async fn send_commit(&self, read_snapshot: Version) -> Result<Versionstamp, Error> {
        let fated = self.state_mut().native.fated.take();
        let fate = match fated {
            Some(fated) => Box::pin(self.begin_fate(fated)).await,
            None => None,
        };
        let Outgoing {
            commit,
            common,
            id,
            read_ranges,
        } = self.outgoing(read_snapshot, fate);
        let context = &self.context;
        let reply = {
            let info = context.proxies().await;
            delivered(context.send_to_proxy(&info, commit).await)
        };
        if let Some(Fate::ReplyLate(seconds)) = fate {
            context.process.sleep(seconds).await;
        }
        match reply {
            Ok(Ok(CommitOutcome::Committed {
                stamp,
                metadata_version,
            })) => {
                context.remember_metadata_version(stamp.version, metadata_version);
                return Ok(stamp);
            }
            Ok(Ok(CommitOutcome::Conflict { conflicting_ranges })) => {
                self.note_conflict(&conflicting_ranges, read_ranges);
                return Err(Error::NOT_COMMITTED);
            }
            Ok(Err(error)) => return Err(error),
            Err(MaybeDelivered) => {}
        }
        if let Some(key) = common {
            Box::pin(context.commit_dummy(key)).await;
        }
        match id {
            None => Err(Error::COMMIT_UNKNOWN_RESULT),
            Some(id) => Box::pin(context.find_idempotency_id(read_snapshot, &id))
                .await?
                .ok_or(Error::TRANSACTION_TOO_OLD),
        }
    }

    /// Takes out what is sent. Apart from [`Inner::send_commit`], which would keep room for all of
    /// it until the end.
    fn outgoing(&self, read_snapshot: Version, fate: Option<Fate>) -> Outgoing {
        let mut state = self.state_mut();
        let State {
            native, options, ..
        } = &mut *state;
        let risky = options.causal_write_risky;
        let mut transaction = std::mem::take(&mut native.commit);
        transaction
            .read_conflict_ranges
            .append(&mut native.late_read_ranges);
        transaction.read_snapshot = read_snapshot;
        transaction.fate = fate.and_then(Fate::of_commit);
        transaction.truth = native.truth.take();
        if let Some(truth) = &transaction.truth {
            truth.note_sent(!transaction.read_conflict_ranges.is_empty());
        }
        transaction.lock_aware = options.lock_aware;
        transaction.report_conflicting_keys = options.report_conflicting_keys;
        let id = native.idempotency_id.clone();
        if let Some(id) = &id {
            transaction.conflict_with_itself(joined(SELF_CONFLICT_PREFIX, id));
        }
        let mut common = transaction.common_key();
        if !risky && common.is_none() {
            let id = [(); 2].map(|()| self.context.random.next_u64().to_be_bytes());
            let key = joined(SELF_CONFLICT_PREFIX, id.as_flattened());
            transaction.conflict_with_itself(key.clone());
            common = Some(key);
        }
        let settles = !risky || id.is_some();
        if let Some(CommitNote { tag, note }) = native.note.take() {
            transaction.tag = Some(tag);
            note(&transaction);
        }
        let reports = transaction.report_conflicting_keys;
        Outgoing {
            common: common.filter(|_| settles),
            read_ranges: reports.then(|| transaction.read_conflict_ranges.clone()),
            commit: Commit {
                transaction,
                first_in_batch: options.first_in_batch,
                idempotency_id: id.clone(),
            },
            id,
        }
    }

    /// Remembers which keys a commit conflicted on, if that was requested.
    fn note_conflict(&self, conflicting: &[u32], read_ranges: Option<Vec<KeyRange>>) {
        let mut keys = RangeSet::default();
        let read = read_ranges.unwrap_or_default();
        for range in conflicting
            .iter()
            .filter_map(|index| read.get(*index as usize))
        {
            keys.insert(range.begin.clone(), range.end.clone());
        }
        self.state_mut().conflicting_keys = keys.iter().collect();
    }
}

/// A commit as it is sent, and what is needed when its reply has come or was lost.
struct Outgoing {
    commit: Commit,
    /// The key by which its fate can be settled.
    common: Option<Key>,
    /// The idempotency id by which its fate can be found.
    id: Option<Bytes>,
    /// What it has read, if conflicts are to be reported.
    read_ranges: Option<Vec<KeyRange>>,
}

impl Inner {
    /// Does what must happen before a commit with this fate is sent. Returns what is left of it.
    async fn begin_fate(&self, fated: Rc<Fated>) -> Option<Fate> {
        let context = &self.context;
        match fated.fate {
            Fate::Conflict => {
                let read = {
                    let native = &self.state().native;
                    let first = native.commit.read_conflict_ranges.first();
                    let first = first.or(native.late_read_ranges.first());
                    first.map(|range| range.begin.clone())
                };
                if let Some(key) = read {
                    context.meet(&fated);
                    context.commit_dummy(key).await;
                }
                None
            }
            Fate::TooOld => {
                context.meet(&fated);
                let life = context.knobs().max_write_transaction_life_versions;
                context.outlive(life).await;
                None
            }
            Fate::RequestLate(seconds) => {
                context.meet(&fated);
                context.process.sleep(seconds).await;
                None
            }
            Fate::ReplyLate(_) | Fate::Commit(_) => {
                context.meet(&fated);
                Some(fated.fate)
            }
            Fate::Early | Fate::Cut(_) | Fate::Watch(_) | Fate::ServerDies => None,
        }
    }
}

impl State {
    /// Hands over everything that makes up the commit.
    fn prepare_commit(&mut self) {
        if self.options.read_your_writes_disabled {
            let Native {
                commit,
                late_read_ranges,
                ..
            } = &self.native;
            let reads = commit.read_conflict_ranges.iter().chain(late_read_ranges);
            self.committed_ranges = (
                reads.cloned().collect(),
                commit.write_conflict_ranges.clone(),
            );
            return;
        }
        if !self.writes.is_empty() {
            self.hand_over(&[], &ALL_END);
        }
        let Native { commit, .. } = &mut self.native;
        commit
            .read_conflict_ranges
            .extend(self.read_conflicts.ranges.iter());
    }
}

/// The watches of a transaction that is being committed.
struct Watches(Vec<Rc<Watch>>);

impl Fail for Watches {
    fn fail(&self, error: Error) {
        self.0.iter().for_each(|watch| watch.fail(error));
    }
}

/// The reply to a commit was lost.
struct MaybeDelivered;

/// How a commit that was sent has ended: with its reply, or because that was lost.
type Sent = First<Result<Result<CommitOutcome, Error>, Disconnected>, ()>;

fn delivered(sent: Sent) -> Result<Result<CommitOutcome, Error>, MaybeDelivered> {
    match sent {
        First::Left(Ok(reply)) => Ok(reply),
        First::Left(Err(Disconnected::Refused | Disconnected::MaybeDelivered))
        | First::Right(()) => Err(MaybeDelivered),
    }
}

impl Context {
    /// Sends a commit once, to one of the proxies that are known. It is sent to another proxy only
    /// if it certainly did not arrive.
    fn send_to_proxy(&self, info: &ClientDbInfo, commit: Commit) -> impl Future<Output = Sent> {
        let proxy = if self.buggify("client commits to the first proxy") {
            &info.commit_proxies[0]
        } else {
            self.pick(&info.commit_proxies)
        };
        let reply = self.process.request(&proxy.commit, commit);
        first_of(reply, self.proxies_change(info.generation))
    }
}

fn conflict_bytes(commit: &CommitTransaction) -> i64 {
    let ranges = commit
        .read_conflict_ranges
        .iter()
        .chain(&commit.write_conflict_ranges);
    ranges
        .map(|range| (range.begin.len() + range.end.len()) as i64 + RANGE_BYTES)
        .sum()
}

fn mutation_bytes(commit: &CommitTransaction) -> i64 {
    let mutations = commit.mutations.iter();
    mutations
        .map(|m| (m.param1.len() + m.param2.len()) as i64 + MUTATION_BYTES)
        .sum()
}
