//! A ring of pointers whose links are swapped: it stays one ring.
//!
//! Node `i` points to another node, and all nodes form a single ring. A transaction picks a node
//! `a → b → c → d` and turns it into `a → c → b → d`: three reads, three writes. Under serializable
//! isolation the ring stays whole; a single lost update or torn read breaks it in two. It is the
//! classic of FoundationDB's own tests.

use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbBindingError, RetryableTransaction};
use shaketable::{
    Metric, Metrics, PhaseResult, SimDatabase, SingleRustWorkload, Workload, WorkloadContext,
    register_workload,
};

struct Cycle {
    context: WorkloadContext,
    nodes: u32,
    swaps: u32,
    swapped: u64,
}

impl SingleRustWorkload for Cycle {
    fn new(_name: String, context: WorkloadContext) -> Self {
        Cycle {
            nodes: context.get_option("nodes").unwrap_or(20),
            swaps: context.get_option("swaps").unwrap_or(30),
            context,
            swapped: 0,
        }
    }
}

impl Workload for Cycle {
    async fn setup(&mut self, db: SimDatabase) -> PhaseResult {
        if self.context.client_id() != 0 {
            return Ok(());
        }
        let nodes = self.nodes;
        db.run(|trx, _| async move {
            for node in 0..nodes {
                trx.set(&key(node), &((node + 1) % nodes).to_le_bytes());
            }
            Ok(())
        })
        .await?;
        Ok(())
    }

    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        for _ in 0..self.swaps {
            let node = self.context.rnd() % self.nodes;
            db.run(|trx, _| async move { swap(&trx, node).await })
                .await?;
            self.swapped += 1;
        }
        Ok(())
    }

    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        let nodes = self.nodes;
        let walked = db
            .run(|trx, _| async move { walk(&trx, nodes).await })
            .await?;
        if walked.len() != nodes as usize {
            return Err(format!(
                "the ring of {nodes} nodes closes after {}: {walked:?}",
                walked.len()
            )
            .into());
        }
        Ok(())
    }

    fn get_metrics(&self, mut out: Metrics) {
        out.push(Metric::val("swapped", self.swapped as f64));
    }

    fn get_check_timeout(&self) -> f64 {
        5000.0
    }
}

/// `a → b → c → d` becomes `a → c → b → d`.
async fn swap(trx: &RetryableTransaction, a: u32) -> Result<(), FdbBindingError> {
    let b = next(trx, a).await?;
    let c = next(trx, b).await?;
    let d = next(trx, c).await?;
    trx.set(&key(a), &c.to_le_bytes());
    trx.set(&key(c), &b.to_le_bytes());
    trx.set(&key(b), &d.to_le_bytes());
    Ok(())
}

/// The nodes on the way from node 0 back to it.
async fn walk(trx: &RetryableTransaction, nodes: u32) -> Result<Vec<u32>, FdbBindingError> {
    let mut walked = Vec::new();
    let mut node = 0;
    // More steps than nodes mean that the way never leads back to node 0.
    while walked.len() <= nodes as usize {
        walked.push(node);
        node = next(trx, node).await?;
        if node == 0 {
            break;
        }
    }
    Ok(walked)
}

async fn next(trx: &RetryableTransaction, node: u32) -> Result<u32, FdbBindingError> {
    let value = trx.get(&key(node), false).await?;
    let bytes = value.as_deref().and_then(|value| value.try_into().ok());
    bytes.map(u32::from_le_bytes).ok_or_else(|| {
        FdbBindingError::new_custom_error(format!("node {node} has no pointer").into())
    })
}

fn key(node: u32) -> Vec<u8> {
    Subspace::all().pack(&("cycle", node))
}

register_workload!(Cycle);
