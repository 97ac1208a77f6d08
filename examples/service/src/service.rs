//! The service: takes the lease, works through its orders while it leads, and gives the lease back.

use crate::lease::{self, Lease};
use foundationdb::options::MutationType;
use foundationdb::tuple::{Subspace, Versionstamp};
use foundationdb::{Database, FdbBindingError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{debug, info, warn};

/// An order, and where its completion is told.
pub struct Order {
    pub id: u64,
    pub done: oneshot::Sender<()>,
}

impl Order {
    fn tell(self) {
        // The customer may have left.
        let _ = self.done.send(());
    }
}

/// What the service does wrong; nothing by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flaws {
    /// The lease is renewed by the loop that also works, and trusted in between.
    pub renews_between_orders: bool,
    /// A transaction that was cancelled is taken for one that did not happen.
    pub trusts_cancellation: bool,
}

pub struct Service {
    db: Arc<Database>,
    name: String,
    lease: Lease,
    flaws: Flaws,
}

/// Why an instance no longer leads.
enum Stepped {
    /// All orders are done, and no more will come.
    Down,
    /// Another instance leads.
    Aside,
}

/// What became of an order.
enum Fate {
    Done,
    /// Another instance leads, so nothing was written.
    Refused,
}

impl Service {
    pub fn new(db: Arc<Database>, name: String, flaws: Flaws) -> Service {
        Service {
            lease: Lease::new(db.clone()),
            db,
            name,
            flaws,
        }
    }

    /// Runs until the channel is closed and every order in it is done.
    pub async fn run(self, mut orders: mpsc::Receiver<Order>) -> Result<(), FdbBindingError> {
        let mut refused = None;
        let mut attempts = 0;
        let mut pause = Duration::from_millis(50);
        loop {
            attempts += 1;
            let holder = format!("{}/{attempts}", self.name);
            let Some(term) = self.lease.take(&holder).await? else {
                sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(800));
                continue;
            };
            pause = Duration::from_millis(50);
            info!(service = self.name, term, "leads");
            let stepped = match self.flaws.renews_between_orders {
                true => self.lead_alone(term, &mut orders).await?,
                false => self.lead(term, &mut orders, &mut refused).await?,
            };
            match stepped {
                Stepped::Aside => warn!(service = self.name, term, "lost the lease"),
                Stepped::Down => {
                    self.lease.release(term).await?;
                    info!(service = self.name, term, "is done");
                    return Ok(());
                }
            }
        }
    }

    /// Works while a task of its own renews the lease.
    async fn lead(
        &self,
        term: u64,
        orders: &mut mpsc::Receiver<Order>,
        refused: &mut Option<Order>,
    ) -> Result<Stepped, FdbBindingError> {
        let (held, mut is_held) = watch::channel(true);
        let renewals = tokio::spawn(renew(self.lease.clone(), term, held));
        let stepped = loop {
            let next = async {
                match refused.take() {
                    Some(order) => Some(order),
                    None => orders.recv().await,
                }
            };
            let order = tokio::select! {
                biased;
                _ = is_held.wait_for(|held| !held) => break Stepped::Aside,
                order = next => order,
            };
            let Some(order) = order else {
                break Stepped::Down;
            };
            match self.fulfil(order.id, term).await? {
                Fate::Done => order.tell(),
                Fate::Refused => {
                    *refused = Some(order);
                    break Stepped::Aside;
                }
            }
        };
        renewals.abort();
        Ok(stepped)
    }

    /// The flaw: works and renews in one loop. While an order is being fulfilled nothing renews.
    async fn lead_alone(
        &self,
        term: u64,
        orders: &mut mpsc::Receiver<Order>,
    ) -> Result<Stepped, FdbBindingError> {
        let mut ticks = ticks();
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    if !self.lease.renew(term).await? {
                        return Ok(Stepped::Aside);
                    }
                }
                order = orders.recv() => {
                    let Some(order) = order else {
                        return Ok(Stepped::Down);
                    };
                    self.fulfil(order.id, term).await?;
                    order.tell();
                }
            }
        }
    }

    /// Writes an order down, with more patience at each attempt.
    async fn fulfil(&self, id: u64, term: u64) -> Result<Fate, FdbBindingError> {
        let mut patience = Duration::from_millis(500);
        loop {
            match timeout(patience, self.write(id, term)).await {
                Ok(result) => return result,
                Err(_elapsed) => {
                    debug!(id, ?patience, "took too long, and is tried again");
                    sleep(patience / 5).await;
                    patience *= 2;
                }
            }
        }
    }

    /// One entry in the journal for an order. The journal's keys are in the order of their commits.
    async fn write(&self, id: u64, term: u64) -> Result<Fate, FdbBindingError> {
        let flaws = self.flaws;
        self.db
            .run(|trx, maybe_committed| async move {
                // The flaw: `maybe_committed` knows of the attempts that this call of `run` made,
                // and nothing of an earlier call that was dropped while it was committing.
                let asks = bool::from(maybe_committed) || !flaws.trusts_cancellation;
                let mark = done().pack(&id);
                if asks && trx.get(&mark, false).await?.is_some() {
                    return Ok(Fate::Done);
                }
                if !flaws.renews_between_orders && !lease::holds(&trx, term).await? {
                    return Ok(Fate::Refused);
                }
                trx.set(&mark, b"");
                trx.atomic_op(
                    &journal().pack_with_versionstamp(&Versionstamp::incomplete(0)),
                    &Subspace::all().pack(&(term, id)),
                    MutationType::SetVersionstampedKey,
                );
                Ok(Fate::Done)
            })
            .await
    }
}

/// Renews a lease until it is lost, and tells so.
async fn renew(lease: Lease, term: u64, held: watch::Sender<bool>) {
    let mut ticks = ticks();
    loop {
        ticks.tick().await;
        match lease.renew(term).await {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                warn!(term, %error, "cannot renew the lease");
                break;
            }
        }
    }
    // The receiver is gone when the service has stepped down.
    let _ = held.send(false);
}

/// Three renewals in the time of a lease.
fn ticks() -> tokio::time::Interval {
    let mut ticks = interval(lease::DURATION / 3);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Which orders are done.
fn done() -> Subspace {
    Subspace::all().subspace(&"done")
}

/// What was done, in order: the term and the order's number.
pub fn journal() -> Subspace {
    Subspace::all().subspace(&"journal")
}
