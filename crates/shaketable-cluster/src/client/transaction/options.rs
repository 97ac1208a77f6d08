//! What the options of a transaction do to it.

use super::{Inner, Transaction};
use crate::client::options::{OptionValue, Scope, TAGS_MAX, TransactionOption, find_in_any};
use crate::client::pending::Shared;
use crate::error::Error;
use crate::proto::{ReadVersion, TransactionPriority};
use bytes::Bytes;
use shaketable_kernel::Priority;

const TIMEOUT: i32 = 500;

impl Transaction {
    /// Sets an option whose code the caller has checked. A bad value is deferred.
    pub fn set_option(&self, code: i32, value: Option<&[u8]>) {
        let value = value.map(Bytes::copy_from_slice);
        self.inner().defer(|inner| {
            inner.apply_option(code, &value)?;
            if find_in_any(Scope::Transaction, code)?.persistent {
                inner.state_mut().persistent_options.push((code, value));
            }
            Ok(())
        });
    }
}

impl Inner {
    /// Applies the persistent options of the database and of earlier attempts. A bad default
    /// becomes the first error of the transaction.
    pub(super) fn apply_persistent_options(&self) {
        if self.state().persistent_options.is_empty() {
            return;
        }
        let options = self.state().persistent_options.clone();
        // A timeout can end the transaction at once, so only the last one counts, and it is applied
        // last.
        let timeout = options.iter().rev().find(|(code, _)| *code == TIMEOUT);
        let others = options.iter().filter(|(code, _)| *code != TIMEOUT);
        for (code, value) in others.chain(timeout) {
            if let Err(error) = self.apply_option(*code, value) {
                self.state_mut().deferred_error.get_or_insert(error);
            }
        }
    }

    fn apply_option(&self, code: i32, value: &OptionValue) -> Result<(), Error> {
        use TransactionOption as T;
        let option = TransactionOption::parse(code, value)?;
        if let T::Timeout(milliseconds) = option {
            self.state_mut().options.timeout_seconds = f64::from(milliseconds) / 1000.0;
            self.restart_timeout();
            return Ok(());
        }
        if self.is_in_tenant
            && matches!(
                option,
                T::AccessSystemKeys | T::ReadSystemKeys | T::RawAccess
            )
        {
            return Err(Error::INVALID_OPTION);
        }
        let mut state = self.state_mut();
        let state = &mut *state;
        let options = &mut state.options;
        match option {
            T::CausalWriteRisky => options.causal_write_risky = true,
            T::CausalReadRisky => options.causal_read_risky = true,
            T::IncludePortInAddress => options.include_port = true,
            T::NextWriteNoWriteConflictRange => options.next_write_no_conflict = true,
            T::ReadYourWritesDisable => {
                let is_used =
                    state.attempt.has_read() || !state.cache.is_empty() || !state.writes.is_empty();
                if is_used {
                    return Err(Error::CLIENT_INVALID_OPERATION);
                }
                options.read_your_writes_disabled = true;
            }
            T::PrioritySystemImmediate => options.priority = TransactionPriority::Immediate,
            T::PriorityBatch => options.priority = TransactionPriority::Batch,
            T::InitializeNewDatabase => {
                if state.native.read_version.is_some() {
                    return Err(Error::READ_VERSION_ALREADY_SET);
                }
                let version = ReadVersion {
                    version: 0,
                    locked: false,
                    metadata_version: None,
                };
                state.native.read_version = Some(Shared::ready(Ok(version)));
                state.native.is_given_version = false;
                options.causal_write_risky = true;
            }
            T::AccessSystemKeys => {
                options.read_system_keys = true;
                options.write_system_keys = true;
                options.raw_access = true;
            }
            T::ReadSystemKeys => {
                options.read_system_keys = true;
                options.raw_access = true;
            }
            T::RawAccess => options.raw_access = true,
            T::TransactionLoggingEnable(_) | T::DebugTransactionIdentifier(_) => {
                options.has_identifier = true;
            }
            T::LogTransaction => {
                if !options.has_identifier {
                    return Err(Error::CLIENT_INVALID_OPERATION);
                }
            }
            T::RetryLimit(limit) => options.retry_limit = limit,
            T::MaxRetryDelay(milliseconds) => {
                options.max_backoff = f64::from(milliseconds) / 1000.0;
            }
            T::SizeLimit(limit) => options.size_limit = limit,
            T::IdempotencyId(id) => state.native.idempotency_id = Some(id),
            T::AutomaticIdempotency => {
                let random = &self.context.random;
                let id = [
                    random.next_u64().to_le_bytes(),
                    random.next_u64().to_le_bytes(),
                ];
                state
                    .native
                    .idempotency_id
                    .get_or_insert(Bytes::from(id.concat()));
            }
            T::SnapshotRywEnable => options.snapshot_ryw += 1,
            T::SnapshotRywDisable => options.snapshot_ryw -= 1,
            T::LockAware => {
                options.lock_aware = true;
                options.read_only = false;
            }
            T::ReadLockAware => {
                options.read_only |= !options.lock_aware;
                options.lock_aware = true;
            }
            T::UsedDuringCommitProtectionDisable => options.commit_protection_disabled = true,
            T::FirstInBatch => options.first_in_batch = true,
            T::ReportConflictingKeys => options.report_conflicting_keys = true,
            T::SpecialKeySpaceRelaxed => options.special_relaxed = true,
            T::SpecialKeySpaceEnableWrites => options.special_writes = true,
            T::Tag(tag) | T::AutoThrottleTag(tag) => {
                if !options.tags.contains(&tag) {
                    if options.tags.len() >= TAGS_MAX {
                        return Err(Error::TOO_MANY_TAGS);
                    }
                    options.tags.push(tag);
                }
            }
            T::BypassUnreadable => options.bypass_unreadable = true,
            T::UseGrvCache => {
                // Where it is accepted, each read version is still asked for: a fresh one is as
                // good as a cached one.
                if self.context.api_version_at_least(720) && !self.context.has_shared_state {
                    return Err(Error::INVALID_OPTION);
                }
            }
            T::Timeout(_) | T::Accepted => {}
        }
        Ok(())
    }

    /// Starts the timeout's clock, which runs from the creation of the transaction or its last
    /// reset.
    fn restart_timeout(&self) {
        let (deadline, attempt) = {
            let mut state = self.state_mut();
            state.timeout = None;
            if state.options.timeout_seconds == 0.0 {
                return;
            }
            (
                state.created.after(state.options.timeout_seconds),
                state.attempt.clone(),
            )
        };
        if deadline <= self.context.process.now() {
            attempt.end(Error::TRANSACTION_TIMED_OUT);
            return;
        }
        let sleep = self.context.process.sleep_until(deadline);
        let task = self
            .context
            .process
            .start(Priority::DefaultDelay, async move {
                sleep.await;
                attempt.end(Error::TRANSACTION_TIMED_OUT);
            });
        self.state_mut().timeout = Some(task);
    }
}
