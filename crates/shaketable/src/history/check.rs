//! The search for an order that explains every answer.
//!
//! It goes as Wing and Gong proposed and Lowe improved: take an operation that nothing else must precede, do it, see whether it answers as it did,
//! go on; where that ends, go back. Two ways that did the same operations and left the same state need not both be followed, and of
//! several operations of unknown fate that do the same only the earliest is tried.
//!
//! Precedence has two sources: an operation that returned before another was called, and the versions that FoundationDB gave to both. An
//! operation of unknown fate has neither end nor version, so it precedes nothing, and it may be left out.

use super::models::Model;
use super::shown::{NotLinearizable, Shown};
use super::{Order, Outcome, Record};
use std::collections::{BTreeMap, BTreeSet};

/// After so many steps the search gives up: some seconds.
const STEPS_MAX: u64 = 4_000_000;

/// An operation, as the search sees it.
struct Step<'a, M: Model> {
    record: &'a Record<M>,
    called: u64,
    /// When it returned, and what; `None` for an operation that may be left out.
    returned: Option<(u64, &'a M::Output)>,
    order: Option<Order>,
}

impl<M: Model> Clone for Step<'_, M> {
    fn clone(&self) -> Self {
        Step { ..*self }
    }
}

enum Answer {
    Explained,
    /// The longest part of an order that was found, and the state it leaves.
    Contradiction(Vec<usize>, String),
    Undecided,
}

