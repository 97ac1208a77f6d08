//! Whether a history has an explanation, and if not, the smallest part that shows it.
//!
//! What is shown must be honest: from the part alone a reader can conclude that the whole has no
//! explanation. These cuts keep that promise.
//!
//! * A beginning: if a history has an explanation, so has every beginning of it. The same holds up
//!   to a version: what comes later in that order has not been seen.
//! * The rest, after a moment that no operation spans, if what came before can only have left the
//!   object in one state.
//! * The history without some of its reads: leaving out a read never takes an explanation away.
//!
//! A write cannot be left out, because what follows may have seen it, and neither can an operation
//! of unknown fate.

use super::models::Model;
use super::search::{Search, Step, Walk};
use super::shown::{Contradiction, NotLinearizable, Shown};
use super::{Order, Outcome, Record};
use std::collections::BTreeSet;

pub(super) fn check<M: Model>(records: &[Record<M>]) -> Result<(), NotLinearizable> {
    let whole = Problem::new(records, u64::MAX);
    let mut budget = STEPS_MAX;
    match whole.answer(&mut budget) {
        Walk::Stopped => Ok(()),
        Walk::GivenUp => Err(NotLinearizable::undecided(whole.steps.len())),
        Walk::Exhausted { .. } => Err(NotLinearizable::contradiction(
            whole.steps.len(),
            contradiction(records),
        )),
    }
}

fn contradiction<M: Model>(records: &[Record<M>]) -> Contradiction {
    let mut budget = CUT_STEPS_MAX;
    let budget = &mut budget;
    let beginning = shortest_beginning(records, budget).lowest_versions(budget);
    let (mut rest, before) = beginning.latest_rest(budget).unwrap_or((beginning, 0));
    rest.leave_out_reads(budget);
    let mut last_budget = STEPS_MAX;
    let (order, state) = match rest.answer(&mut last_budget) {
        Walk::Exhausted { longest, state } => (longest, format!("{state:?}")),
        // What was left has no explanation, or it would not be what was left.
        _ => (Vec::new(), String::new()),
    };
    let last = order.iter().map(|index| show(&rest.steps[*index]));
    let last = last.collect();
    rest.steps.sort_by_key(|step| step.called);
    Contradiction {
        before: (before > 0).then(|| (before, format!("{:?}", rest.start))),
        least: rest.steps.iter().map(show).collect(),
        longest: last,
        state,
    }
}

fn show<M: Model>(step: &Step<'_, M>) -> Shown {
    Shown {
        client: step.record.client,
        called: step.called,
        returned: step.returned.map(|(at, _)| at),
        operation: format!("{:?}", step.record.operation),
        output: step.returned.map(|(_, output)| format!("{output:?}")),
        version: step.order.map(|order| order.key().0),
    }
}

/// Operations to be explained, and the state in which they find the object.
struct Problem<'a, M: Model> {
    start: M::State,
    steps: Vec<Step<'a, M>>,
}

impl<'a, M: Model> Problem<'a, M> {
    /// The history up to a moment: what was called later is not in it, what returned later has not
    /// returned.
    fn new(records: &'a [Record<M>], until: u64) -> Self {
        let mut steps = Vec::new();
        for record in records.iter().filter(|record| record.called <= until) {
            let (returned, order) = match &record.outcome {
                Outcome::Failed => continue,
                Outcome::Returned { at, output, order } if *at <= until => {
                    (Some((*at, output)), *order)
                }
                Outcome::Returned { .. } | Outcome::Unknown => (None, None),
            };
            // A read that never returned shows nothing.
            if returned.is_none() && M::is_read(&record.operation) {
                continue;
            }
            steps.push(Step {
                record,
                called: record.called,
                returned,
                order,
            });
        }
        Problem {
            start: M::initial(),
            steps,
        }
    }

    fn answer(&self, budget: &mut u64) -> Walk<M> {
        let mut search = Search::new(&self.steps);
        search.walk(&self.start, budget, |_, _| true)
    }

    fn is_contradiction(&self, budget: &mut u64) -> bool {
        matches!(self.answer(budget), Walk::Exhausted { .. })
    }

    /// This contradiction up to the lowest version that is enough to show it. All of it where
    /// something returned without a version: that may have been before or after.
    fn lowest_versions(self, budget: &mut u64) -> Self {
        let returned = self.steps.iter().filter(|step| step.returned.is_some());
        let Some(mut keys) = returned
            .map(|step| step.order)
            .collect::<Option<Vec<Order>>>()
        else {
            return self;
        };
        keys.sort_unstable_by_key(|order| order.key());
        let (mut explained, mut contradicting) = (0, keys.len());
        let mut least = None;
        while explained < contradicting {
            let middle = explained + (contradicting - explained) / 2;
            let beginning = self.up_to(keys[middle]);
            if beginning.is_contradiction(budget) {
                contradicting = middle;
                least = Some(beginning);
            } else {
                explained = middle + 1;
            }
        }
        least.unwrap_or(self)
    }

