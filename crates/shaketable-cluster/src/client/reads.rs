//! Reads of the database at a version: the layer that knows shards, replicas and retries, and
//! nothing about writes.
//!
//! A read asks one replica of the shard it needs; if that one cannot be reached, lags or is slow,
//! it asks the next one too. A shard that has moved is looked up again. An application sees none of
//! this, only values, and the codes 1007, 1009 and 1037 when no replica can serve the version.

use super::database::Context;
use super::load_balance::{End, Open, Order};
use crate::data::key::ALL_END;
use crate::error::Error;
use crate::proto::{
    GetKey, GetKeyValues, GetMappedKeyValues, GetSplitPoints, GetStorageMetrics, GetValue, Key,
    KeyRange, KeySelector, ShardLocation, StorageError, StorageInterface, Value, Version,
    WatchFate, WatchValue,
};
use bytes::Bytes;
use shaketable_kernel::{Disconnected, Endpoint, First, Request, Requesting, first_of};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Why a shard returned no answer.
pub(super) enum Failure {
    /// It is not there (any more), or none of its replicas answers: look it up again.
    Moved,
    /// An error that goes to the application.
    Code(Error),
}

impl Context {
    /// The value of a key.
    pub(crate) async fn get_value(
        &self,
        key: &Key,
        version: Version,
    ) -> Result<Option<Value>, Error> {
        self.validate_version(version)?;
        loop {
            let shard = self.locate(key, false).await?;
            let question = || GetValue {
                key: key.clone(),
                version,
                is_early: self.is_early(),
            };
            match self.ask(&shard, |server| &server.get_value, question).await {
                Ok(value) => return Ok(value),
                Err(failure) => Box::pin(self.relocate(&shard, failure)).await?,
            }
        }
    }

    /// The key a selector resolves to.
    pub(crate) async fn resolve_selector(
        &self,
        mut selector: KeySelector,
        version: Version,
    ) -> Result<Key, Error> {
        loop {
            if selector.key == ALL_END {
                if selector.offset > 0 {
                    return Ok(ALL_END);
                }
                selector.or_equal = false;
            } else if selector.key.is_empty() && selector.offset <= 0 {
                return Ok(Bytes::new());
            }
            let shard = self.locate(&selector.key, selector.is_backward()).await?;
            let question = || GetKey {
                selector: selector.clone(),
                version,
                is_early: self.is_early(),
            };
            match self.ask(&shard, |server| &server.get_key, question).await {
                Ok(KeySelector {
                    key,
                    or_equal: true,
                    offset: 0,
                }) => return Ok(key),
                Ok(rest) => selector = rest,
                Err(failure) => Box::pin(self.relocate(&shard, failure)).await?,
            }
        }
    }

    /// The sampled size of a range.
    pub(crate) async fn estimate_bytes(&self, range: KeyRange) -> Result<i64, Error> {
        let mut total = 0;
        let question = |range| GetStorageMetrics { range };
        self.ask_each_shard(
            range,
            |server| &server.get_metrics,
            question,
            |_, bytes| {
                total += bytes;
            },
        )
        .await?;
        Ok(total)
    }

    /// Keys that cut a range into chunks, including its ends.
    pub(crate) async fn split_points(
        &self,
        range: KeyRange,
        chunk_bytes: i64,
    ) -> Result<Vec<Key>, Error> {
        let mut points = vec![range.begin.clone()];
        let end = range.end.clone();
        let question = |range| GetSplitPoints { range, chunk_bytes };
        self.ask_each_shard(
            range,
            |server| &server.get_split_points,
            question,
            |begin, inner| {
                if points.last() != Some(&begin) {
                    points.push(begin);
                }
                points.extend(inner);
            },
        )
        .await?;
        if points.last() != Some(&end) {
            points.push(end);
        }
        Ok(points)
    }

    /// Asks about the part of a range in each shard, from the first to the last. `found` is called
    /// with the beginning of the part and the answer for it.
    async fn ask_each_shard<Q, T>(
        &self,
        range: KeyRange,
        endpoint: impl Fn(&StorageInterface) -> &Endpoint<Q>,
        question: impl Fn(KeyRange) -> Q,
        mut found: impl FnMut(Key, T),
    ) -> Result<(), Error>
    where
        Q: Request<Reply = Result<T, StorageError>> + About,
        T: 'static,
    {
        let mut begin = range.begin;
        while begin < range.end {
            let shard = self.locate(&begin, false).await?;
            let end = shard.range.end.clone().min(range.end.clone());
            let part = KeyRange {
                begin: begin.clone(),
                end: end.clone(),
            };
            match self.ask(&shard, &endpoint, || question(part.clone())).await {
                Ok(answer) => {
                    found(begin, answer);
                    begin = end;
                }
                Err(failure) => Box::pin(self.relocate(&shard, failure)).await?,
            }
        }
        Ok(())
    }

