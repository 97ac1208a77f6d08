//! When a failure became inevitable.
//!
//! A run is a long row of draws. If the draws after a moment are made anew, the run may still fail,
//! or not any more: before the decisive event it mostly passes, after it it mostly fails. So for a
//! number of moments many *futures* are run, each the same up to the moment and drawn from another
//! seed after it, and the share of those that fail in the same way is the probability of the
//! failure at that moment. Where it jumps most, the search goes on, from one thing that happened in
//! the run to the next, until a single moment is left at which something happened that decided it.
//!
//! Futures are numbered: the same question gets the same answer every time.

use crate::chance::Share;
use crate::minimise::oracle::{Forked, Oracle};
use serde::Serialize;
use shaketable_host::case::{Case, ReseedStreams};
use shaketable_host::minimise::Tried;
use std::rc::Rc;

/// How likely the failure was at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Moment {
    /// Simulated seconds.
    pub time: f64,
    /// How many futures were run.
    pub futures: u64,
    /// How many of them failed in the same way.
    pub failed: u64,
}

impl Moment {
    /// The share of futures that failed.
    pub fn probability(&self) -> f64 {
        self.share().value()
    }

    fn share(&self) -> Share {
        Share {
            hits: self.failed,
            of: self.futures,
        }
    }

    /// Where the true probability lies with a confidence of 95 % (Wilson's score interval).
    pub fn interval(&self) -> (f64, f64) {
        self.share().interval()
    }
}

/// What was found out about a run.
#[derive(Debug, Clone, PartialEq)]
pub struct When {
    /// The moments, in the order of time.
    pub moments: Vec<Moment>,
    /// The moments before and after the largest jump.
    pub jump: (Moment, Moment),
    /// The times in between at which something happened.
    pub happenings: Vec<f64>,
}

/// How many moments are looked at first.
const MOMENTS: usize = 16;

/// Asks about a run that fails at `end`, and in which something happened at these times. `ask`
/// returns how many of that many futures from a moment on fail, or `None` if time was up.
pub fn when(
    end: f64,
    happenings: &[f64],
    futures: u64,
    mut ask: impl FnMut(&[f64], u64) -> Option<Vec<u64>>,
) -> Option<When> {
    let mut look = |times: &[f64]| -> Option<Vec<Moment>> {
        let failed = ask(times, futures)?;
        let moments = times.iter().zip(failed).map(|(time, failed)| Moment {
            time: *time,
            futures,
            failed,
        });
        Some(moments.collect())
    };
    let times: Vec<f64> = (0..=MOMENTS)
        .map(|step| end * step as f64 / MOMENTS as f64)
        .collect();
    let mut moments = look(&times)?;
    let (mut before, mut after) = largest_jump(&moments);
    let mut between = inside(happenings, before.time, after.time);
    while between.len() > 1 {
        let middle = between.len() / 2;
        let time = (between[middle - 1] + between[middle]) / 2.0;
        let Some(found) = look(&[time]) else {
            break;
        };
        let place = moments.partition_point(|moment| moment.time < time);
        moments.insert(place, found[0]);
        (before, after) = largest_jump(&[before, found[0], after]);
        between = inside(happenings, before.time, after.time);
    }
    Some(When {
        moments,
        jump: (before, after),
        happenings: between,
    })
}

/// The neighbours between which the probability grows most; the later ones, if several do.
fn largest_jump(moments: &[Moment]) -> (Moment, Moment) {
    let grows = |pair: &(Moment, Moment)| pair.1.probability() - pair.0.probability();
    let pairs = moments.windows(2).map(|pair| (pair[0], pair[1]));
    pairs
        .max_by(|one, other| grows(one).total_cmp(&grows(other)))
        .expect("there are at least two moments")
}

/// The distinct times from one moment on and before another. A future is drawn anew before anything
/// else happens at its moment: what happens at the very beginning, when the cluster is drawn, lies
/// after the first moment.
fn inside(happenings: &[f64], from: f64, before: f64) -> Vec<f64> {
    let times = happenings.iter().copied();
    let mut times: Vec<f64> = times.filter(|time| (from..before).contains(time)).collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    times
}

/// How many futures of a case fail from each of these moments on. The run is copied at the moments;
/// if its process cannot be, each future is run from its beginning.
pub fn run_futures(
    oracle: &mut Oracle<'_>,
    case: &Case,
    times: &[f64],
    futures: u64,
) -> Option<Vec<u64>> {
    match oracle.fork(case, times, futures) {
        Forked::Failed(failed) => Some(failed),
        Forked::Stopped => None,
        Forked::Impossible => run_from_the_beginning(oracle, case, times, futures),
    }
}

fn run_from_the_beginning(
    oracle: &mut Oracle<'_>,
    case: &Case,
    times: &[f64],
    futures: u64,
) -> Option<Vec<u64>> {
    let cases = times.iter().flat_map(|time| {
        (1..=futures).map(|seed| {
            let mut case = case.clone();
            case.reseed.push(ReseedStreams {
                streams: String::new(),
                seed,
                from: *time,
            });
            case
        })
    });
    let tried = oracle.all(&cases.collect::<Vec<Case>>())?;
    let count = |chunk: &[Rc<Tried>]| chunk.iter().filter(|tried| tried.fails).count() as u64;
    Some(tried.chunks(futures as usize).map(count).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_decisive_moment_is_found() {
        let happenings: Vec<f64> = (1..=1000).map(|step| f64::from(step) * 0.03).collect();
        // One in ten fails anyway; after 17.31 s nine in ten do.
        let mut asked = 0;
        let found = when(30.0, &happenings, 40, |times, futures| {
            asked += times.len();
            let share = |time: &f64| if *time < 17.31 { 0.1 } else { 0.9 };
            Some(
                times
                    .iter()
                    .map(|time| (share(time) * futures as f64) as u64)
                    .collect(),
            )
        });
        let found = found.unwrap();
        assert_eq!(found.happenings.len(), 1);
        assert!((found.happenings[0] - 17.31).abs() < 1e-6, "{found:?}");
        assert!(found.jump.0.probability() < 0.2 && found.jump.1.probability() > 0.8);
        assert!(found.moments.is_sorted_by_key(|moment| moment.time));
        assert!(asked < 30, "{asked} moments");
    }

    #[test]
    fn what_is_drawn_at_the_very_beginning_can_be_decisive() {
        let found = when(8.0, &[0.0, 3.0, 8.0], 10, |times, futures| {
            let failed = |time: &f64| if *time > 0.0 { futures } else { 0 };
            Some(times.iter().map(failed).collect())
        });
        assert_eq!(found.unwrap().happenings, [0.0]);
    }

    #[test]
    fn a_search_that_is_stopped_has_no_answer() {
        assert_eq!(when(1.0, &[0.5], 10, |_, _| None), None);
    }

    #[test]
    fn an_interval_holds_the_share_and_shrinks_with_more_futures() {
        let moment = |failed, futures| Moment {
            time: 0.0,
            futures,
            failed,
        };
        for (failed, futures) in [(0, 10), (5, 10), (10, 10), (50, 100)] {
            let one = moment(failed, futures);
            let (low, high) = one.interval();
            assert!(low <= one.probability() && one.probability() <= high);
            assert!((0.0..=1.0).contains(&low) && (0.0..=1.0).contains(&high));
        }
        let width = |moment: Moment| moment.interval().1 - moment.interval().0;
        assert!(width(moment(50, 100)) < width(moment(5, 10)));
    }
}
