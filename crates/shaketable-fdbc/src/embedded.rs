//! The clusters of an ordinary program: made when they are first opened, kept until the network ends.
//!
//! A cluster is the same miniature that a simulation runs, as one process on a network that costs nothing and the machine's
//! clock. All databases that name the same cluster share it, as they would share a real one; it keeps its data while databases
//! come and go.

use rustix::time::{ClockId, clock_gettime};
use shaketable_kernel::{Kernel, Time};

/// Tells `report`, once a second, which part of the second the calling thread has worked.
pub(crate) fn measure_busyness(kernel: &Kernel, report: impl Fn(f64) + 'static) {
    sample(kernel, kernel.now(), cpu_seconds(), report);
}

fn sample(kernel: &Kernel, since: Time, cpu: f64, report: impl Fn(f64) + 'static) {
    kernel.call_at(since.after(1.0), move |kernel| {
        let (now, cpu_now) = (kernel.now(), cpu_seconds());
        let passed = now.as_secs() - since.as_secs();
        report(((cpu_now - cpu) / passed).clamp(0.0, 1.0));
        sample(kernel, now, cpu_now, report);
    });
}

/// How long the calling thread has worked.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
