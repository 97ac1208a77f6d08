//! Everything a transaction knows.
//!
//! Two lifetimes are kept apart, as in FoundationDB: what a retry loses, and what it keeps.
//! `on_error` and `reset` recreate the first part; the second ([`State::retries`], the backoff, the
//! committed version, the keys of the last conflict) outlives `on_error`, and some of it outlives
//! `reset` too.

use super::attempt::Attempt;
use super::stamp::Stamp;
use crate::client::conflicts::ReadConflicts;
use crate::client::database::Context;
use crate::client::fate::Fated;
use crate::client::options::OptionValue;
use crate::client::pending::Shared;
use crate::client::snapshot_cache::SnapshotCache;
use crate::client::watches::Watch;
use crate::client::write_map::WriteMap;
use crate::data::key::{ALL_END, NORMAL_END};
use crate::error::Error;
use crate::proto::{CommitTransaction, Key, KeyRange, ReadVersion, TransactionPriority, Version};
use crate::truth::CommitTruth;
use bytes::Bytes;
use shaketable_kernel::{Job, Time};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// The state of a transaction.
#[derive(Debug)]
pub(crate) struct State {
    // Recreated by every retry.
    pub(crate) attempt: Rc<Attempt>,
    pub(crate) writes: WriteMap,
    pub(crate) cache: SnapshotCache,
    pub(crate) read_conflicts: ReadConflicts,
    /// What the writes add to the approximate size.
    pub(crate) write_bytes: i64,
    pub(crate) commit_started: bool,
    pub(crate) deferred_error: Option<Error>,
    pub(crate) options: Options,
    pub(crate) timeout: Option<Job>,
    pub(crate) watches: BTreeMap<Key, Vec<Rc<Watch>>>,
    /// Versionstamped keys as they were written.
    pub(crate) stamped_keys: Vec<Key>,
    /// Conflict ranges of a commit without read-your-writes, kept to be read afterwards.
    pub(crate) committed_ranges: (Vec<KeyRange>, Vec<KeyRange>),
    pub(crate) native: Native,
    /// What becomes of the next operation, if that is decided.
    pub(crate) fated: Option<Rc<Fated>>,

    // Kept by a retry, recreated by `reset`.
    pub(crate) retries: i32,
    pub(crate) created: Time,
    pub(crate) backoff: f64,
    pub(crate) persistent_options: Vec<(i32, OptionValue)>,

    // Kept by both.
    pub(crate) committed_version: Version,
    pub(crate) conflicting_keys: Vec<KeyRange>,
}

/// The part that makes up a commit.
#[derive(Debug)]
pub(crate) struct Native {
    pub(crate) read_version: Option<Shared<ReadVersion>>,
    /// Whether the read version comes from a proxy, with the metadata version beside it.
    pub(crate) is_given_version: bool,
    pub(crate) commit: CommitTransaction,
    /// Read conflict ranges that were known only when their reads ended. They do not count towards
    /// the size.
    pub(crate) late_read_ranges: Vec<KeyRange>,
    pub(crate) idempotency_id: Option<Bytes>,
    pub(crate) versionstamp: Stamp,
    /// Watches that begin when the commit succeeds.
    pub(crate) watches: Vec<Rc<Watch>>,
    pub(crate) committing: Option<Job>,
    pub(crate) total_cost: i64,
    pub(crate) note: Option<CommitNote>,
    /// What becomes of the commit, if that is decided.
    pub(crate) fated: Option<Rc<Fated>>,
    /// Where to note what becomes of the commit.
    pub(crate) truth: Option<CommitTruth>,
}

/// What a recorder wants to know of a commit: called with what is sent, which gets the tag.
pub(crate) struct CommitNote {
    pub(crate) tag: u64,
    pub(crate) note: Box<dyn FnOnce(&CommitTransaction)>,
}

impl fmt::Debug for CommitNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommitNote({})", self.tag)
    }
}

