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
use std::cell::{RefCell, RefMut};
use std::mem;
use std::rc::Rc;

/// The kind of transaction that asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrvKind {
    pub(crate) priority: TransactionPriority,
    pub(crate) causal_read_risky: bool,
}

/// The batches that are being collected.
#[derive(Debug, Default)]
pub(crate) struct GrvBatchers {
    /// By priority, and by whether the risk is taken.
    batches: RefCell<[[Batch; 2]; 3]>,
}

impl GrvBatchers {
    /// The batch of that kind.
    fn of(&self, kind: GrvKind) -> RefMut<'_, Batch> {
        let GrvKind {
            priority,
            causal_read_risky,
        } = kind;
        RefMut::map(self.batches.borrow_mut(), |batches| {
            &mut batches[priority as usize][usize::from(causal_read_risky)]
        })
    }
}

#[derive(Debug, Default)]
struct Batch {
    waiting: Vec<Shared<ReadVersion>>,
    tags: Vec<Bytes>,
    seconds: f64,
}

impl Batch {
    /// What was collected.
    fn take(&mut self) -> (Vec<Shared<ReadVersion>>, Vec<Bytes>) {
        (mem::take(&mut self.waiting), mem::take(&mut self.tags))
    }
}

impl Context {
    /// Asks for a read version.
    pub(crate) fn request_read_version(
        self: &Rc<Self>,
        kind: GrvKind,
        tags: &[Bytes],
    ) -> Shared<ReadVersion> {
        let version = Shared::new();
        let mut batch = self.grv.of(kind);
        let is_first = batch.waiting.is_empty();
        batch.waiting.push(version.clone());
        batch.tags.extend_from_slice(tags);
        let is_full = batch.waiting.len() as i64 >= self.knobs().max_batch_size;
        let full = is_full.then(|| batch.take());
        let seconds = batch.seconds;
        drop(batch);

        if let Some((waiting, tags)) = full {
            let context = self.clone();
            let send = async move { context.send_batch(kind, &waiting, &tags).await };
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
                let (waiting, tags) = context.grv.of(kind).take();
                if !waiting.is_empty() {
                    context.send_batch(kind, &waiting, &tags).await;
                }
            };
            self.process
                .start(Priority::GetConsistentReadVersion, collect)
                .detach();
        }
        version
    }

    async fn send_batch(&self, kind: GrvKind, waiting: &[Shared<ReadVersion>], tags: &[Bytes]) {
        let begun = self.process.now();
        let count = waiting.len() as u32;
        let result = self.ask_for_read_version(kind, count, tags).await;
        let latency = self.process.now().since(begun);
        {
            let seconds = &mut self.grv.of(kind).seconds;
            *seconds = (0.05 * latency + 0.9 * *seconds).min(self.knobs().grv_batch_timeout);
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
        tags: &[Bytes],
    ) -> Result<ReadVersion, Error> {
        let mut backoff = self.outage_backoff();
        loop {
            let info = self.proxies().await;
            let proxy = self.pick(&info.grv_proxies);
            let request = GetReadVersion {
                transaction_count,
                priority: kind.priority,
                causal_read_risky: kind.causal_read_risky,
                tags: tags.to_vec(),
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
