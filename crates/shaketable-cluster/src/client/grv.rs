//! Read versions, requested in batches.
//!
//! A transaction that needs a read version joins the batch that is being collected for its
//! priority. How long a batch is collected follows the time the proxies take to answer, so that a
//! busy client sends few requests and an idle one does not wait. A request whose proxy is gone is
//! sent to a proxy of the next generation.

use super::database::Context;
use crate::client::pending::Shared;
use crate::error::Error;
use crate::proto::{GetReadVersion, ReadVersion, TransactionPriority};
use bytes::Bytes;
use shaketable_kernel::{First, Priority, first_of};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The kind of transaction that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GrvKind {
    pub(crate) priority: TransactionPriority,
    pub(crate) causal_read_risky: bool,
}

/// The batches that are being collected.
#[derive(Debug, Default)]
pub(crate) struct GrvBatchers {
    batches: RefCell<BTreeMap<GrvKind, Batch>>,
}

#[derive(Debug, Default)]
struct Batch {
    waiting: Vec<Shared<ReadVersion>>,
    tags: Vec<Bytes>,
    seconds: f64,
}

impl Context {
    /// Asks for a read version.
    pub(crate) fn request_read_version(
        self: &Rc<Self>,
        kind: GrvKind,
        tags: &[Bytes],
    ) -> Shared<ReadVersion> {
        let version = Shared::new();
        let mut batches = self.grv.batches.borrow_mut();
        let batch = batches.entry(kind).or_default();
        let is_first = batch.waiting.is_empty();
        batch.waiting.push(version.clone());
        batch.tags.extend_from_slice(tags);
        let is_full = batch.waiting.len() as i64 >= self.knobs().max_batch_size;
        let full = is_full.then(|| {
            (
                std::mem::take(&mut batch.waiting),
                std::mem::take(&mut batch.tags),
            )
        });
        let seconds = batch.seconds;
        drop(batches);

        if let Some((waiting, tags)) = full {
            let send = self.clone().send_batch(kind, waiting, tags);
            self.process
                .start(Priority::GetConsistentReadVersion, send)
                .detach();
        } else if is_first {
            let context = self.clone();
            let collect = async move {
                if context.is_instant || seconds == 0.0 {
                    context.process.yield_now().await;
                } else {
                    context.process.sleep(seconds).await;
                }
                let (waiting, tags) = {
                    let mut batches = context.grv.batches.borrow_mut();
                    let batch = batches.entry(kind).or_default();
                    (
                        std::mem::take(&mut batch.waiting),
                        std::mem::take(&mut batch.tags),
                    )
                };
                if !waiting.is_empty() {
                    context.send_batch(kind, waiting, tags).await;
                }
            };
            self.process
                .start(Priority::GetConsistentReadVersion, collect)
                .detach();
        }
        version
    }

    async fn send_batch(
        self: Rc<Self>,
        kind: GrvKind,
        waiting: Vec<Shared<ReadVersion>>,
        tags: Vec<Bytes>,
    ) {
        let begun = self.process.now();
        let result = self
            .ask_for_read_version(kind, waiting.len() as u32, tags)
            .await;
        let latency = self.process.now().since(begun);
        if let Some(batch) = self.grv.batches.borrow_mut().get_mut(&kind) {
            batch.seconds =
                (0.05 * latency + 0.9 * batch.seconds).min(self.knobs().grv_batch_timeout);
        }
        if let Ok(reply) = &result {
            let lowest = self.min_acceptable_read_version.get().min(reply.version);
            self.min_acceptable_read_version.set(lowest);
            self.remember_metadata_version(reply.version, reply.metadata_version.clone());
        }
        for version in waiting {
            version.set(result.clone());
        }
    }

    async fn ask_for_read_version(
        &self,
        kind: GrvKind,
        transaction_count: u32,
        tags: Vec<Bytes>,
    ) -> Result<ReadVersion, Error> {
        let mut backoff = self.outage_backoff();
        loop {
            let info = self.proxies().await;
            let proxy = self.pick(&info.grv_proxies);
            let request = GetReadVersion {
                transaction_count,
                priority: kind.priority,
                causal_read_risky: kind.causal_read_risky,
                tags: tags.clone(),
            };
            let reply = self.process.request(&proxy.get_read_version, request);
            match first_of(reply, self.proxies_change(info.generation)).await {
                First::Left(Ok(reply)) => return reply,
                First::Left(Err(_)) => {
                    first_of(backoff.wait(), self.proxies_change(info.generation)).await;
                }
                First::Right(()) => {}
            }
        }
    }
}
