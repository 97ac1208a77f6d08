//! RandomRangeLock: ranges of keys are locked against writes for a while; writers get error 1242.
//! Does nothing unless the knob `enable_read_lock_on_range` is set.

use super::{BadOption, Context, Options};
use crate::server::metadata::RANGE_LOCK_PREFIX;
use bytes::Bytes;
use shaketable_kernel::{Priority, Stream};

/// How many locks there are.
const ACTORS: usize = 10;

/// The options of RandomRangeLock.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomRangeLock {
    /// The longest lock, in seconds.
    pub max_lock_duration: f64,
    /// The latest start, in seconds.
    pub max_start_delay: f64,
}

impl RandomRangeLock {
    pub(super) fn read(options: &mut Options<'_>, _: &Stream) -> Result<Self, BadOption> {
        Ok(RandomRangeLock {
            max_lock_duration: options.number("maxLockDuration", 60.0)?,
            max_start_delay: options.number("maxStartDelay", 300.0)?,
        })
    }

    pub(super) async fn start(&self, context: &Context) {
        if !context.saboteur.knobs().enable_read_lock_on_range {
            return;
        }
        let here = context.here();
        let actors: Vec<_> = (0..ACTORS)
            .map(|_| {
                let (workload, context) = (self.clone(), context.clone());
                here.spawn(Priority::DefaultEndpoint, async move {
                    workload.lock_once(&context).await;
                })
            })
            .collect();
        for actor in actors {
            actor.join().await;
        }
    }

    async fn lock_once(&self, context: &Context) {
        let random = &context.random;
        let key = || -> Bytes {
            let length = random.range(1, 3_usize);
            (0..length)
                .map(|_| random.range(0, 255_u8))
                .collect::<Vec<u8>>()
                .into()
        };
        let (mut begin, mut end) = (key(), key());
        if begin > end {
            std::mem::swap(&mut begin, &mut end);
        }
        let row = |key: &Bytes| -> Bytes { [RANGE_LOCK_PREFIX, key].concat().into() };
        let (begin, end) = (row(&begin), row(&end));
        context.sleep(random.uniform() * self.max_start_delay).await;
        if begin == end || !context.saboteur.faults_enabled() || !context.acts("lock a range") {
            return;
        }
        let locked = context
            .system_transaction(async |transaction| {
                transaction.set(begin.clone(), Bytes::from_static(b"1"));
                transaction.set(end.clone(), Bytes::from_static(b"0"));
                Ok(())
            })
            .await;
        if locked.is_err() {
            return;
        }
        context
            .sleep(random.uniform() * self.max_lock_duration)
            .await;
        let unlocked = context
            .system_transaction(async |transaction| {
                transaction.clear(begin.clone());
                transaction.clear(end.clone());
                Ok(())
            })
            .await;
        debug_assert!(unlocked.is_ok(), "an unlock is retried until it commits");
    }
}
