//! Mapped reads: a range read in which each row leads to another read, done where the rows are.

use super::{Answer, Storage};
use crate::data::key::KeyBound;
use crate::data::mapper::{
    self, Mapper, SECONDARY_BYTES_MAX, SECONDARY_READS_AT_ONCE, SECONDARY_ROWS_MAX,
};
use crate::error::Error;
use crate::proto::{
    GetKeyValues, GetMappedKeyValues, KeyRange, KeySelector, KeyValue, MappedKeyValue,
    MappedKeyValues, StorageError, Version,
};
use std::rc::Rc;

impl Storage {
    pub(super) fn start_mapped(
        self: &Rc<Self>,
        request: GetMappedKeyValues,
        reply: Answer<MappedKeyValues>,
    ) {
        let storage = self.clone();
        self.role
            .spawn(async move { reply.send(storage.get_mapped(request).await) });
    }

    async fn get_mapped(
        &self,
        request: GetMappedKeyValues,
    ) -> Result<MappedKeyValues, StorageError> {
        let mapper = Mapper::parse(&request.mapper).map_err(StorageError::Code)?;
        let limit_bytes = request.primary.limit_bytes;
        let version = request.primary.version;
        let primary = self.get_key_values(&GetKeyValues {
            limit_bytes: mapper::index_limit_bytes(limit_bytes).max(1),
            ..request.primary
        })?;
        let mut result = MappedKeyValues {
            rows: Vec::new(),
            more: primary.more,
        };
        let mut bytes = 0;
        let mut rows = primary.rows.into_iter().peekable();
        while rows.peek().is_some() {
            if bytes >= limit_bytes {
                result.more = true;
                break;
            }
            for row in rows.by_ref().take(SECONDARY_READS_AT_ONCE) {
                let mapped = mapper.map(&row).map_err(StorageError::Code)?;
                let range = if mapper.is_range() {
                    mapper::prefix_range(mapped).map_err(StorageError::Code)?
                } else {
                    KeyRange {
                        end: KeyBound::after(&mapped).to_key(),
                        begin: mapped,
                    }
                };
                let secondary = self.read_secondary(&range, version).await?;
                bytes += mapper::mapped_bytes(&row, &secondary);
                result.rows.push(MappedKeyValue {
                    row,
                    range,
                    rows: secondary,
                });
            }
        }
        if !mapper.is_range()
            && let [_, inner @ .., _] = &mut result.rows[..]
        {
            // For single lookups, only the rows at both ends carry the key they were found by.
            for mapped in inner {
                mapped.row = KeyValue {
                    key: bytes::Bytes::new(),
                    value: bytes::Bytes::new(),
                };
            }
        }
        Ok(result)
    }

    /// Reads the rows of a secondary range, here or from the servers that serve them.
    async fn read_secondary(
        &self,
        range: &KeyRange,
        version: Version,
    ) -> Result<Vec<KeyValue>, StorageError> {
        let at = |key: &bytes::Bytes| KeySelector {
            key: key.clone(),
            or_equal: false,
            offset: 1,
        };
        let mut rows: Vec<KeyValue> = Vec::new();
        let mut begin = range.begin.clone();
        while begin < range.end && rows.len() < SECONDARY_ROWS_MAX {
            let (serving, shard_end) = self.disk.borrow().serving(&begin);
            let end = shard_end.min(range.end.clone());
            let limit = SECONDARY_ROWS_MAX - rows.len();
            let request = GetKeyValues {
                begin: at(&begin),
                end: at(&end),
                limit,
                limit_bytes: SECONDARY_BYTES_MAX,
                reverse: false,
                version,
                is_early: false,
            };
            match self.get_key_values(&request) {
                Ok(part) => rows.extend(part.rows),
                Err(StorageError::WrongShardServer) => {
                    let part = KeyRange {
                        begin,
                        end: end.clone(),
                    };
                    let mut found = Err(StorageError::Code(Error::FUTURE_VERSION));
                    for source in self.interfaces(&serving) {
                        found = self.read_all(&source, &part, version, limit).await;
                        if found.is_ok() {
                            break;
                        }
                    }
                    let found = found?
                        .into_iter()
                        .map(|(key, value)| KeyValue { key, value });
                    rows.extend(found);
                }
                Err(error) => return Err(error),
            }
            begin = end;
        }
        Ok(rows)
    }
}
