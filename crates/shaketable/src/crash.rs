//! When a client dies, and what its next life finds.
//!
//! FoundationDB's simulator never kills a client: it is the tester. But the process that uses a
//! database dies like any other, between two transactions or in the middle of one. Where the test
//! file asks for it, `start` is dropped at one of its awaits, everything that the client had in
//! memory is gone, and a fresh instance of the workload goes on with
//! [`recover`](crate::Workload::recover). The executor does it, so it works under every host.
//!
//! Two options of the workload's block ask for it:
//!
//! * `shaketableCrashes = 2` lets each client die at most twice, at awaits that the seed draws;
//! * `shaketableCrashAt = '2:40, 0:3+'` lets client 2 die at its await 40, and client 0 at its
//!   await 3 when that one would go on; `'none'` lets no client die, whatever the other option
//!   says.
//!
//! A host that looks for every death writes `shaketableCrashAt = 'ask'`. Then the executor asks it
//! at each await, with the option `shaketableAwait`, and the answer `dies` or `dies when it would
//! go on` is the one death of that client. So a host can copy its process at an await, and let the
//! client die in the copy.
//!
//! What is drawn depends only on the seed, the client and the numbers of its awaits, and no random
//! number is taken from the client's stream. So a run in which clients died is the same run when
//! `shaketableCrashAt` lists these deaths.

use crate::context::{Severity, WorkloadContext};
use crate::details;
use crate::draw;
use crate::executor::awaits::{Awaits, Moment};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The deaths that the test file asks for, of one client.
pub(crate) enum Crashes {
    /// At most this many, where the seed wants them.
    Drawn(u32),
    /// These.
    At(Vec<Moment>),
    /// One, where the host says so.
    Asked,
}

impl Crashes {
    /// Reads the options; `None` if no client is to die.
    pub(crate) fn read(context: &WorkloadContext) -> Option<Crashes> {
        let most = context.get_option(MOST);
        let at = context.option_text(AT);
        match (most, at) {
            (_, Some(text)) if text == ASK => Some(Crashes::Asked),
            (_, Some(text)) => match parse(&text, context.client_id()) {
                Some(moments) => Some(Crashes::At(moments)),
                None => {
                    context.trace(
                        Severity::Error,
                        "WorkloadOptionInvalid",
                        details![
                            "Option" => AT,
                            "Value" => text,
                            "Expected" => "client:await, separated by commas, such as `2:40, 0:3+`",
                        ],
                    );
                    None
                }
            },
            (Some(0) | None, None) => None,
            (Some(most), None) => Some(Crashes::Drawn(most)),
        }
    }

    /// Counts the awaits of a client that died `deaths` times and had `awaits` awaits so far.
    pub(crate) fn count(&self, context: &WorkloadContext, deaths: u32, awaits: u64) -> Awaits {
        match self {
            Crashes::Asked if deaths == 0 => {
                let context = context.clone();
                Awaits::asking(move |at| {
                    let is_late = match &*context.ask_about_await() {
                        DIES => false,
                        DIES_LATE => true,
                        _ => return None,
                    };
                    Some(Moment { at, is_late })
                })
            }
            _ => Awaits::new(awaits, self.next(context, deaths, awaits)),
        }
    }

    /// The next death.
    fn next(&self, context: &WorkloadContext, deaths: u32, awaits: u64) -> Option<Moment> {
        match self {
            Crashes::Asked => None,
            Crashes::At(moments) => moments.iter().find(|moment| moment.at > awaits).copied(),
            Crashes::Drawn(most) => {
                let times = draw(context, COUNT, 0) % (u64::from(*most) + 1);
                (u64::from(deaths) < times).then(|| {
                    // Phases are of all lengths, so every order of magnitude is as likely.
                    let gap = spread(draw(context, GAP, awaits), 1.0, AWAITS_MAX);
                    let at = awaits + gap as u64;
                    let is_late = draw(context, LATE, at) % 2 == 1;
                    Moment { at, is_late }
                })
            }
        }
    }
}

/// How long a client that died at this await stays dead, in simulated time.
pub(crate) fn down_time(context: &WorkloadContext, moment: Moment) -> Duration {
    let number = draw(context, DOWN, moment.at);
    match draw::chance(0.5, number) {
        true => Duration::ZERO,
        false => Duration::from_secs_f64(spread(number.rotate_left(32), 0.01, 10.0)),
    }
}

