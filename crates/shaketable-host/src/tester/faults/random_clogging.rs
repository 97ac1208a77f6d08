//! `RandomClogging`: holds messages back, between two machines or to one.

use super::options::Reader;
use super::{Scene, poisson};
use shaketable_kernel::{ClogMode, Stream};
use std::net::IpAddr;

/// The workload. However long it is told to run, it stops after a minute.
const DURATION_SECONDS_MAX: f64 = 60.0;
/// How many pairs are clogged at once in swizzle mode.
const SWIZZLE_PAIRS: usize = 10;

#[derive(Debug, Clone, PartialEq)]
pub(in crate::tester) struct RandomClogging {
    duration_seconds: f64,
    scale: f64,
    clogginess: f64,
    /// Clogs many machines at once and frees them in another order.
    swizzle: bool,
    /// Works in bursts, with ever longer pauses.
    iterate: bool,
}

impl RandomClogging {
    pub(super) fn read(options: &Reader<'_>) -> Result<Self, String> {
        Ok(RandomClogging {
            duration_seconds: options.number("testDuration", 10.0)?,
            scale: options.number("scale", 1.0)?,
            clogginess: options.number("clogginess", 1.0)?,
            swizzle: options.integer("swizzle", 0)? != 0,
            iterate: false,
        })
    }

    pub(super) fn injected(random: &Stream) -> Self {
        RandomClogging {
            duration_seconds: 10.0,
            scale: random.uniform().max(0.1),
            clogginess: random.uniform().max(0.1),
            swizzle: random.chance(0.3),
            iterate: random.chance(0.5),
        }
    }

    pub(super) async fn start(&self, scene: &Scene) {
        let kernel = scene.kernel();
        let begin = kernel.now().as_secs();
        let end = begin + DURATION_SECONDS_MAX;
        let mut pause = self.duration_seconds;
        loop {
            let duration = self.duration_seconds.min(end - kernel.now().as_secs());
            // Whatever is under way when the time is over is dropped; the clogs that are set run out by themselves.
            let _ = kernel.timeout(duration, self.burst(scene)).await;
            pause *= 1.5;
            if !self.iterate || kernel.now().as_secs() + pause >= end {
                return;
            }
            kernel.sleep(pause).await;
        }
    }

    async fn burst(&self, scene: &Scene) {
        let kernel = scene.kernel();
        let random = &scene.random;
        let end = kernel.now().as_secs() + self.duration_seconds;
        let mut last = kernel.now().as_secs();
        loop {
            poisson(kernel, random, &mut last, self.scale / self.clogginess).await;
            let rest = (end - kernel.now().as_secs()).max(0.0);
            let addresses = addresses(scene);
            let clog = |factor: f64| self.scale * factor * (-10.0 * random.uniform()).exp();
            if self.swizzle {
                let seconds = clog(10.0);
                let chosen: Vec<IpAddr> = addresses
                    .iter()
                    .copied()
                    .filter(|_| random.chance(0.5))
                    .collect();
                for _ in 0..SWIZZLE_PAIRS {
                    kernel.clog_pair(*random.pick(&addresses), *random.pick(&addresses), seconds);
                }
                for ip in chosen {
                    let from = random.uniform() * seconds / 2.0;
                    let until = seconds / 2.0 + random.uniform() * seconds / 2.0;
                    kernel.call_at(kernel.now().after(from), move |kernel| {
                        kernel.clog_interface(ip, ClogMode::All, until - from);
                    });
                }
            } else {
                let mode = match random.uniform() {
                    u if u < 0.3 => ClogMode::Send,
                    u if u < 0.6 => ClogMode::Receive,
                    _ => ClogMode::All,
                };
                kernel.clog_interface(*random.pick(&addresses), mode, clog(10.0).min(rest));
                kernel.clog_pair(
                    *random.pick(&addresses),
                    *random.pick(&addresses),
                    clog(20.0),
                );
            }
        }
    }
}

/// The addresses of everybody, testers included.
fn addresses(scene: &Scene) -> Vec<IpAddr> {
    let kernel = scene.kernel();
    kernel
        .processes()
        .into_iter()
        .map(|process| kernel.process(process).address.ip)
        .collect()
}
