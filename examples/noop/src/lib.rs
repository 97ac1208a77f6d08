//! The smallest workload: every call of the interface once, and no transaction.
//!
//! Useful to see that a library loads and that its phases are called, and as the first thing to
//! copy. It is written with a factory, which looks at the name in the test file.

use shaketable::{
    Metric, Metrics, RustWorkload, RustWorkloadFactory, Severity, SimDatabase, WorkloadContext,
    WrappedWorkload, details, register_factory, sleep,
};
use std::time::Duration;

struct Noop {
    context: WorkloadContext,
    greeting: String,
    phases: u32,
}

impl Noop {
    fn new(context: WorkloadContext) -> Self {
        let greeting = context.get_option("greeting").unwrap_or_default();
        Noop {
            context,
            greeting,
            phases: 0,
        }
    }

    fn note(&mut self, stage: &str) {
        self.phases += 1;
        self.context.trace(
            Severity::Info,
            "NoopPhase",
            details![
                "Stage" => stage,
                "Greeting" => self.greeting,
                "Client" => self.context.client_id(),
                "Clients" => self.context.client_count(),
            ],
        );
    }
}

impl RustWorkload for Noop {
    async fn setup(&mut self, _db: SimDatabase) {
        self.note("setup");
    }

    async fn start(&mut self, _db: SimDatabase) {
        let begin = self.context.now();
        sleep(Duration::from_secs(1)).await;
        let slept = self.context.now() - begin;
        assert!(slept > 0.999, "a second takes a second, not {slept}");
        self.note("start");
    }

    async fn check(&mut self, _db: SimDatabase) {
        self.note("check");
        assert_eq!(self.phases, 3, "every phase runs once");
    }

    fn get_metrics(&self, mut out: Metrics) {
        out.push(Metric::val("phases", self.phases));
    }

    fn get_check_timeout(&self) -> f64 {
        60.0
    }
}

struct Factory;

impl RustWorkloadFactory for Factory {
    fn create(name: String, context: WorkloadContext) -> WrappedWorkload {
        match name.as_str() {
            "Noop" => Noop::new(context).wrap(),
            _ => WrappedWorkload::unknown(&name),
        }
    }
}

register_factory!(Factory);
