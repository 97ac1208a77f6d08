//! The read of one key.
//!
//! It has two halves: the first looks at what the transaction has written and has read before,
//! without waiting; the second, if it is needed, asks the database. A watch begins with the same
//! read.

use super::Layer;
use crate::client::operations::OperationStack;
use crate::client::overlay::{Overlay, Segment};
use crate::client::transaction::Inner;
use crate::data::key::{METADATA_VERSION, key_after};
use crate::error::Error;
use crate::proto::{Key, KeyRange, Value};
use bytes::Bytes;

/// A read of one key that has to ask the database.
pub(crate) struct Get {
    key: Key,
    /// Operations of this transaction that wait for the value.
    stack: Option<OperationStack>,
    conflict: bool,
    /// Whether the answer goes into the snapshot cache.
    cached: bool,
}

impl Inner {
    /// Reads a key as far as it is known. Returns its value, or what is left to do.
    pub(crate) fn begin_get(
        &self,
        key: Key,
        snapshot: bool,
    ) -> Result<Result<Option<Value>, Error>, Get> {
        let layer = self.layer(snapshot);
        let mut state = self.state_mut();
        let state = &mut *state;
        if layer == Layer::Database {
            if !snapshot {
                let range = KeyRange {
                    begin: key.clone(),
                    end: key_after(&key),
                };
                state.native.commit.read_conflict_ranges.push(range);
            }
            return Err(Get {
                key,
                stack: None,
                conflict: false,
                cached: false,
            });
        }
        let writes = if layer == Layer::Overlay {
            &state.writes
        } else {
            &self.context.no_writes
        };
        let bypass_unreadable = state.options.bypass_unreadable;
        let cursor = Overlay {
            cache: &state.cache,
            writes,
            bypass_unreadable,
        }
        .cursor(&key);
        let value = match cursor.segment() {
            Err(error) => Err(error),
            Ok(Segment::Row) => cursor.value(),
            Ok(Segment::EmptyRange) => Ok(None),
            Ok(Segment::UnknownRange) => {
                let conflict = !snapshot && cursor.writes().reads_database();
                let stack = cursor.writes().operations().cloned();
                return Err(Get {
                    key,
                    stack,
                    conflict,
                    cached: true,
                });
            }
        };
        if value.is_ok() && !snapshot {
            state.read_conflicts.add_key(&key, cursor.writes());
        }
        Ok(value)
    }

    pub(crate) async fn finish_get(&self, get: &Get) -> Result<Option<Value>, Error> {
        let value = self.get_from_database(&get.key).await?;
        if get.cached {
            let mut state = self.state_mut();
            state.cache.insert_value(get.key.clone(), value.clone());
            if get.conflict {
                state.read_conflicts.add_read_key(&get.key);
            }
        }
        match &get.stack {
            Some(stack) => stack.fold_over(value.as_ref()),
            None => Ok(value),
        }
    }

    /// The value of a key in the database. The metadata version comes with the read version.
    async fn get_from_database(&self, key: &Key) -> Result<Option<Value>, Error> {
        let version = self.read_version().await?;
        if *key == METADATA_VERSION {
            let given = {
                let state = self.state();
                let reply = state.native.read_version.as_ref().and_then(|v| v.peek());
                reply
                    .filter(|_| state.native.is_given_version)
                    .and_then(Result::ok)
            };
            if let Some(reply) = given {
                return Ok(reply.metadata_version);
            }
            if let Some(known) = self.context.metadata_version(version) {
                return Ok(known);
            }
        }
        let bytes = key.len();
        let value = self.context.get_value(key, version).await?;
        self.add_read_cost(bytes + value.as_ref().map_or(0, Bytes::len));
        Ok(value)
    }
}
