//! What it costs to copy a running simulation, for the benchmark.
//!
//! The trunk copies itself as it does for [futures](super::futures). Each copy draws anew, goes on
//! to its first event, and reports what the clocks say there instead of living to its end. So the
//! path that is measured is the one that `when`, `explore` and guided search take.

use super::Isolation;
use super::fork::ChildEnd;
use super::trunk::{Branch, Trunk};
use crate::hermetic;
use crate::plan::{Plan, Recording, Settings};
use crate::tester;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use shaketable_kernel::{Kernel, Time};
use std::rc::Rc;
use std::time::Duration;

/// What one copy cost, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CopyCost {
    /// Processor time of the process that was copied, until it can go on.
    pub copying: f64,
    /// Processor time of the copy, until its first event.
    pub starting: f64,
    /// From asking for the copy to its first event, by the clock on the wall.
    pub started_after: f64,
}

impl Isolation {
    /// Copies a run this many times at a moment, in simulated seconds. Returns nothing if the run
    /// ends before it, or cannot be copied.
    pub fn measure_copies(
        &self,
        plan: &Plan,
        settings: &Settings,
        seed: u64,
        moment: f64,
        copies: usize,
    ) -> Vec<CopyCost> {
        Trunk::run(self, plan, seed, copies, |trunk| {
            let copied = trunk.clone();
            tester::play(plan, settings, seed, &Recording::Nothing, |kernel| {
                kernel.call_at(Time::from_secs(moment), move |kernel| {
                    measure(&copied, kernel, copies);
                });
            });
            // The moment never came.
            trunk.send(&Vec::<CopyCost>::new());
        })
    }
}

/// Makes the copies, one after the other. Returns in a copy only.
fn measure(trunk: &Rc<Trunk>, kernel: &Kernel, copies: usize) {
    let mut costs = Vec::new();
    for seed in 0..copies {
        let asked = Clocks::read();
        match trunk.branch() {
            Branch::Copy => {
                kernel.reseed_streams("", seed as u64);
                let copy = trunk.clone();
                kernel.call_at(kernel.now(), move |_| copy.send(&Clocks::read()));
                return;
            }
            Branch::Trunk(Ok(child)) => {
                let copied = Clocks::read();
                let end = hermetic::outside(|| child.wait(Duration::from_secs(60)));
                let Ok(ChildEnd::Reported(report)) = end else {
                    continue;
                };
                let Ok(started) = serde_json::from_slice::<Clocks>(&report) else {
                    continue;
                };
                costs.push(CopyCost {
                    copying: copied.processor - asked.processor,
                    starting: started.processor,
                    started_after: started.wall - asked.wall,
                });
            }
            Branch::Trunk(Err(_)) | Branch::Impossible => break,
        }
    }
    trunk.send(&costs);
}

/// What the machine's clocks say, in seconds.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Clocks {
    /// Since some moment that is the same for all processes.
    wall: f64,
    /// The processor time of this process, which begins at nothing in a copy.
    processor: f64,
}

impl Clocks {
    fn read() -> Clocks {
        let read =
            |clock| clock_gettime(clock).map_or(0.0, |time| Duration::from(time).as_secs_f64());
        hermetic::outside(|| Clocks {
            wall: read(ClockId::CLOCK_MONOTONIC),
            processor: read(ClockId::CLOCK_PROCESS_CPUTIME_ID),
        })
    }
}
