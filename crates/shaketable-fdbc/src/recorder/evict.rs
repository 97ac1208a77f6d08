//! What goes when there is too much.
//!
//! The last things before a failure matter most, so the oldest attempts go first, whole: half an
//! attempt would tell a wrong story. Only an attempt that is too much by itself loses its first
//! operations. What went is counted, so a record says what it leaves out.

use super::keep::commit_bytes;
use super::{KeptAttempt, KeptOperation, Recorder};

/// About what an operation takes beside its keys and values.
pub(super) const OPERATION_BYTES: usize = size_of::<KeptOperation>();
/// About what an attempt takes beside its operations.
pub(super) const ATTEMPT_BYTES: usize = size_of::<KeptAttempt>();

impl Recorder {
    /// Lets the oldest go when there is too much.
    pub(super) fn evict(&mut self) {
        while self.attempts.len() > self.settings.attempts_max
            || self.operations > self.settings.operations_max
            || self.bytes > self.settings.bytes_max
        {
            if self.attempts.len() > 1 {
                self.evict_attempt();
            } else if !self.evict_operation() {
                return;
            }
        }
    }

    pub(super) fn evict_attempt(&mut self) {
        let Some(gone) = self.attempts.pop_front() else {
            return;
        };
        self.first += 1;
        self.left_out.attempts += 1;
        self.left_out.operations += gone.operations.len() as u64;
        self.operations -= gone.operations.len();
        let bytes: usize = gone.operations.iter().map(|one| one.bytes).sum();
        let commit = gone.commit.map_or(0, |commit| commit_bytes(&commit.commit));
        self.bytes = self.bytes.saturating_sub(bytes + commit + ATTEMPT_BYTES);
    }

    /// Lets the oldest operation of the only attempt go. Returns whether there is one.
    fn evict_operation(&mut self) -> bool {
        let Some(only) = self.attempts.front_mut() else {
            return false;
        };
        if only.operations.len() < 2 {
            return false;
        }
        let Some(gone) = only.operations.pop_front() else {
            return false;
        };
        only.operations_left_out += 1;
        self.left_out.operations += 1;
        self.operations -= 1;
        self.bytes = self.bytes.saturating_sub(gone.bytes);
        true
    }
}
