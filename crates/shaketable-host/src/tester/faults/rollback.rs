//! `Rollback`: cuts a commit proxy off from all logs but one and then silences both, so that the recovery that follows rolls back
//! what only that log has heard of.

use super::options::Reader;
use super::{Scene, poisson};
use shaketable_kernel::{ClogMode, KillKind, Stream};

/// The workload.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::tester) struct Rollback {
    mean_delay_seconds: f64,
    clog_seconds: f64,
    duration_seconds: f64,
    /// Reboots the proxy instead of silencing it.
    enable_failures: bool,
    /// Again and again, not once.
    multiple: bool,
}

impl Rollback {
    pub(super) fn read(options: &Reader<'_>) -> Result<Self, String> {
        Ok(Rollback {
            mean_delay_seconds: options.number("meanDelay", 20.0)?,
            clog_seconds: options.number("clogDuration", 3.0)?,
            duration_seconds: options.number("testDuration", 10.0)?,
            enable_failures: options.boolean("enableFailures")?.unwrap_or(false),
            multiple: options.boolean("multiple")?.unwrap_or(true),
        })
    }

    pub(super) fn injected(random: &Stream) -> Self {
        Rollback {
            mean_delay_seconds: 20.0,
            clog_seconds: 3.0,
            duration_seconds: 10.0,
            enable_failures: random.chance(0.2),
            multiple: random.chance(0.5),
        }
    }

    pub(super) async fn start(&self, scene: &Scene) {
        let kernel = scene.kernel();
        let all = async {
            if !self.multiple {
                // Early enough that everything has settled when the time is over.
                let latest = (self.duration_seconds - 13.0 * self.clog_seconds).max(0.0);
                kernel.sleep(scene.random.uniform() * latest).await;
                self.strike(scene).await;
                return;
            }
            let mut last = kernel.now().as_secs();
            loop {
                poisson(kernel, &scene.random, &mut last, self.mean_delay_seconds).await;
                self.strike(scene).await;
            }
        };
        let _ = kernel.timeout(self.duration_seconds, all).await;
    }

    async fn strike(&self, scene: &Scene) {
        let (kernel, random) = (scene.kernel(), &scene.random);
        let (proxies, logs) = (scene.commit_proxies(), scene.logs());
        if proxies.is_empty() || logs.is_empty() {
            return;
        }
        let proxy = *random.pick(&proxies);
        let favoured = *random.pick(&logs);
        let ip = |process| kernel.process(process).address.ip;
        for log in logs.iter().filter(|log| **log != favoured) {
            kernel.clog_pair(ip(proxy), ip(*log), self.clog_seconds);
        }
        kernel.sleep(self.clog_seconds / 3.0).await;
        if self.enable_failures {
            scene.kill_process(proxy, KillKind::RebootProcess);
        } else {
            kernel.clog_interface(ip(proxy), ClogMode::All, self.clog_seconds);
            kernel.clog_interface(ip(favoured), ClogMode::All, self.clog_seconds);
        }
    }
}
