//! Answering reads whose version is here.
//!
//! A read is answered only if the server holds the shard around its key and the version lies in the
//! window; the rows themselves come from `reads`, which knows nothing of shards.

use super::{Storage, StorageDisk, reads};
use crate::error::Error;
use crate::proto::{
    GetKey, GetKeyValues, GetValue, KeyRange, KeySelector, KeyValues, StorageError, Value, Version,
};
use bytes::Bytes;

impl Storage {
    pub(super) fn get_value(&self, request: &GetValue) -> Result<Option<Value>, StorageError> {
        let disk = self.disk.borrow();
        self.served(&disk, &request.key, request.version)?;
        Ok(disk
            .rows
            .get(&request.key, request.version)
            .map(Bytes::copy_from_slice))
    }

    pub(super) fn get_key(&self, request: &GetKey) -> Result<KeySelector, StorageError> {
        let disk = self.disk.borrow();
        let selector = &request.selector;
        // A walk backwards begins with the keys before the selector's.
        let around = if selector.offset <= 0 && !selector.or_equal {
            disk.last_key_before(&selector.key)
        } else {
            selector.key.clone()
        };
        let served = self.served(&disk, &around, request.version)?;
        Ok(reads::resolve(
            &disk.rows,
            selector,
            request.version,
            &served,
        ))
    }

    pub(super) fn get_key_values(&self, request: &GetKeyValues) -> Result<KeyValues, StorageError> {
        let disk = self.disk.borrow();
        let around = if request.reverse {
            disk.last_key_before(&request.end.key)
        } else {
            request.begin.key.clone()
        };
        let served = self.served(&disk, &around, request.version)?;
        let bound = |selector: &KeySelector| {
            reads::bound(&disk.rows, selector, request.version, &served)
                .ok_or(StorageError::WrongShardServer)
        };
        let (begin, end) = (bound(&request.begin)?, bound(&request.end)?);
        if begin < end && (begin < served.begin || end > served.end) {
            return Err(StorageError::WrongShardServer);
        }
        let mut limit_bytes = request.limit_bytes;
        if self
            .role
            .env()
            .buggify("storage server limits the bytes of a range read")
        {
            limit_bytes = limit_bytes.min(self.role.env().knobs().buggify_limit_bytes as usize);
        }
        Ok(reads::read(&disk.rows, &begin, &end, request, limit_bytes))
    }

    /// The range around a key that is served at a version.
    pub(super) fn served(
        &self,
        disk: &StorageDisk,
        key: &[u8],
        version: Version,
    ) -> Result<KeyRange, StorageError> {
        assert!(version <= disk.version, "a version is read once it is here");
        if version < self.oldest_readable(disk) {
            return Err(StorageError::Code(Error::TRANSACTION_TOO_OLD));
        }
        let (range, from) = disk
            .served_around(key)
            .ok_or(StorageError::WrongShardServer)?;
        if version < from {
            return Err(StorageError::Code(Error::TRANSACTION_TOO_OLD));
        }
        Ok(range)
    }

    /// The first version that can be read. A server moves its window when it writes to its disk,
    /// not with every version. While nothing is committed no version arrives, but time passes: a
    /// real cluster would commit empty batches, so the window moves as if it did.
    fn oldest_readable(&self, disk: &StorageDisk) -> Version {
        let env = self.role.env();
        let knobs = env.knobs();
        let since_applied = env.process().now().since(self.applied_at.get());
        let written = since_applied >= knobs.storage_commit_interval;
        // A batch under way would delay the empty ones too.
        let idle = env.quiet_seconds_since(self.applied_at.get());
        let interval = knobs.empty_batch_interval();
        let passed = (idle / interval).floor() * interval * knobs.versions_per_second as f64;
        let moved = if written || env.is_instant() {
            disk.version
        } else {
            self.window.get().0
        };
        let newest = moved + passed as Version;
        disk.rows
            .oldest()
            .max(newest - knobs.max_read_transaction_life_versions)
    }
}
