//! The workload: on each client an instance of the service and its customers.

use crate::service::{Flaws, Order, Service, journal};
use shaketable::foundationdb::RangeOption;
use shaketable::foundationdb::tuple::Subspace;
use shaketable::{
    Metric, Metrics, PhaseResult, SimDatabase, Workload, WorkloadContext, reachable, sometimes,
};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;

pub struct Orders {
    context: WorkloadContext,
    flaws: Flaws,
    /// How many orders the customers of each client place.
    orders: u64,
}

impl Orders {
    pub fn new(context: WorkloadContext, flaws: Flaws) -> Orders {
        Orders {
            orders: context.get_option("orders").unwrap_or(10),
            context,
            flaws,
        }
    }

    /// The number of an order; no two are the same.
    fn id(&self, client: i32, number: u64) -> u64 {
        client as u64 * self.orders + number
    }
}

impl Workload for Orders {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        let client = self.context.client_id();
        let (orders, inbox) = mpsc::channel(4);
        let service = Service::new(db, format!("service {client}"), self.flaws);
        let service = tokio::spawn(service.run(inbox));
        let mut customers = JoinSet::new();
        for number in 0..self.orders {
            let pause = Duration::from_millis(u64::from(self.context.rnd() % 6000));
            let id = self.id(client, number);
            let orders = orders.clone();
            customers.spawn(async move {
                sleep(pause).await;
                let (done, is_done) = oneshot::channel();
                orders.send(Order { id, done }).await.ok()?;
                is_done.await.ok()
            });
        }
        // Graceful shutdown: when the last customer has left, the channel is closed.
        drop(orders);
        while let Some(served) = customers.join_next().await {
            served?.ok_or("an order was dropped")?;
        }
        service.await??;
        Ok(())
    }

    /// Every order is in the journal once, and no term writes after a later one has begun to.
    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        let entries = db
            .run(|trx, _| async move {
                let mut entries = Vec::new();
                let mut range = Some(RangeOption::from(&journal()));
                while let Some(option) = range {
                    let rows = trx.get_range(&option, 1, false).await?;
                    entries.extend(rows.iter().map(|row| row.value().to_vec()));
                    range = option.next_range(&rows);
                }
                Ok(entries)
            })
            .await?;
        let mut seen = BTreeSet::new();
        let mut highest = 0;
        for entry in entries {
            let (term, id): (u64, u64) = Subspace::all().unpack(&entry)?;
            if term < highest {
                return Err(format!("term {term} wrote after term {highest} had begun to").into());
            }
            highest = term;
            if !seen.insert(id) {
                return Err(format!("order {id} was fulfilled twice").into());
            }
        }
        let expected = self.id(self.context.client_count(), 0);
        if seen.len() as u64 != expected {
            return Err(format!("expected {expected} orders, found {}", seen.len()).into());
        }
        reachable!("all orders were fulfilled");
        let clients = self.context.client_count() as u64;
        sometimes!(
            highest > clients,
            "a lease was lost before its holder was done"
        );
        Ok(())
    }

    fn get_metrics(&self, mut out: Metrics) {
        out.push(Metric::val("orders", self.orders as f64));
    }

    fn get_check_timeout(&self) -> f64 {
        5000.0
    }
}
