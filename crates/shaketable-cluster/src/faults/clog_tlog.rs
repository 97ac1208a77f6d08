//! ClogTlog: one log is cut off from all other processes until the cluster has recovered without
//! it.

use super::{BadOption, Context, Options};
use shaketable_kernel::{ClogMode, Stream};

/// When it begins, in seconds.
const BEGIN: f64 = 20.0;
/// The longest time the log is cut off, in seconds.
const LONGEST: f64 = 300.0;

/// The options of ClogTlog.
#[derive(Clone, Debug, PartialEq)]
pub struct ClogTlog {
    /// How long it waits for a recovery, in seconds.
    pub test_duration: f64,
}

impl ClogTlog {
    pub(super) fn read(options: &mut Options<'_>, _: &Stream) -> Result<Self, BadOption> {
        Ok(ClogTlog {
            test_duration: options.number("testDuration", 1000.0)?,
        })
    }

    pub(super) async fn start(&self, context: &Context) {
        let (here, saboteur) = (context.here(), &context.saboteur);
        context.sleep(BEGIN).await;
        let logs = saboteur.playing("tlog");
        // Clogging a log next to the controller or a coordinator would cut these off as well.
        let Some(before) = saboteur.epoch() else {
            return;
        };
        let apart = |ip| {
            let others = saboteur.coordinators_and_controller();
            others.into_iter().all(|process| saboteur.ip(process) != ip)
        };
        let ips: Vec<_> = logs
            .into_iter()
            .map(|process| saboteur.ip(process))
            .filter(|ip| apart(*ip))
            .collect();
        if ips.is_empty() {
            return;
        }
        let ip = *context.random.pick(&ips);
        if !context.clog_interface(ip, ClogMode::All, LONGEST) {
            return;
        }
        let end = here.now().after(self.test_duration.min(LONGEST));
        while here.now() < end && saboteur.epoch().is_none_or(|epoch| epoch == before) {
            context.sleep(1.0).await;
        }
        saboteur.unclog_interface(ip);
    }
}
