//! Fetching: how a storage server gets a shard it has not held before.
//!
//! From the version of the change on, the server receives every mutation and keeps it. It then
//! reads the rows from the servers that serve the shard, at a version that no recovery can undo,
//! puts them on disk, and applies the mutations after that version on top.

use super::Storage;
use crate::error::Error;
use crate::proto::{
    GetKeyValues, Key, KeyRange, KeySelector, StorageError, StorageInterface, Version,
};
use crate::server::messages::Tag;
use bytes::Bytes;
use std::rc::Rc;

/// The bytes requested at once.
const FETCH_BYTES: usize = 1_000_000;

impl Storage {
    /// Starts a task for each fetch that has none.
    pub(super) fn start_fetches(self: &Rc<Self>) {
        let fetches = self.disk.borrow().fetches();
        for (fetch, range, _, since) in fetches {
            if self.fetches.borrow().contains(&fetch) {
                continue;
            }
            self.fetches.borrow_mut().push(fetch);
            let storage = self.clone();
            self.role
                .spawn(async move { storage.fetch(fetch, range, since).await });
        }
    }

    /// Answers data distribution where the shards it asked about are here by now.
    pub(super) fn answer_held(&self) {
        if self.held.borrow().is_empty() {
            return;
        }
        let disk = self.disk.borrow();
        let mut held = self.held.borrow_mut();
        let due = held.extract_if(.., |(request, _)| {
            disk.version >= request.after && disk.holds(&request.range)
        });
        for (_, reply) in due {
            reply.send(());
        }
    }

    async fn fetch(self: Rc<Self>, fetch: u64, range: KeyRange, since: Version) {
        let here = self.role.env().process().clone();
        loop {
            let advanced = self.advanced.notified();
            let safe = {
                let disk = self.disk.borrow();
                if !disk.fetches().iter().any(|(this, ..)| *this == fetch) {
                    break;
                }
                disk.known_committed.min(disk.version)
            };
            if safe < since {
                advanced.await;
                continue;
            }
            let (serving, _) = self.disk.borrow().serving(&range.begin);
            if let Some(rows) = self.fetch_rows(&serving, &range, safe).await {
                self.role.env().sync_disk(0.0).await;
                self.disk.borrow_mut().finish_fetch(fetch, safe, &rows);
                self.answer_held();
                break;
            }
            here.sleep(0.5).await;
        }
        self.fetches.borrow_mut().retain(|other| *other != fetch);
    }

    /// All rows of a range at a version, from the servers that have them.
    async fn fetch_rows(
        &self,
        serving: &[Tag],
        range: &KeyRange,
        version: Version,
    ) -> Option<Vec<(Key, Bytes)>> {
        for source in self.interfaces(serving) {
            if let Ok(rows) = self.read_all(&source, range, version, usize::MAX).await {
                return Some(rows);
            }
        }
        None
    }

    /// The interfaces of storage servers.
    pub(super) fn interfaces(&self, tags: &[Tag]) -> Vec<StorageInterface> {
        let Some(info) = self.info.get() else {
            return Vec::new();
        };
        let mut found: Vec<StorageInterface> = info
            .storages
            .iter()
            .filter(|storage| storage.id != self.tag && tags.contains(&storage.id))
            .cloned()
            .collect();
        if !found.is_empty() {
            // Different servers should ask different sources first.
            let first = self.tag as usize % found.len();
            found.rotate_left(first);
        }
        found
    }

    /// Reads all rows of a range, in several requests if necessary, but no more than the limit.
    pub(super) async fn read_all(
        &self,
        source: &StorageInterface,
        range: &KeyRange,
        version: Version,
        limit: usize,
    ) -> Result<Vec<(Key, Bytes)>, StorageError> {
        let mut rows = Vec::new();
        let at = |key: Key, or_equal| KeySelector {
            key,
            or_equal,
            offset: 1,
        };
        let mut begin = at(range.begin.clone(), false);
        loop {
            let request = GetKeyValues {
                begin: begin.clone(),
                end: at(range.end.clone(), false),
                limit: limit - rows.len(),
                limit_bytes: FETCH_BYTES,
                reverse: false,
                version,
                is_early: false,
            };
            let reply = self
                .role
                .env()
                .process()
                .request(&source.get_key_values, request)
                .await;
            // A lost server is treated like one that has not reached the version: try another.
            let part = reply.unwrap_or(Err(StorageError::Code(Error::FUTURE_VERSION)))?;
            if let Some(last) = part.rows.last() {
                begin = at(last.key.clone(), true);
            }
            let (more, empty) = (part.more, part.rows.is_empty());
            rows.extend(part.rows.into_iter().map(|row| (row.key, row.value)));
            if !more || empty || rows.len() >= limit {
                return Ok(rows);
            }
        }
    }
}