    /// Waits at one storage server for the value of a key to change. Returns `None` if the shard
    /// has moved.
    pub(crate) async fn watch_once(
        &self,
        key: &Key,
        value: &Option<Value>,
        version: Version,
        fate: Option<WatchFate>,
    ) -> Result<Option<Version>, Error> {
        let shard = self.locate(key, false).await?;
        let question = || WatchValue {
            key: key.clone(),
            value: value.clone(),
            version,
            fate,
        };
        // A watch is silent while nothing changes, which is no reason to ask another server.
        let order = Order::random(&shard.servers, &self.random, &self.process);
        let changed = self.ask_replicas(&shard, order, |server| &server.watch_value, question);
        match changed.await {
            Ok(changed) => Ok(Some(changed)),
            Err(failure) => Box::pin(self.relocate(&shard, failure))
                .await
                .map(|()| None),
        }
    }

    /// Asks the replicas of a shard until one answers. A replica that does not know the version yet
    /// answers for all of them: being behind by a second is something the application gets to see.
    pub(super) fn ask<Q, T>(
        &self,
        shard: &ShardLocation,
        endpoint: impl Fn(&StorageInterface) -> &Endpoint<Q>,
        question: impl Fn() -> Q,
    ) -> impl Future<Output = Result<T, Failure>>
    where
        Q: Request<Reply = Result<T, StorageError>> + About,
        T: 'static,
    {
        let order = self
            .balance
            .order(&shard.servers, &self.random, &self.process);
        self.ask_replicas(shard, order, endpoint, question)
    }

    async fn ask_replicas<Q, T>(
        &self,
        shard: &ShardLocation,
        order: Order,
        endpoint: impl Fn(&StorageInterface) -> &Endpoint<Q>,
        question: impl Fn() -> Q,
    ) -> Result<T, Failure>
    where
        Q: Request<Reply = Result<T, StorageError>> + About,
        T: 'static,
    {
        let servers = &shard.servers;
        let mut patience = order.patience;
        let mut failure = Failure::Moved;
        let mut asked = 0;
        let mut waiting: Vec<(Requesting<Q::Reply>, Open<'_>)> = Vec::with_capacity(1);
        let mut second = false;
        while asked < servers.len() || !waiting.is_empty() {
            if asked < servers.len() && (waiting.is_empty() || second) {
                let server = &servers[order.nth(asked, servers.len())];
                let request = question();
                let open = self.balance.ask(&self.process, server, request.about());
                let endpoint = endpoint(server);
                waiting.push((self.process.request(endpoint, request), open));
                self.strike(endpoint.process());
                asked += 1;
                second = false;
            }
            let (reply, open) = match patience.take() {
                Some(seconds) => {
                    match first_of(any_of(&mut waiting), self.process.sleep(seconds)).await {
                        First::Left(reply) => reply,
                        First::Right(()) => {
                            self.balance.spend();
                            second = true;
                            continue;
                        }
                    }
                }
                None => any_of(&mut waiting).await,
            };
            match reply {
                Ok(Ok(answer)) => {
                    open.end(End::Answered);
                    return Ok(answer);
                }
                Ok(Err(StorageError::WrongShardServer)) => return Err(Failure::Moved),
                Ok(Err(StorageError::Code(error))) => {
                    let behind = [Error::FUTURE_VERSION, Error::PROCESS_BEHIND].contains(&error);
                    open.end(if behind { End::Behind } else { End::Answered });
                    failure = Failure::Code(error);
                    if error != Error::PROCESS_BEHIND {
                        return Err(failure);
                    }
                }
                Err(_disconnected) => {}
            }
        }
        Err(failure)
    }

    /// Forgets a shard that returned no answer and waits a little, unless its answer was an error.
    pub(super) async fn relocate(
        &self,
        shard: &ShardLocation,
        failure: Failure,
    ) -> Result<(), Error> {
        match failure {
            Failure::Code(error) => Err(error),
            Failure::Moved => {
                self.forget_location(shard);
                self.process
                    .sleep(self.knobs().wrong_shard_server_delay)
                    .await;
                Ok(())
            }
        }
    }
}

/// A request to a storage server about some key, so that reports can show what a client is waiting
/// for.
pub(super) trait About {
    /// The key, or the beginning of the range.
    fn about(&self) -> &Key;
}

impl About for GetValue {
    fn about(&self) -> &Key {
        &self.key
    }
}

impl About for GetKey {
    fn about(&self) -> &Key {
        &self.selector.key
    }
}

impl About for GetKeyValues {
    fn about(&self) -> &Key {
        &self.begin.key
    }
}

impl About for GetMappedKeyValues {
    fn about(&self) -> &Key {
        self.primary.about()
    }
}

impl About for GetStorageMetrics {
    fn about(&self) -> &Key {
        &self.range.begin
    }
}

impl About for GetSplitPoints {
    fn about(&self) -> &Key {
        &self.range.begin
    }
}

impl About for WatchValue {
    fn about(&self) -> &Key {
        &self.key
    }
}

/// Returns the first reply to any of several requests, which is removed from them.
async fn any_of<'a, R>(
    waiting: &mut Vec<(Requesting<R>, Open<'a>)>,
) -> (Result<R, Disconnected>, Open<'a>) {
    poll_fn(|context| {
        for index in 0..waiting.len() {
            if let Poll::Ready(reply) = Pin::new(&mut waiting[index].0).poll(context) {
                let (_, open) = waiting.swap_remove(index);
                return Poll::Ready((reply, open));
            }
        }
        Poll::Pending
    })
    .await
}
