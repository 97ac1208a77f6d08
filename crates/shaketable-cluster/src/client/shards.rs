//! Range reads over as many shards as they need.
//!
//! A read asks the shard where it begins, with its selectors as they are; usually that is the only
//! one. Where a range continues in the next shard, the read continues there. Where the shard cannot
//! resolve a selector, both selectors are resolved first and the range between them is read.

use super::RangeLimits;
use super::database::Context;
use super::limits::REPLY_BYTES_MAX;
use super::range_read::RangeResult;
use super::reads::Failure;
use crate::data::key::{ALL_END, key_after};
use crate::error::Error;
use crate::proto::{
    GetKeyValues, GetMappedKeyValues, Key, KeyRange, KeySelector, KeyValue, MappedKeyValue,
    MappedKeyValues, ShardLocation, Version,
};
use bytes::Bytes;

impl Context {
    /// The rows between two selectors without `or_equal`.
    pub(crate) async fn get_rows(
        &self,
        begin: KeySelector,
        end: KeySelector,
        limits: RangeLimits,
        reverse: bool,
        version: Version,
    ) -> Result<RangeResult, Error> {
        let read = ShardedRead {
            begin,
            end,
            limits,
            reverse,
            version,
        };
        let ask = async |shard: &ShardLocation, question: &Question| {
            self.ask(
                shard,
                |server| &server.get_key_values,
                || question.to_request(self.is_early()),
            )
            .await
            .map(|reply| (reply.rows, reply.more))
        };
        let result = self.read_shards(read, ask).await?;
        let mut result = RangeResult {
            rows: result.rows,
            more: result.more,
            read_to_begin: result.read_to_begin,
            read_through_end: result.read_through_end,
            read_through: result.read_through,
        };
        let min_rows = limits.min_rows.max(1) as usize;
        let rows = result.rows.len();
        if limits.bytes.is_some()
            && rows > min_rows
            && let Some(left) = self.shorten(min_rows, rows)
        {
            result.rows.truncate(left);
            result.more = true;
            result.read_through = None;
            // What was not read is not known: neither the end nor, for a reverse read, the
            // beginning.
            result.read_through_end &= reverse;
            result.read_to_begin &= !reverse;
        }
        Ok(result)
    }

    /// How many rows of a range read are returned, if not all that were read.
    fn shorten(&self, min_rows: usize, rows: usize) -> Option<usize> {
        if let Some(left) = self.rows_left(rows, min_rows) {
            return Some(left);
        }
        self.buggify("client shortens a range read")
            .then(|| self.random.range(min_rows, rows))
    }

    /// Returns the rows between two selectors, each with the range that `mapper` makes of it.
    pub(crate) async fn get_mapped_rows(
        &self,
        begin: KeySelector,
        end: KeySelector,
        mapper: Bytes,
        limits: RangeLimits,
        reverse: bool,
        version: Version,
    ) -> Result<(MappedKeyValues, RangeResult), Error> {
        let read = ShardedRead {
            begin,
            end,
            limits,
            reverse,
            version,
        };
        let ask = async |shard: &ShardLocation, question: &Question| {
            let request = || GetMappedKeyValues {
                primary: question.to_request(self.is_early()),
                mapper: mapper.clone(),
            };
            self.ask(shard, |server| &server.get_mapped_key_values, request)
                .await
                .map(|reply| (reply.rows, reply.more))
        };
        let result = self.read_shards(read, ask).await?;
        let summary = RangeResult {
            rows: result
                .rows
                .iter()
                .map(|mapped: &MappedKeyValue| mapped.row.clone())
                .collect(),
            more: result.more,
            read_to_begin: result.read_to_begin,
            read_through_end: result.read_through_end,
            read_through: result.read_through,
        };
        Ok((
            MappedKeyValues {
                rows: result.rows,
                more: result.more,
            },
            summary,
        ))
    }

    /// A range read over as many shards as it needs, for either kind of row.
    async fn read_shards<R: Row>(
        &self,
        read: ShardedRead,
        ask: impl AsyncFn(&ShardLocation, &Question) -> Result<(Vec<R>, bool), Failure>,
    ) -> Result<Sharded<R>, Error> {
        self.validate_version(read.version)?;
        let ShardedRead {
            mut begin,
            mut end,
            mut limits,
            reverse,
            version,
        } = read.clone();
        let mut output = Sharded::new();
        if begin.key.is_empty() && begin.offset < 1 {
            output.read_to_begin = true;
            begin = KeySelector::first_greater_or_equal(begin.key);
        }
        loop {
            if end.key.is_empty() && (end.offset < 1 || end.is_first_greater_or_equal()) {
                return Ok(output);
            }
            let shard = if reverse {
                self.locate(&end.key, end.offset <= 1).await?
            } else {
                self.locate(&begin.key, begin.is_backward()).await?
            };
            let range = &shard.range;
            let mut clipped = false;
            let mut question = Question::new(&begin, &end, &limits, reverse, version);
            // A begin that lies before the shard on the whole, except where clipping would change
            // nothing.
            let before = KeySelector {
                offset: begin.offset - 1,
                ..begin.clone()
            };
            if reverse
                && before.is_definitely_less(&range.begin)
                && !(begin.is_first_greater_or_equal() && begin.key == range.begin)
            {
                question.begin = KeySelector::first_greater_or_equal(range.begin.clone());
                clipped = true;
            }
            if !reverse && end.is_definitely_greater(&range.end) {
                question.end = KeySelector::first_greater_or_equal(range.end.clone());
                clipped = true;
            }
            let (rows, more) = match ask(&shard, &question).await {
                Ok(reply) => reply,
                Err(Failure::Code(error)) => return Err(error),
                Err(Failure::Moved) => {
                    self.forget_location(&shard);
                    return Box::pin(self.read_resolved(read, ask)).await;
                }
            };
            rows.iter().for_each(|row| limits.decrement(row.row()));
            let edge = if reverse {
                range.begin.clone()
            } else {
                range.end.clone()
            };
            let finished =
                limits.is_reached() || (!clipped && !more) || limits.has_satisfied_min_rows();
            let is_empty = rows.is_empty();
            output.rows.extend(rows);
            if finished {
                output.more = clipped || limits.is_reached() || more;
                if clipped && !more {
                    output.read_through = Some(edge);
                }
                return Ok(output);
            }
            let next = match output.rows.last() {
                Some(last) if more && reverse => last.row().key.clone(),
                Some(last) if more => key_after(&last.row().key),
                _ if is_empty => return Box::pin(self.read_resolved(read, ask)).await,
                _ => edge,
            };
            *if reverse { &mut end } else { &mut begin } =
                KeySelector::first_greater_or_equal(next);
        }
    }

