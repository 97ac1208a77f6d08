//! Whether a thread that waits for another one should offer its processor meanwhile.
//!
//! A program, its network's thread and a server answer one another within microseconds, and there
//! may be fewer processors than that. So whoever waits looks again and again and offers its
//! processor in between: the thread that it waits for may need it, and gets it sooner than it would
//! be woken. Where other programs compute, they take the same offer, and keep the processor for
//! milliseconds. There it is better to sleep, because the system runs a thread that has slept
//! before those that have computed all the time. An offer that was taken for long is therefore not
//! repeated for a while, by no thread of the program.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a look and an offer take at most if none but the threads that answer one another take
/// the offer.
const OFFER_MAX: Duration = Duration::from_micros(200);
/// How long no offer is made after one that was taken for longer: long enough that what it took
/// does not matter, and short enough that the end of a build is noticed at once.
const PAUSE: Duration = Duration::from_millis(100);
/// How many offers [`look_for`] makes, and how often it looks after each: ten microseconds in all.
const OFFERS: u32 = 40;
const LOOKS_PER_OFFER: u32 = 25;

/// What the threads of this program know.
static CROWD: Crowd = Crowd::new();

/// A thread that looks for something and offers its processor in between. See the module.
pub(crate) struct Offers {
    last: Instant,
}

impl Offers {
    /// Begins, unless it is better to sleep at once.
    pub(crate) fn begin() -> Option<Offers> {
        let last = machine_time();
        (!CROWD.is_there(last)).then_some(Offers { last })
    }

    /// Offers the processor to other threads. Returns whether to go on looking.
    pub(crate) fn offer(&mut self) -> bool {
        std::thread::yield_now();
        let before = std::mem::replace(&mut self.last, machine_time());
        !CROWD.takes(before, self.last)
    }
}

/// Looks for about ten microseconds whether something has happened that needs several other threads
/// to happen; returns whether it has. See the module.
pub fn look_for(happened: impl Fn() -> bool) -> bool {
    let Some(mut offers) = Offers::begin() else {
        return happened();
    };
    for _ in 0..OFFERS {
        let goes_on = offers.offer();
        let looks = if goes_on { LOOKS_PER_OFFER } else { 1 };
        for _ in 0..looks {
            if happened() {
                return true;
            }
            std::hint::spin_loop();
        }
        if !goes_on {
            break;
        }
    }
    false
}

/// Other programs, which take offers and keep the processor.
struct Crowd {
    /// Until when they are thought to be there, in nanoseconds since the program first asked.
    until: AtomicU64,
}

impl Crowd {
    const fn new() -> Crowd {
        Crowd {
            until: AtomicU64::new(0),
        }
    }

    fn is_there(&self, now: Instant) -> bool {
        nanoseconds(now) < self.until.load(Ordering::Relaxed)
    }

    /// Notes how long an offer took. Returns whether they have taken it.
    fn takes(&self, before: Instant, after: Instant) -> bool {
        let is_taken = after.duration_since(before) > OFFER_MAX;
        if is_taken {
            let until = nanoseconds(after + PAUSE);
            self.until.fetch_max(until, Ordering::Relaxed);
        }
        is_taken
    }
}

fn nanoseconds(moment: Instant) -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let began = BEGAN.get_or_init(machine_time);
    moment.duration_since(*began).as_nanos() as u64
}

#[expect(
    clippy::disallowed_methods,
    reason = "only kernels on the machine's clock wait for other threads"
)]
fn machine_time() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_that_was_taken_for_long_is_not_repeated_for_a_while() {
        let crowd = Crowd::new();
        let now = machine_time();
        nanoseconds(now);
        let brief = now + OFFER_MAX;
        assert!(!crowd.takes(now, brief));
        assert!(!crowd.is_there(brief));
        let long = brief + 2 * OFFER_MAX;
        assert!(crowd.takes(brief, long));
        assert!(crowd.is_there(long));
        assert!(crowd.is_there(long + PAUSE / 2));
        assert!(!crowd.is_there(long + PAUSE));
    }

    #[test]
    fn what_has_happened_is_seen_in_a_crowd_too() {
        let now = machine_time();
        CROWD.takes(now, now + 2 * OFFER_MAX);
        assert!(look_for(|| true));
        assert!(!look_for(|| false));
    }
}
