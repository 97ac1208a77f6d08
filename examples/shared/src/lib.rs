//! One FoundationDB future awaited by several tasks.
//!
//! A wake-up that polls at once deadlocks here: the shared future is still waking its waiters when
//! the first of them polls it again. With an executor that queues wake-ups and polls afterwards
//! every task gets the version.

use futures::FutureExt;
use futures::future::join_all;
use shaketable::foundationdb::FdbResult;
use shaketable::{
    JoinError, Metric, Metrics, PhaseResult, SimDatabase, SingleRustWorkload, Workload,
    WorkloadContext, register_workload, spawn,
};

struct Shared {
    readers: usize,
    answers: usize,
}

impl SingleRustWorkload for Shared {
    fn new(_name: String, context: WorkloadContext) -> Self {
        Shared {
            readers: context.get_option("readers").unwrap_or(5),
            answers: 0,
        }
    }
}

impl Shared {
    fn compare(
        &mut self,
        first: i64,
        versions: Vec<Result<FdbResult<i64>, JoinError>>,
    ) -> PhaseResult {
        for version in versions {
            if version?? != first {
                return Err("two readers of one future saw different versions".into());
            }
            self.answers += 1;
        }
        Ok(())
    }
}

impl Workload for Shared {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        let mut trx = db.create_trx()?;
        loop {
            let version = trx.get_read_version().shared();
            let readers = (0..self.readers).map(|_| spawn(version.clone()));
            let versions = join_all(readers).await;
            match version.await {
                Ok(first) => return self.compare(first, versions),
                Err(error) => trx = trx.on_error(error).await?,
            }
        }
    }

    async fn check(&mut self, _db: SimDatabase) -> PhaseResult {
        match self.answers == self.readers {
            true => Ok(()),
            false => Err(format!("{} of {} readers answered", self.answers, self.readers).into()),
        }
    }

    fn get_metrics(&self, mut out: Metrics) {
        out.push(Metric::val("answers", self.answers as f64));
    }

    fn get_check_timeout(&self) -> f64 {
        60.0
    }
}

register_workload!(Shared);
