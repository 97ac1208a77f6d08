//! DiskFailureInjection: disks become slow. When injected automatically it injects nothing, but
//! keeps the start phase alive.

use super::{BadOption, Context, Options};
use shaketable_kernel::Stream;

/// The options of DiskFailureInjection.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskFailureInjection {
    /// When it begins, in seconds.
    pub start_delay: f64,
    /// How long it runs, in seconds.
    pub test_duration: f64,
    /// Whether disks are stalled at all.
    pub throttle_disk: bool,
    /// How many processes are throttled.
    pub workers_to_throttle: usize,
    /// The time between stalls, in seconds; 0 for one long stall.
    pub stall_interval: f64,
    /// The longest stall, in seconds.
    pub stall_period: f64,
    /// How long a process is throttled, in seconds.
    pub throttle_period: f64,
}

impl DiskFailureInjection {
    pub(super) fn read(options: &mut Options<'_>, _: &Stream) -> Result<Self, BadOption> {
        // Bits are never flipped here: a disk returns what was written, or nothing.
        for name in [
            "corruptFile",
            "workersToCorrupt",
            "percentBitFlips",
            "periodicBroadcastInterval",
            "verificationMode",
        ] {
            options.text(name, "");
        }
        Ok(DiskFailureInjection {
            start_delay: options.number("startDelay", 0.0)?,
            test_duration: options.number("testDuration", 60.0)?,
            throttle_disk: options.flag("throttleDisk", false)?,
            workers_to_throttle: options.count("workersToThrottle", 3)?,
            stall_interval: options.number("stallInterval", 0.0)?,
            stall_period: options.number("stallPeriod", 60.0)?,
            throttle_period: options.number("throttlePeriod", 60.0)?,
        })
    }

    pub(super) async fn start(&self, context: &Context) {
        let here = context.here();
        context.sleep(self.start_delay).await;
        let end = here.now().after(self.test_duration);
        if self.throttle_disk {
            let random = &context.random;
            let mut servers = context.saboteur.servers().to_vec();
            random.shuffle(&mut servers);
            servers.truncate(self.workers_to_throttle);
            let until = here.now().after(self.throttle_period).min(end);
            while here.now() < until {
                for process in &servers {
                    let stall = self.stall_period.min(until.since(here.now()));
                    // A log whose disk stalls for long stops everything: stalls are mostly short.
                    context.stall_disk(*process, stall * random.uniform().powi(4));
                }
                if self.stall_interval <= 0.0 {
                    break;
                }
                context.sleep(self.stall_interval).await;
            }
        }
        here.sleep_until(end).await;
    }
}
