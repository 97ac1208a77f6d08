//! Rollback: a commit proxy reaches one log but not the others, then both are cut off. What that
//! log alone has is undone by the recovery.

use super::{BadOption, Context, Options};
use crate::kill::Target;
use shaketable_kernel::{ClogMode, KillKind, Stream};

/// The options of Rollback.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollback {
    /// The mean time between attacks, in seconds.
    pub mean_delay: f64,
    /// How long each lasts, in seconds.
    pub clog_duration: f64,
    /// How long it runs, in seconds.
    pub test_duration: f64,
    /// Whether the proxy is rebooted instead of cut off.
    pub enable_failures: bool,
    /// Whether there is more than one attack.
    pub multiple: bool,
}

impl Rollback {
    pub(super) fn read(options: &mut Options<'_>, _: &Stream) -> Result<Self, BadOption> {
        Ok(Rollback {
            mean_delay: options.number("meanDelay", 20.0)?,
            clog_duration: options.number("clogDuration", 3.0)?,
            test_duration: options.number("testDuration", 10.0)?,
            enable_failures: options.flag("enableFailures", false)?,
            multiple: options.flag("multiple", true)?,
        })
    }

    pub(super) async fn start(&self, context: &Context) {
        let here = context.here();
        let attacks = async {
            let mut last = here.now();
            if !self.multiple {
                let latest = (self.test_duration - 13.0 * self.clog_duration).max(0.0);
                context.sleep(context.random.uniform() * latest).await;
                return self.attack(context).await;
            }
            loop {
                context.poisson(&mut last, self.mean_delay).await;
                self.attack(context).await;
            }
        };
        let _ = here.timeout(self.test_duration, attacks).await;
    }

    async fn attack(&self, context: &Context) {
        let (saboteur, random) = (&context.saboteur, &context.random);
        let (proxies, logs) = (saboteur.playing("commitproxy"), saboteur.playing("tlog"));
        if proxies.is_empty() || logs.len() < 2 {
            return; // in the middle of a recovery, or nothing to tell apart
        }
        let (proxy, chosen) = (*random.pick(&proxies), *random.pick(&logs));
        let ip = |process| saboteur.ip(process);
        for log in logs {
            if log != chosen && ip(log) != ip(proxy) {
                context.clog_pair(ip(proxy), ip(log), self.clog_duration);
            }
        }
        context.sleep(self.clog_duration / 3.0).await;
        if self.enable_failures {
            context.kill(&Target::Process(proxy), KillKind::RebootProcess);
        } else {
            context.clog_interface(ip(proxy), ClogMode::All, self.clog_duration);
            context.clog_interface(ip(chosen), ClogMode::All, self.clog_duration);
        }
    }
}