    /// What returned with a version up to this one, and what may have happened before it.
    fn up_to(&self, last: Order) -> Self {
        let is_before = |step: &&Step<'_, M>| step.order.is_some_and(|one| one.key() <= last.key());
        let returns = self.steps.iter().filter(is_before);
        let returns = returns.filter_map(|step| Some(step.returned?.0));
        let last_return = returns.max().unwrap_or(0);
        let may_be_before =
            |step: &&Step<'_, M>| step.returned.is_none() && step.called < last_return;
        let steps = self.steps.iter();
        let steps = steps.filter(|step| is_before(step) || may_be_before(step));
        Problem {
            start: self.start.clone(),
            steps: steps.cloned().collect(),
        }
    }

    /// The least rest of this contradiction that is one by itself, and how many operations were
    /// before it.
    fn latest_rest(&self, budget: &mut u64) -> Option<(Self, usize)> {
        self.cuts().into_iter().take(CUTS_TRIED).find_map(|moment| {
            let (before, after): (Vec<_>, Vec<_>) = self
                .steps
                .iter()
                .cloned()
                .partition(|step| step.called < moment);
            let before = Problem {
                start: self.start.clone(),
                steps: before,
            };
            let (start, done) = before.only_end(budget)?;
            let mut steps = Vec::new();
            for (index, step) in before.steps.iter().enumerate() {
                // What has not happened before may happen later.
                if step.returned.is_none() && !done.contains(&index) {
                    steps.push(step.clone());
                }
            }
            let count = before.steps.len() - steps.len();
            steps.extend(after);
            let rest = Problem { start, steps };
            rest.is_contradiction(budget).then_some((rest, count))
        })
    }

    /// The moments that no operation spans, latest first. Those of unknown fate have no end, and
    /// span nothing.
    fn cuts(&self) -> Vec<u64> {
        let mut cuts = Vec::new();
        let mut last_return = 0;
        for step in &self.steps {
            if let Some((at, _)) = step.returned {
                if last_return > 0 && last_return < step.called {
                    cuts.push(step.called);
                }
                last_return = last_return.max(at);
            }
        }
        cuts.reverse();
        cuts
    }

    /// The state in which these operations leave the object, if there is only one, and which
    /// operations of unknown fate happened then.
    ///
    /// Of two paths to the same state, the one in which fewer of those have happened leaves open
    /// everything that the other does.
    fn only_end(&self, budget: &mut u64) -> Option<(M::State, BTreeSet<usize>)> {
        let mut only: Option<(M::State, BTreeSet<usize>)> = None;
        let mut several = false;
        let mut search = Search::new(&self.steps);
        let walk = search.walk(&self.start, budget, |done, state| {
            let is_unknown = |index: &usize| self.steps[*index].returned.is_none();
            let done: BTreeSet<usize> = done.iter().copied().filter(is_unknown).collect();
            match &only {
                Some((known, fewer)) if known == state && fewer.is_subset(&done) => {}
                Some((known, more)) if known != state || !done.is_subset(more) => several = true,
                _ => only = Some((state.clone(), done)),
            }
            several
        });
        only.filter(|_| matches!(walk, Walk::Exhausted { .. }))
    }

    /// Leaves out the reads that the contradiction does not need: many at once, then fewer.
    fn leave_out_reads(&mut self, budget: &mut u64) {
        let reads = |steps: &[Step<'_, M>]| -> Vec<usize> {
            let all = 0..steps.len();
            all.filter(|index| M::is_read(&steps[*index].record.operation))
                .collect()
        };
        let mut size = reads(&self.steps).len();
        while size > 0 {
            let mut from = 0;
            loop {
                let reads = reads(&self.steps);
                let Some(chunk) = reads.get(from..reads.len().min(from + size)) else {
                    break;
                };
                if chunk.is_empty() {
                    break;
                }
                let all = self.steps.iter().enumerate();
                let kept = all.filter(|(index, _)| !chunk.contains(index));
                let fewer = Problem {
                    start: self.start.clone(),
                    steps: kept.map(|(_, step)| step.clone()).collect(),
                };
                match fewer.is_contradiction(budget) {
                    true => *self = fewer,
                    false => from += size,
                }
            }
            size /= 2;
        }
    }
}

/// A search gives up after this many steps: a few seconds, in a program that is not optimised.
const STEPS_MAX: u64 = 1_000_000;
/// The same for all searches together that only make the contradiction shorter.
const CUT_STEPS_MAX: u64 = 4 * STEPS_MAX;
/// How many moments are tried for the same purpose.
const CUTS_TRIED: usize = 8;

/// The shortest beginning without an explanation. Where a search gives up, a longer one must do.
fn shortest_beginning<'a, M: Model>(records: &'a [Record<M>], budget: &mut u64) -> Problem<'a, M> {
    let (mut explained, mut contradicting) = (0, last_moment(records));
    while contradicting - explained > 1 {
        let middle = explained + (contradicting - explained) / 2;
        match Problem::new(records, middle).is_contradiction(budget) {
            true => contradicting = middle,
            false => explained = middle,
        }
    }
    Problem::new(records, contradicting)
}

fn last_moment<M: Model>(records: &[Record<M>]) -> u64 {
    let moments = records.iter().map(|record| match record.outcome {
        Outcome::Returned { at, .. } => at,
        _ => record.called,
    });
    moments.max().unwrap_or(0)
}