/// What the lives of one client read of the test file: the host hands out an option once.
#[derive(Default)]
pub(crate) struct OptionMemory(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    /// Each option that was read, and whether this life has read it.
    texts: BTreeMap<String, (String, bool)>,
}

impl OptionMemory {
    /// The option's text, from the host if no life has read it; empty if this one has.
    pub(crate) fn take(&self, name: &str, ask: impl FnOnce() -> String) -> String {
        let mut memory = self.lock();
        match memory.texts.get_mut(name) {
            Some((_, true)) => String::new(),
            Some((text, is_read)) => {
                *is_read = true;
                text.clone()
            }
            None => {
                let text = ask();
                memory.texts.insert(name.to_owned(), (text.clone(), true));
                text
            }
        }
    }

    /// Another life begins, which has read nothing.
    pub(crate) fn begin_life(&self) {
        for (_, is_read) in self.lock().texts.values_mut() {
            *is_read = false;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        // Nothing panics while the lock is held, so a poisoned lock guards sound data.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const MOST: &str = "shaketableCrashes";
const AT: &str = "shaketableCrashAt";
/// The host is asked instead.
const ASK: &str = "ask";
/// What it answers.
const DIES: &str = "dies";
const DIES_LATE: &str = "dies when it would go on";
/// A list without deaths: an option that is empty is as one that is missing.
const NONE: &str = "none";

/// The gap before a death is at most this many awaits.
const AWAITS_MAX: f64 = 1024.0;

// Set the draws of a client apart.
const COUNT: u64 = 0;
const GAP: u64 = 1;
const LATE: u64 = 2;
const DOWN: u64 = 3;

fn draw(context: &WorkloadContext, what: u64, number: u64) -> u64 {
    let words = [context.client_id() as u64, what, number];
    draw::number(context.shared_random_number(), "a client dies", &words)
}

/// A number from `least` up to `most`; each order of magnitude is as likely as the others.
fn spread(number: u64, least: f64, most: f64) -> f64 {
    let part = (number >> 11) as f64 / (1_u64 << 53) as f64;
    least * (most / least).powf(part)
}

/// The moments of one client, in order.
fn parse(text: &str, client: i32) -> Option<Vec<Moment>> {
    let mut moments = Vec::new();
    if text.trim() == NONE {
        return Some(moments);
    }
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (of, at) = part.split_once(':')?;
        let (at, is_late) = match at.strip_suffix('+') {
            Some(at) => (at, true),
            None => (at, false),
        };
        let of: i32 = of.trim().parse().ok()?;
        let at = at.trim().parse().ok().filter(|at| *at > 0)?;
        if of == client {
            moments.push(Moment { at, is_late });
        }
    }
    moments.sort();
    Some(moments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_one_client_in_order() {
        let moments = parse("2:40, 0:3+,2:7", 2).expect("all are well written");
        let texts: Vec<String> = moments.iter().map(Moment::to_string).collect();
        assert_eq!(texts, ["7", "40"]);
        let [late] = &parse("2:40, 0:3+", 0).expect("all are well written")[..] else {
            panic!("client 0 has one")
        };
        assert_eq!(late.to_string(), "3+");
        for empty in ["", "none"] {
            assert_eq!(parse(empty, 0), Some(Vec::new()));
        }
        for wrong in ["12", "a:1", "1:0", "1:-2", "1:2-"] {
            assert_eq!(parse(wrong, 1), None, "{wrong}");
        }
    }

    #[test]
    fn every_order_of_magnitude_is_as_likely() {
        let numbers = (0..10_000).map(|seed| draw::number(seed, "x", &[]));
        let small = numbers.filter(|number| spread(*number, 1.0, 1024.0) < 32.0);
        assert!((4_700..5_300).contains(&small.count()));
    }

    #[test]
    fn each_life_reads_the_same_options_once() {
        let memory = OptionMemory::default();
        assert_eq!(memory.take("rounds", || "20".to_owned()), "20");
        assert_eq!(memory.take("rounds", || "no".to_owned()), "");
        memory.begin_life();
        assert_eq!(memory.take("rounds", || "no".to_owned()), "20");
        assert_eq!(memory.take("rounds", || "no".to_owned()), "");
    }
}
