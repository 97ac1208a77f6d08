//! Published crates that are built on tokio, unmodified, as workloads in simulated time.
//!
//! Each workload uses one crate the way a service on FoundationDB uses it, with real transactions
//! behind it, and fails if the crate does not do in simulated time what it promises. The line that
//! each leaves in the trace says how it went: two runs of a seed must leave the same.

mod uses;

use shaketable::{
    Metrics, PhaseResult, RustWorkloadFactory, Severity, SimDatabase, Workload, WorkloadContext,
    WrappedWorkload, register_factory,
};

/// The names of the workloads.
const NAMES: [&str; 5] = ["backon", "moka", "overflow", "tonic", "tower"];

struct Crates;

impl RustWorkloadFactory for Crates {
    fn create(name: String, context: WorkloadContext) -> WrappedWorkload {
        if !NAMES.contains(&name.as_str()) {
            return WrappedWorkload::unknown(&name);
        }
        WrappedWorkload::new(Use { name, context })
    }
}

struct Use {
    name: String,
    context: WorkloadContext,
}

impl Workload for Use {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        if self.name == "overflow" {
            tokio::spawn(async { recurse(0) }).await?;
        }
        let story = uses::run(&self.name, db, &self.context).await?;
        self.context
            .trace(Severity::Info, "Story", &[(self.name.as_str(), story)]);
        Ok(())
    }

    fn get_metrics(&self, _out: Metrics) {}

    fn get_check_timeout(&self) -> f64 {
        5000.0
    }
}

/// A task that runs out of stack is a verdict like any other.
#[expect(unconditional_recursion, reason = "it runs out of stack")]
fn recurse(depth: u64) -> u64 {
    std::hint::black_box([depth; 64])[0] + recurse(depth + 1)
}

register_factory!(Crates);
