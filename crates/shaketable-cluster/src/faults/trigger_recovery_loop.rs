//! TriggerRecoveryLoop: recoveries one after another.

use super::{BadOption, Context, Options};
use crate::kill::Target;
use shaketable_kernel::{KillKind, Stream};

/// The options of TriggerRecoveryLoop.
#[derive(Clone, Debug, PartialEq)]
pub struct TriggerRecoveryLoop {
    /// When it begins, in seconds.
    pub start_time: f64,
    /// How many recoveries.
    pub num_recoveries: usize,
    /// The pause between two, in seconds.
    pub delay_between_recoveries: f64,
    /// How often all processes are rebooted instead.
    pub kill_all_proportion: f64,
}

impl TriggerRecoveryLoop {
    pub(super) fn read(options: &mut Options<'_>, random: &Stream) -> Result<Self, BadOption> {
        let recoveries = random.range(1, 10_usize);
        Ok(TriggerRecoveryLoop {
            start_time: options.number("startTime", 0.0)?,
            num_recoveries: options.count("numRecoveries", recoveries)?,
            delay_between_recoveries: options.number("delayBetweenRecoveries", 0.0)?,
            kill_all_proportion: options.number("killAllProportion", 0.1)?,
        })
    }

    pub(super) async fn start(&self, context: &Context) {
        context.sleep(self.start_time).await;
        for _ in 0..self.num_recoveries {
            if context.random.chance(self.kill_all_proportion) {
                for process in context.saboteur.servers() {
                    context.kill(&Target::Process(*process), KillKind::RebootProcess);
                }
            } else {
                context.trigger_recovery();
            }
            context.sleep(self.delay_between_recoveries).await;
            // As in FoundationDB, the next one waits until the database answers again.
            let answers = context.system_transaction(async |transaction| {
                transaction.get_read_version().await.map(drop)
            });
            let _ = answers.await;
        }
    }
}
