//! What the database says about shards, and the transactions that read and write it.
//!
//! Only one distributor may move shards. It writes its name into the database when it begins, and
//! every later transaction reads that row: if another name is there it fails, and if another
//! distributor takes over before the commit the two conflict.

use super::{Distributor, Interrupted};
use crate::client::{RangeLimits, Transaction};
use crate::data::key::ALL_END;
use crate::error::Error;
use crate::proto::{Key, KeyRange, KeySelector, KeyValue, Value, Version};
use crate::server::messages::Tag;
use crate::server::metadata::{
    KEY_SERVERS_PREFIX, SERVER_LIST_PREFIX, Team, server_list_key, server_list_tag,
};
use bytes::Bytes;
use std::cell::RefCell;

/// How many shards are read at once.
const ROWS_AT_ONCE: i32 = 10_000;

/// Where the distributor that may move shards has written its name.
const MOVE_KEYS_LOCK_OWNER: Key = Bytes::from_static(b"\xff/moveKeysLock/Owner");

const ACCESS_SYSTEM_KEYS: i32 = 301;
const PRIORITY_SYSTEM_IMMEDIATE: i32 = 200;
const LOCK_AWARE: i32 = 700;

/// A shard as the database describes it.
pub(super) struct Shard {
    pub(super) range: KeyRange,
    pub(super) team: Team,
}

impl Distributor {
    /// Makes this distributor the only one whose transactions commit.
    pub(super) async fn take_over(&self) -> Result<(), Interrupted> {
        let address = self.here.describe(self.here.id()).address;
        let name = Value::from(format!("{address} {}", self.here.now().as_secs()));
        self.commit(async |transaction| {
            transaction.set(MOVE_KEYS_LOCK_OWNER, name.clone());
            Ok(())
        })
        .await?;
        self.name.replace(Some(name));
        Ok(())
    }

    pub(super) async fn shards(&self) -> Result<Vec<Shard>, Interrupted> {
        let found = RefCell::new(Vec::new());
        self.transact(async |transaction| {
            *found.borrow_mut() = read_shards(transaction).await?;
            Ok(())
        })
        .await?;
        Ok(found.into_inner())
    }

    /// Runs a transaction as [`Distributor::commit`] does, and fails if another distributor has
    /// taken over.
    pub(super) async fn transact(
        &self,
        body: impl AsyncFn(&Transaction) -> Result<(), Error>,
    ) -> Result<Version, Interrupted> {
        let name = self.name.borrow().clone();
        let name = name.ok_or(Interrupted)?;
        self.commit(async |transaction| {
            let owner = transaction.get(MOVE_KEYS_LOCK_OWNER, false).await?;
            if owner.as_ref() != Some(&name) {
                self.name.replace(None); // the next repair takes over again
                return Err(Error::OPERATION_FAILED);
            }
            body(transaction).await
        })
        .await
    }

    /// Runs a transaction on system keys until it commits, or fails for good. Returns the version
    /// of the commit.
    async fn commit(
        &self,
        body: impl AsyncFn(&Transaction) -> Result<(), Error>,
    ) -> Result<Version, Interrupted> {
        let transaction = self.database.create_transaction();
        loop {
            for option in [ACCESS_SYSTEM_KEYS, PRIORITY_SYSTEM_IMMEDIATE, LOCK_AWARE] {
                transaction.set_option(option, None);
            }
            let result = match body(&transaction).await {
                Ok(()) => transaction.commit().await,
                Err(error) => Err(error),
            };
            match result {
                Ok(()) => return Ok(transaction.get_committed_version()),
                Err(error) => transaction.on_error(error).await?,
            }
        }
    }
}

pub(super) fn overlapping<'a>(
    shards: &'a [Shard],
    range: &'a KeyRange,
) -> impl Iterator<Item = &'a Shard> {
    shards
        .iter()
        .filter(|shard| shard.range.begin < range.end && range.begin < shard.range.end)
}

/// All rows of a range.
async fn read_rows(
    transaction: &Transaction,
    begin: Key,
    end: Key,
) -> Result<Vec<KeyValue>, Error> {
    let at = |key: Key| KeySelector {
        key,
        or_equal: false,
        offset: 1,
    };
    let mut begin = at(begin);
    let mut rows: Vec<KeyValue> = Vec::new();
    loop {
        let limits = RangeLimits::rows(ROWS_AT_ONCE);
        let part = transaction
            .get_range(begin, at(end.clone()), limits, false, false)
            .await?;
        rows.extend(part.rows);
        // A shard missing here would seem to belong to the one before it.
        let Some(last) = rows.last().filter(|_| part.more) else {
            return Ok(rows);
        };
        begin = KeySelector {
            or_equal: true,
            ..at(last.key.clone())
        };
    }
}

/// The storage servers on the list.
pub(super) async fn read_server_list(transaction: &Transaction) -> Result<Vec<Tag>, Error> {
    let begin = Bytes::from_static(SERVER_LIST_PREFIX);
    let end = server_list_key(Tag::MAX);
    let rows = read_rows(transaction, begin, end).await?;
    let tags = rows.iter().filter_map(|row| server_list_tag(&row.key));
    Ok(tags.collect())
}

pub(super) async fn read_shards(transaction: &Transaction) -> Result<Vec<Shard>, Error> {
    let begin = Bytes::from_static(KEY_SERVERS_PREFIX);
    let end: Key = [KEY_SERVERS_PREFIX, &ALL_END].concat().into();
    let rows = read_rows(transaction, begin, end).await?;
    let begins: Vec<Key> = rows
        .iter()
        .map(|row| row.key.slice(KEY_SERVERS_PREFIX.len()..))
        .collect();
    let ends = begins.iter().skip(1).cloned().chain([ALL_END]);
    let shards = begins.iter().cloned().zip(ends).zip(&rows);
    Ok(shards
        .filter_map(|((begin, end), row)| {
            Some(Shard {
                range: KeyRange { begin, end },
                team: Team::decode(&row.value)?,
            })
        })
        .collect())
}
