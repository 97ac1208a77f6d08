//! RandomClogging: messages to some addresses are delayed for a while.

use super::{BadOption, Context, Options};
use shaketable_kernel::{ClogMode, Stream};
use std::net::IpAddr;

/// The hidden end of the workload, in seconds.
const MAX_RUN_DURATION: f64 = 60.0;

/// The options of RandomClogging.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomClogging {
    /// How long it runs, in seconds, but never longer than a minute.
    pub test_duration: f64,
    /// The mean time between clogs, and their length.
    pub scale: f64,
    /// How many addresses are clogged at a time.
    pub clogginess: f64,
    /// Clog many at once and release them one by one.
    pub swizzle: bool,
    /// Run again and again, with growing pauses. Only when injected.
    pub iterate: bool,
}

impl RandomClogging {
    pub(super) fn read(options: &mut Options<'_>, _: &Stream) -> Result<Self, BadOption> {
        Ok(RandomClogging {
            test_duration: options.number("testDuration", 10.0)?,
            scale: options.number("scale", 1.0)?,
            clogginess: options.number("clogginess", 1.0)?,
            swizzle: options.number("swizzle", 0.0)? != 0.0,
            iterate: false,
        })
    }

    pub(super) async fn start(&self, context: &Context) {
        let here = context.here();
        let end = here.now().after(MAX_RUN_DURATION);
        let duration = self.test_duration.min(MAX_RUN_DURATION);
        if !self.iterate {
            let _ = here.timeout(duration, self.clog(context, duration)).await;
            return;
        }
        let mut pause = 10.0;
        while here.now() < end {
            let left = end.since(here.now()).min(duration);
            let _ = here.timeout(left, self.clog(context, left)).await;
            context.sleep(pause).await;
            pause *= 1.5;
        }
    }

    async fn clog(&self, context: &Context, duration: f64) {
        let (here, saboteur) = (context.here(), &context.saboteur);
        let random = &context.random;
        let end = here.now().after(duration);
        let mut last = here.now();
        loop {
            context
                .poisson(&mut last, self.scale / self.clogginess)
                .await;
            let addresses = saboteur.all_ips();
            let length = self.scale * 10.0 * (-10.0 * random.uniform()).exp();
            if self.swizzle {
                self.swizzle(context, &addresses, length);
                continue;
            }
            let mode = match random.uniform() {
                draw if draw < 0.3 => ClogMode::Send,
                draw if draw < 0.6 => ClogMode::Receive,
                _ => ClogMode::All,
            };
            let length = length.min(end.since(here.now()));
            context.clog_interface(*random.pick(&addresses), mode, length);
            let pair = self.scale * 20.0 * (-10.0 * random.uniform()).exp();
            context.clog_pair(*random.pick(&addresses), *random.pick(&addresses), pair);
        }
    }

    fn swizzle(&self, context: &Context, addresses: &[IpAddr], length: f64) {
        let random = &context.random;
        for _ in 0..10 {
            context.clog_pair(*random.pick(addresses), *random.pick(addresses), length);
        }
        for address in addresses {
            if !random.chance(0.5) {
                continue;
            }
            let from = random.uniform() * length / 2.0;
            let until = length / 2.0 + random.uniform() * length / 2.0;
            if !context.acts("clog an interface") {
                continue;
            }
            let (saboteur, address) = (context.saboteur.clone(), *address);
            context.here().call_after(from, move || {
                saboteur.clog_interface(address, ClogMode::All, until - from);
            });
        }
    }
}