    /// The same, when the shard that was asked first cannot resolve the selectors.
    async fn read_resolved<R: Row>(
        &self,
        read: ShardedRead,
        ask: impl AsyncFn(&ShardLocation, &Question) -> Result<(Vec<R>, bool), Failure>,
    ) -> Result<Sharded<R>, Error> {
        let ShardedRead {
            begin,
            end,
            mut limits,
            reverse,
            version,
        } = read;
        let mut output = Sharded::new();
        let first = self.resolve_for_range(begin, version).await?;
        let last = self.resolve_for_range(end, version).await?;
        let (mut from, mut to) = (first.clone(), last.clone());
        while from < to {
            let shard = if reverse {
                self.locate(&to, true).await?
            } else {
                self.locate(&from, false).await?
            };
            let part = KeyRange {
                begin: shard.range.begin.clone().max(from.clone()),
                end: shard.range.end.clone().min(to.clone()),
            };
            let question = Question::new(
                &KeySelector::first_greater_or_equal(part.begin.clone()),
                &KeySelector::first_greater_or_equal(part.end.clone()),
                &limits,
                reverse,
                version,
            );
            let (rows, mut more) = match ask(&shard, &question).await {
                Ok(reply) => reply,
                Err(failure) => {
                    Box::pin(self.relocate(&shard, failure)).await?;
                    continue;
                }
            };
            rows.iter().for_each(|row| limits.decrement(row.row()));
            output.rows.extend(rows);
            if limits.is_reached() {
                output.more = true;
                break;
            }
            let last_key = output.rows.last().map(|row| row.row().key.clone());
            if reverse && last_key.as_ref() == Some(&part.begin) {
                more = false;
            }
            match last_key {
                Some(key) if more && reverse => to = key,
                Some(key) if more => from = key_after(&key),
                _ if reverse => to = part.begin,
                _ => from = part.end,
            }
            if from < to && limits.has_satisfied_min_rows() && !output.rows.is_empty() {
                output.more = true;
                break;
            }
        }
        if first < last {
            output.read_to_begin = first.is_empty() && (!reverse || !output.more);
            output.read_through_end = last == ALL_END && (reverse || !output.more);
        }
        Ok(output)
    }

    async fn resolve_for_range(
        &self,
        selector: KeySelector,
        version: Version,
    ) -> Result<Key, Error> {
        if selector.is_first_greater_or_equal() {
            return Ok(selector.key);
        }
        self.resolve_selector(selector, version).await
    }
}

/// What a range read over shards asks for.
#[derive(Clone)]
struct ShardedRead {
    begin: KeySelector,
    end: KeySelector,
    limits: RangeLimits,
    reverse: bool,
    version: Version,
}

/// What one shard is asked.
struct Question {
    begin: KeySelector,
    end: KeySelector,
    limit: i32,
    limit_bytes: i32,
    reverse: bool,
    version: Version,
}

impl Question {
    fn new(
        begin: &KeySelector,
        end: &KeySelector,
        limits: &RangeLimits,
        reverse: bool,
        version: Version,
    ) -> Question {
        let (limit, limit_bytes) = match limits.bytes {
            // The bytes are used up, but not the minimum number of rows.
            Some(0) => (limits.min_rows, REPLY_BYTES_MAX),
            bytes => (
                limits.rows.unwrap_or(REPLY_BYTES_MAX).min(REPLY_BYTES_MAX),
                bytes.unwrap_or(REPLY_BYTES_MAX).min(REPLY_BYTES_MAX),
            ),
        };
        let (begin, end) = (begin.clone(), end.clone());
        Question {
            begin,
            end,
            limit,
            limit_bytes,
            reverse,
            version,
        }
    }

    fn to_request(&self, is_early: bool) -> GetKeyValues {
        GetKeyValues {
            begin: self.begin.clone(),
            end: self.end.clone(),
            limit: self.limit as usize,
            limit_bytes: self.limit_bytes as usize,
            reverse: self.reverse,
            version: self.version,
            is_early,
        }
    }
}

/// The result of a range read over shards.
struct Sharded<R> {
    rows: Vec<R>,
    more: bool,
    read_to_begin: bool,
    read_through_end: bool,
    read_through: Option<Key>,
}

impl<R> Sharded<R> {
    fn new() -> Self {
        Sharded {
            rows: Vec::new(),
            more: false,
            read_to_begin: false,
            read_through_end: false,
            read_through: None,
        }
    }
}

/// A row of either kind of range read.
trait Row {
    fn row(&self) -> &KeyValue;
}

impl Row for KeyValue {
    fn row(&self) -> &KeyValue {
        self
    }
}

impl Row for MappedKeyValue {
    fn row(&self) -> &KeyValue {
        &self.row
    }
}
