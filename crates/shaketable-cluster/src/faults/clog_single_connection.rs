//! ClogSingleConnection: two addresses lose contact with one another, once.

use super::{BadOption, Context, Options};
use shaketable_kernel::Stream;

/// How long a clog without an end lasts, in seconds.
const FOR_EVER: f64 = 10_000.0;

/// The options of ClogSingleConnection.
#[derive(Clone, Debug, PartialEq)]
pub struct ClogSingleConnection {
    /// The earliest moment, in seconds.
    pub min_delay: f64,
    /// The latest moment, in seconds.
    pub max_delay: f64,
    /// How long, in seconds.
    pub clog_duration: f64,
}

impl ClogSingleConnection {
    pub(super) fn read(options: &mut Options<'_>, _: &Stream) -> Result<Self, BadOption> {
        Ok(ClogSingleConnection {
            min_delay: options.number("minDelay", 0.0)?,
            max_delay: options.number("maxDelay", 10.0)?,
            clog_duration: options.number("clogDuration", FOR_EVER)?,
        })
    }

    pub(super) async fn start(&self, context: &Context) {
        let (saboteur, random) = (&context.saboteur, &context.random);
        context
            .sleep(random.range(self.min_delay, self.max_delay.max(self.min_delay)))
            .await;
        let mut addresses: Vec<_> = saboteur
            .servers()
            .iter()
            .map(|process| saboteur.ip(*process))
            .collect();
        addresses.sort();
        addresses.dedup();
        random.shuffle(&mut addresses);
        if let [one, other, ..] = addresses[..] {
            context.clog_pair(one, other, self.clog_duration);
            context.clog_pair(other, one, self.clog_duration);
        }
    }
}
