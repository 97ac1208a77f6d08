//! The GRV proxy: read versions.
//!
//! Requests are collected into batches. A batch takes the newest committed version from the
//! sequencer. Unless every request in it accepts the risk, the proxy also proves with the logs that
//! no recovery has ended this generation; only then is nothing newer committed elsewhere. The proof
//! holds for a moment: a recovery takes at least `required_min_recovery_duration` after it has
//! locked the logs, so a proof younger than that is as good as a new one.

use crate::error::Error;
use crate::proto::{GetReadVersion, GrvProxyInterface, ReadVersion, TransactionPriority, Version};
use crate::server::messages::{
    CommitEmptyBatch, ConfirmEpochLive, GetLiveCommitted, LiveCommitted, LogInterface,
};
use crate::server::role::{Role, WaitFailure};
use crate::server::sequencer::SequencerInterface;
use shaketable_kernel::{Disconnected, Endpoint, Notify, Reply, Time};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// For which fraction of the time a read version takes the next batch waits for more requests.
const BATCH_LATENCY_FRACTION: f64 = 0.5;
/// How much one measurement moves the average.
const BATCH_LATENCY_ALPHA: f64 = 0.1;

/// What a GRV proxy needs to know about its generation.
#[derive(Clone, Debug)]
pub struct GrvProxySpec {
    /// Where versions come from.
    pub sequencer: SequencerInterface,
    /// The logs, which prove that the generation is alive.
    pub logs: Rc<[LogInterface]>,
    /// The commit proxy endpoint that makes the logs learn of versions.
    pub commit_empty_batch: Endpoint<CommitEmptyBatch>,
}

type Waiting = (Reply<Result<ReadVersion, Error>>, bool);

struct GrvProxy {
    role: Role,
    spec: GrvProxySpec,
    queue: RefCell<Vec<Waiting>>,
    arrived: Notify,
    /// When the last batch was sent off.
    last_batch: Cell<Time>,
    interval: Cell<f64>,
    /// When the newest proof was requested.
    proved: Cell<Option<Time>>,
    /// The newest version returned.
    newest: Cell<Version>,
}

/// Starts a GRV proxy.
pub fn start(role: &Role, spec: GrvProxySpec) -> (GrvProxyInterface, Endpoint<WaitFailure>) {
    let proxy = Rc::new(GrvProxy {
        role: role.clone(),
        spec,
        queue: RefCell::default(),
        arrived: Notify::new(),
        last_batch: Cell::new(Time::ZERO),
        interval: Cell::new(0.0),
        proved: Cell::new(None),
        newest: Cell::new(0),
    });
    let receiver = proxy.clone();
    let get_read_version = role.serve(move |request: GetReadVersion, reply| {
        receiver.receive(request, reply);
    });
    role.spawn(async move { proxy.run().await });
    (GrvProxyInterface { get_read_version }, role.serve_failure())
}

impl GrvProxy {
    fn receive(&self, request: GetReadVersion, reply: Reply<Result<ReadVersion, Error>>) {
        let env = self.role.env();
        let mut queue = self.queue.borrow_mut();
        let full = queue.len() as i64 >= env.knobs().start_transaction_max_queue_size;
        let ordinary = request.priority == TransactionPriority::Default;
        if full || ordinary && env.rejects_read_version() {
            return reply.send(Err(Error::GRV_PROXY_MEMORY_LIMIT_EXCEEDED));
        }
        queue.push((reply, request.causal_read_risky));
        self.arrived.notify_all();
    }

    async fn run(self: Rc<GrvProxy>) {
        let here = self.role.env().process().clone();
        loop {
            if self.queue.borrow().is_empty() {
                self.arrived.notified().await;
            }
            let wait = self.interval.get() - here.now().since(self.last_batch.get());
            if !self.role.env().is_instant() && wait > 0.0 {
                here.sleep(wait).await;
            }
            self.last_batch.set(here.now());
            let batch = std::mem::take(&mut *self.queue.borrow_mut());
            let proxy = self.clone();
            self.role.spawn(async move {
                if proxy.answer(batch).await.is_err() {
                    // Without sequencer or logs this generation is over; ending makes that known.
                    proxy.role.stop();
                }
            });
        }
    }

    async fn answer(&self, batch: Vec<Waiting>) -> Result<(), Disconnected> {
        let here = self.role.env().process();
        let (started, returned) = (here.now(), self.newest.get());
        let live = here.request_reliably(&self.spec.sequencer.get_live_committed, GetLiveCommitted);
        if batch.iter().any(|(_, risky)| !risky) {
            self.prove_epoch_live().await?;
        }
        let LiveCommitted {
            version,
            state,
            ahead_of_logs,
        } = live.await?;
        // Replies may overtake one another; a version that was returned before the question may
        // not.
        assert!(version >= returned, "read versions never go back");
        self.newest.set(version.max(self.newest.get()));
        if ahead_of_logs {
            here.send(&self.spec.commit_empty_batch, CommitEmptyBatch);
        }
        for (reply, _) in batch {
            reply.send(Ok(ReadVersion {
                version,
                locked: state.locked.is_some(),
                metadata_version: state.metadata_version.clone(),
            }));
        }
        let longest = self.role.env().knobs().start_transaction_batch_interval_max;
        let latency = here.now().since(started) * BATCH_LATENCY_FRACTION;
        let average =
            BATCH_LATENCY_ALPHA * latency + (1.0 - BATCH_LATENCY_ALPHA) * self.interval.get();
        self.interval.set(average.min(longest));
        Ok(())
    }

    async fn prove_epoch_live(&self) -> Result<(), Disconnected> {
        let here = self.role.env().process();
        let now = here.now();
        let lasts = self.role.env().knobs().required_min_recovery_duration;
        // A proof still under way does not count yet: only a finished one is remembered.
        if self
            .proved
            .get()
            .is_some_and(|proved| now.since(proved) < lasts)
        {
            return Ok(());
        }
        // A recovery may have missed some logs. All must answer, so that any log it has locked is
        // among them.
        let logs = self.spec.logs.iter();
        let proofs: Vec<_> = logs
            .map(|log| here.request_reliably(&log.confirm, ConfirmEpochLive))
            .collect();
        for proof in proofs {
            proof.await?;
        }
        self.proved.set(self.proved.get().max(Some(now)));
        Ok(())
    }
}
