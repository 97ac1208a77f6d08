//! Liveness: a minority is left broken for good, and the rest must get on.
//!
//! Ordinary faults end: a machine that reboots comes back, a clog dissolves. Code that waits for a
//! machine that never returns, or that only finishes because every fault is over in the end, passes
//! all of that. In a run for liveness there is a *moment*, drawn from the seed, from which on
//!
//! * a minority of the machines is dead, or cut off from everything, for the rest of the run: as
//!   much as the cluster can lose without losing data or a place for its copies;
//! * every other fault has stopped: nothing else dies, no connection breaks, nothing is clogged;
//! * each phase must end within a stated simulated time, counted from the moment or from the
//!   beginning of the phase, whichever is later.
//!
//! A phase that does not has failed with a verdict of its own, *not live*, and what each client
//! waits for is listed. That also catches code that is busy without getting anywhere, which a limit
//! on silence ([`waits`](super::waits)) cannot.
//!
//! The moment comes while `start` runs, and at its end at the latest, so that `check` always works
//! on a cluster that has lost something. A cluster of such a run keeps at least two copies of its
//! data, or nothing could be lost.

use super::run::Run;
use super::testbed::Testbed;
use crate::trace::Severity;
use shaketable_cluster::cluster::Cluster;
use shaketable_kernel::{Priority, Stream, Task, Time};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The fewest copies of the data in a cluster that can lose a machine.
pub(super) const REPLICAS_MIN: usize = 2;

/// The moment is this long after `start` began, at least and at most, in seconds. Phases are of all
/// lengths, so every order of magnitude is as likely.
const MOMENT_SECONDS: (f64, f64) = (0.1, 30.0);
/// How many zones break, at most.
const ZONES_MAX: usize = 2;
/// How long the cluster may take to get into a state in which it can lose something, in seconds.
const PATIENCE_SECONDS: u32 = 60;

/// What has become of the moment.
#[derive(Default)]
pub(super) struct Aftermath {
    began: Cell<bool>,
    /// When the last zone broke.
    since: Cell<Option<Time>>,
    broken: RefCell<Vec<String>>,
}

impl Aftermath {
    /// Since when nothing but the minority is broken, if that moment has come.
    pub(super) fn since(&self) -> Option<Time> {
        self.since.get()
    }

    /// What is broken, in words.
    pub(super) fn broken(&self) -> String {
        match &self.broken.borrow()[..] {
            [] => "all faults stopped".to_owned(),
            broken => format!(
                "{} broke for good and all other faults stopped",
                broken.join(" and ")
            ),
        }
    }
}

/// The moment of a run, while it may still come.
pub(super) struct Moment {
    run: Rc<Run>,
    cluster: Cluster,
    stream: Stream,
    task: Task<()>,
}

impl Moment {
    /// Draws the moment, if the run is one for liveness and its moment has not come in an earlier
    /// test.
    pub(super) fn draw(run: &Rc<Run>, testbed: &Testbed) -> Option<Moment> {
        run.given.liveness_seconds?;
        let (cluster, _) = testbed.cluster.as_ref()?;
        if run.aftermath.began.get() {
            return None;
        }
        let stream = run.kernel.stream("liveness");
        let (least, most) = MOMENT_SECONDS;
        let seconds = least * (most / least).powf(stream.uniform());
        let (run, cluster) = (run.clone(), cluster.clone());
        let task = {
            let (run, cluster, stream) = (run.clone(), cluster.clone(), stream.clone());
            run.kernel
                .clone()
                .spawn(testbed.test_system, Priority::DefaultDelay, async move {
                    run.kernel.sleep(seconds).await;
                    leave_broken(&run, &cluster, &stream).await;
                })
        };
        Some(Moment {
            run,
            cluster,
            stream,
            task,
        })
    }

    /// `start` is over: the moment comes now, if it has not come before.
    pub(super) async fn come(self) {
        let Moment {
            run,
            cluster,
            stream,
            task,
        } = self;
        if run.aftermath.began.get() {
            task.await;
        } else {
            drop(task);
            leave_broken(&run, &cluster, &stream).await;
        }
    }
}

/// The group of its decisions.
const NAME: &str = "Liveness";

async fn leave_broken(run: &Rc<Run>, cluster: &Cluster, stream: &Stream) {
    run.aftermath.began.set(true);
    let zones = stream.range(1, ZONES_MAX + 1);
    // A cluster that is well loses its first zone in the middle of everything else.
    let mut broken = usize::from(break_one(run, cluster, stream));
    cluster.end_faults();
    for _ in 0..PATIENCE_SECONDS {
        if broken >= zones {
            break;
        }
        run.kernel.sleep(1.0).await;
        broken += usize::from(break_one(run, cluster, stream));
    }
    run.aftermath.since.set(Some(run.kernel.now()));
}

/// Breaks a zone, if one may break. Returns whether it did.
fn break_one(run: &Run, cluster: &Cluster, stream: &Stream) -> bool {
    let Some(zone) = cluster.zone_to_break(stream) else {
        return false;
    };
    let place = if zone.is_dead { "kill" } else { "cut off" };
    if !run
        .kernel
        .decide(true, || (NAME.to_owned(), place.to_owned()))
    {
        return true;
    }
    cluster.break_for_good(&zone);
    let words = match zone.is_dead {
        true => format!("{} (dead)", zone.zone),
        false => format!("{} (cut off)", zone.zone),
    };
    run.trace_fault(
        run.event(Severity::Info, "LeftBroken")
            .detail("Zone", &zone.zone)
            .detail("Dead", u8::from(zone.is_dead)),
    );
    let mut drawn = run.findings.drawn.borrow_mut();
    drawn.faults.push(format!("{words}, for good"));
    run.aftermath.broken.borrow_mut().push(words);
    true
}