/// The transaction's options.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) causal_write_risky: bool,
    pub(crate) causal_read_risky: bool,
    pub(crate) include_port: bool,
    pub(crate) next_write_no_conflict: bool,
    pub(crate) read_your_writes_disabled: bool,
    pub(crate) priority: TransactionPriority,
    pub(crate) read_system_keys: bool,
    pub(crate) write_system_keys: bool,
    pub(crate) raw_access: bool,
    pub(crate) has_identifier: bool,
    pub(crate) timeout_seconds: f64,
    pub(crate) retry_limit: i32,
    pub(crate) max_backoff: f64,
    pub(crate) size_limit: i64,
    pub(crate) snapshot_ryw: i32,
    pub(crate) lock_aware: bool,
    pub(crate) read_only: bool,
    pub(crate) commit_protection_disabled: bool,
    pub(crate) first_in_batch: bool,
    pub(crate) report_conflicting_keys: bool,
    pub(crate) special_relaxed: bool,
    pub(crate) special_writes: bool,
    pub(crate) tags: Vec<Bytes>,
    pub(crate) bypass_unreadable: bool,
}

impl State {
    // Inlined, as what it calls, so that a state is made where it stays.
    #[inline(always)]
    pub(crate) fn new(context: &Context) -> State {
        State {
            attempt: Rc::default(),
            writes: context.no_writes.clone(),
            cache: context.nothing_known.clone(),
            read_conflicts: ReadConflicts::default(),
            write_bytes: 0,
            commit_started: false,
            deferred_error: None,
            options: Options::new(context),
            timeout: None,
            fated: None,
            watches: BTreeMap::new(),
            stamped_keys: Vec::new(),
            committed_ranges: Default::default(),
            native: Native::new(),
            retries: 0,
            created: context.process.now(),
            backoff: context.knobs().default_backoff,
            persistent_options: context.defaults.borrow().clone(),
            committed_version: -1,
            conflicting_keys: Vec::new(),
        }
    }

    /// First key beyond those that may be read.
    pub(crate) fn max_read_key(&self) -> Key {
        if self.options.read_system_keys {
            ALL_END
        } else {
            NORMAL_END
        }
    }

    /// First key beyond those that may be written.
    pub(crate) fn max_write_key(&self) -> Key {
        if self.options.write_system_keys {
            ALL_END
        } else {
            NORMAL_END
        }
    }

    pub(crate) fn approximate_size(&self) -> i64 {
        self.write_bytes + self.read_conflicts.bytes
    }
}

impl Native {
    #[inline(always)]
    pub(crate) fn new() -> Native {
        Native {
            read_version: None,
            is_given_version: true,
            commit: CommitTransaction::default(),
            late_read_ranges: Vec::new(),
            idempotency_id: None,
            versionstamp: Stamp::default(),
            watches: Vec::new(),
            committing: None,
            total_cost: 0,
            note: None,
            fated: None,
            truth: None,
        }
    }
}

impl Options {
    #[inline(always)]
    pub(crate) fn new(context: &Context) -> Options {
        Options {
            causal_write_risky: false,
            causal_read_risky: false,
            include_port: context.api_version_at_least(630),
            next_write_no_conflict: false,
            read_your_writes_disabled: false,
            priority: TransactionPriority::Default,
            read_system_keys: false,
            write_system_keys: false,
            raw_access: false,
            has_identifier: false,
            timeout_seconds: 0.0,
            retry_limit: -1,
            max_backoff: context.knobs().default_max_backoff,
            size_limit: SIZE_LIMIT,
            snapshot_ryw: context.snapshot_ryw.get(),
            lock_aware: false,
            read_only: false,
            commit_protection_disabled: false,
            first_in_batch: false,
            report_conflicting_keys: false,
            special_relaxed: false,
            special_writes: false,
            tags: Vec::new(),
            bypass_unreadable: false,
        }
    }

    /// Whether the next write adds a conflict range. Applies to one write only: the call resets it.
    pub(crate) fn take_write_conflict(&mut self) -> bool {
        !std::mem::take(&mut self.next_write_no_conflict)
    }
}

/// The default size limit of a transaction, in bytes.
const SIZE_LIMIT: i64 = 10_000_000;
