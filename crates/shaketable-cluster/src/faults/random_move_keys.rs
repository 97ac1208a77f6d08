//! RandomMoveKeys: ranges of keys move between storage servers for no reason.

use super::{BadOption, Context, Options};
use crate::proto::KeyRange;
use bytes::Bytes;
use shaketable_kernel::Stream;

/// The options of RandomMoveKeys.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomMoveKeys {
    /// How long it runs, in seconds.
    pub test_duration: f64,
    /// The mean time between moves, in seconds.
    pub mean_delay: f64,
    /// The largest fraction of the key space that moves at once.
    pub max_keyspace: f64,
}

impl RandomMoveKeys {
    pub(super) fn read(options: &mut Options<'_>, _: &Stream) -> Result<Self, BadOption> {
        Ok(RandomMoveKeys {
            test_duration: options.number("testDuration", 10.0)?,
            mean_delay: options.number("meanDelay", 0.05)?,
            max_keyspace: options.number("maxKeyspace", 0.1)?,
        })
    }

    pub(super) async fn start(&self, context: &Context) {
        let (here, random) = (context.here(), &context.random);
        let moves = async {
            let mut last = here.now();
            loop {
                context.poisson(&mut last, self.mean_delay).await;
                let width = random.uniform() * self.max_keyspace;
                let begin = random.uniform() * (1.0 - width);
                let key = |part: f64| {
                    // Two bytes of the printable keys that people use, or of any key.
                    let number = (part * 65_280.0) as u16;
                    Bytes::copy_from_slice(&number.to_be_bytes())
                };
                let range = KeyRange {
                    begin: key(begin),
                    end: key(begin + width),
                };
                if range.begin < range.end && context.acts("move keys") {
                    context.saboteur.move_keys(range).await;
                }
            }
        };
        let _ = here.timeout(self.test_duration, moves).await;
    }
}