pub(super) fn check<M: Model>(records: &[Record<M>]) -> Result<(), NotLinearizable> {
    let steps = steps(records, u64::MAX);
    match search(&steps) {
        Answer::Explained => Ok(()),
        Answer::Undecided => Err(NotLinearizable::undecided(steps.len())),
        Answer::Contradiction(..) => {
            let least = reduce(records);
            let (order, state) = match search(&least) {
                Answer::Contradiction(order, state) => (order, state),
                // What was left has no explanation, or it would not be what was left.
                _ => (Vec::new(), String::new()),
            };
            let shown = least.iter().map(show).collect();
            let last = order.iter().map(|index| show(&least[*index])).collect();
            Err(NotLinearizable::contradiction(
                steps.len(),
                shown,
                last,
                state,
            ))
        }
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

/// The history up to a moment: what was called later is not in it, what returned later has not returned.
fn steps<M: Model>(records: &[Record<M>], until: u64) -> Vec<Step<'_, M>> {
    let mut steps = Vec::new();
    for record in records.iter().filter(|record| record.called <= until) {
        let (returned, order) = match &record.outcome {
            Outcome::Failed => continue,
            Outcome::Returned { at, output, order } if *at <= until => {
                (Some((*at, output)), *order)
            }
            Outcome::Returned { .. } | Outcome::Unknown => (None, None),
        };
        steps.push(Step {
            record,
            called: record.called,
            returned,
            order,
        });
    }
    steps
}

/// The shortest beginning without an explanation, and of that only the reads it needs.
///
/// Both keep the contradiction an honest one: a beginning of an explained history is explained, and so is an explained history
/// without some of its reads.
fn reduce<M: Model>(records: &[Record<M>]) -> Vec<Step<'_, M>> {
    let contradicts = |steps: &[Step<'_, M>]| matches!(search(steps), Answer::Contradiction(..));
    let (mut explained, mut contradicting) = (0, last_moment(records));
    while contradicting - explained > 1 {
        let middle = explained + (contradicting - explained) / 2;
        if contradicts(&steps(records, middle)) {
            contradicting = middle;
        } else {
            explained = middle;
        }
    }
    let mut least = steps(records, contradicting);
    // A read whose answer never came says nothing.
    let says_something =
        |step: &Step<'_, M>| step.returned.is_some() || !M::is_read(&step.record.operation);
    least.retain(says_something);
    let mut index = 0;
    while index < least.len() {
        let mut fewer = least.clone();
        let removed = fewer.remove(index);
        if M::is_read(&removed.record.operation) && contradicts(&fewer) {
            least = fewer;
        } else {
            index += 1;
        }
    }
    least
}

fn last_moment<M: Model>(records: &[Record<M>]) -> u64 {
    let moments = records.iter().map(|record| match record.outcome {
        Outcome::Returned { at, .. } => at,
        _ => record.called,
    });
    moments.max().unwrap_or(0)
}

/// Whether `first` must come before `second`.
fn precedes<M: Model>(first: &Step<'_, M>, second: &Step<'_, M>) -> bool {
    if first.returned.is_some_and(|(at, _)| at < second.called) {
        return true;
    }
    match (first.order, second.order) {
        (Some(first), Some(second)) => first.key() < second.key(),
        _ => false,
    }
}

fn search<M: Model>(steps: &[Step<'_, M>]) -> Answer {
    let required = steps.iter().filter(|step| step.returned.is_some()).count();
    let candidates = candidates(steps);
    let twins = twins(steps);
    let mut progress = Progress::new(steps);
    let mut seen: BTreeSet<(Bits, M::State)> = BTreeSet::new();
    let mut longest: (Vec<usize>, M::State) = (Vec::new(), M::initial());
    // One frame for each operation done: the state before it, and the next candidate to try in its place.
    let mut frames: Vec<(M::State, usize)> = vec![(M::initial(), 0)];
    let mut budget = STEPS_MAX;
    while let Some((state, next)) = frames.last_mut() {
        if progress.required_done == required {
            return Answer::Explained;
        }
        let Some(&index) = candidates.get(*next) else {
            frames.pop();
            progress.undo(steps);
            continue;
        };
        *next += 1;
        let has_better_twin = twins[index].is_some_and(|twin| !progress.done.has(twin));
        if !progress.is_free(index) || has_better_twin {
            continue;
        }
        if budget == 0 {
            return Answer::Undecided;
        }
        budget -= 1;
        let mut after = state.clone();
        let output = M::apply(&mut after, &steps[index].record.operation);
        let told = steps[index].returned.map(|(_, told)| told);
        if told.is_some_and(|told| *told != output) {
            continue;
        }
        progress.apply(index, steps);
        if !seen.insert((progress.done.clone(), after.clone())) {
            progress.undo(steps);
            continue;
        }
        if progress.order.len() > longest.0.len() {
            longest = (progress.order.clone(), after.clone());
        }
        frames.push((after, 0));
    }
    Answer::Contradiction(longest.0, format!("{:?}", longest.1))
}

/// The order in which operations are tried: those that happened first, because whether one of unknown fate did is only to be asked
/// where nothing else goes on.
fn candidates<M: Model>(steps: &[Step<'_, M>]) -> Vec<usize> {
    let mut candidates: Vec<usize> = (0..steps.len()).collect();
    candidates.sort_by_key(|index| steps[*index].returned.is_none());
    candidates
}

/// For each operation of unknown fate the last one before it that does the same. Wherever the later one could have happened, the
/// earlier one could, so it need not be tried while the earlier one is left.
fn twins<M: Model>(steps: &[Step<'_, M>]) -> Vec<Option<usize>> {
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    let twin = |(index, step): (usize, &Step<'_, M>)| match step.returned {
        Some(_) => None,
        None => last.insert(format!("{:?}", step.record.operation), index),
    };
    steps.iter().enumerate().map(twin).collect()
}

/// Where the search is.
struct Progress {
    done: Bits,
    order: Vec<usize>,
    required_done: usize,
    /// How many operations that are not done must come before each.
    waits_for: Vec<u32>,
    /// Which operations must come after each.
    after: Vec<Vec<usize>>,
}

impl Progress {
    fn new<M: Model>(steps: &[Step<'_, M>]) -> Self {
        let after: Vec<Vec<usize>> = steps
            .iter()
            .map(|first| {
                let all = steps.iter().enumerate();
                all.filter(|(_, second)| precedes(first, second))
                    .map(|(index, _)| index)
                    .collect()
            })
            .collect();
        let mut waits_for = vec![0; steps.len()];
        for index in after.iter().flatten() {
            waits_for[*index] += 1;
        }
        Progress {
            done: Bits::new(steps.len()),
            order: Vec::new(),
            required_done: 0,
            waits_for,
            after,
        }
    }

    fn is_free(&self, index: usize) -> bool {
        self.waits_for[index] == 0 && !self.done.has(index)
    }

    fn apply<M: Model>(&mut self, index: usize, steps: &[Step<'_, M>]) {
        self.done.set(index, true);
        self.order.push(index);
        self.required_done += usize::from(steps[index].returned.is_some());
        for later in &self.after[index] {
            self.waits_for[*later] -= 1;
        }
    }

    fn undo<M: Model>(&mut self, steps: &[Step<'_, M>]) {
        if let Some(index) = self.order.pop() {
            self.done.set(index, false);
            self.required_done -= usize::from(steps[index].returned.is_some());
            for later in &self.after[index] {
                self.waits_for[*later] += 1;
            }
        }
    }
}

/// A set of small numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(length: usize) -> Self {
        Bits(vec![0; length.div_ceil(64)])
    }

    fn has(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 == 1
    }

    fn set(&mut self, index: usize, value: bool) {
        let bit = 1 << (index % 64);
        match value {
            true => self.0[index / 64] |= bit,
            false => self.0[index / 64] &= !bit,
        }
    }
}
