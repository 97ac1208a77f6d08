//! The search for an order that explains every result.
//!
//! It goes as Wing and Gong proposed and Lowe improved: take an operation that nothing else must
//! precede, apply it, compare the result with the recorded one, and continue; at a dead end,
//! backtrack. Two paths that applied the same operations and left the same state need not both be
//! followed, and of several operations that do the same only the earliest is tried.
//!
//! Precedence has two sources: an operation that returned before another was called, and the
//! versions that FoundationDB gave to both. An operation of unknown fate has neither end nor
//! version, so it precedes nothing, and it may be left out. So two numbers decide whether an
//! operation may come next, the earliest return and the lowest version of those that are not done,
//! and checking a history of thousands of operations of which few overlap costs little more than
//! walking through it.

use super::models::Model;
use super::{Order, Record};
use crate::draw;
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// An operation, as the search sees it.
pub(super) struct Step<'a, M: Model> {
    pub(super) record: &'a Record<M>,
    pub(super) called: u64,
    /// When it returned, and what; `None` for an operation that may be left out.
    pub(super) returned: Option<(u64, &'a M::Output)>,
    pub(super) order: Option<Order>,
}

impl<M: Model> Clone for Step<'_, M> {
    fn clone(&self) -> Self {
        Step { ..*self }
    }
}

/// How a search ended.
pub(super) enum Walk<M: Model> {
    /// An explanation was found, and was enough.
    Stopped,
    /// Everything was tried: the longest partial order that was found, and the state it leaves.
    Exhausted {
        longest: Vec<usize>,
        state: M::State,
    },
    /// It took too long.
    GivenUp,
}

/// Where the search is.
pub(super) struct Search<'s, 'a, M: Model> {
    steps: &'s [Step<'a, M>],
    /// Those that returned, in the order of their calls, and then those of unknown fate, in that
    /// order, too: an operation of unknown fate is only tried where no other one can come next.
    candidates: Vec<usize>,
    /// How many of the candidates returned.
    required: usize,
    /// For each candidate one that was called before it, did the same with the same result, and
    /// returned no later. Wherever the later one could have happened, the earlier one could, and
    /// the other way round, so it need not be tried while the earlier one is left.
    twins: Vec<Option<usize>>,
    /// Whether nothing else can take a candidate's place: no other path leads to the same state, so
    /// there is nothing to remember.
    alone: Vec<bool>,
    /// The candidates in their own order, in that of their returns, and in that of their versions.
    open: Line<usize>,
    returns: Line<u64>,
    versions: Line<(i64, bool)>,
    done: Vec<bool>,
    order: Vec<usize>,
    /// Stands for the set of those that are done: the words of all of them, combined.
    done_word: u128,
}

impl<'s, 'a, M: Model> Search<'s, 'a, M> {
    pub(super) fn new(steps: &'s [Step<'a, M>]) -> Self {
        let mut candidates: Vec<usize> = (0..steps.len()).collect();
        candidates.sort_by_key(|index| (steps[*index].returned.is_none(), steps[*index].called));
        let required = steps.iter().filter(|step| step.returned.is_some()).count();
        let at = |candidate: usize| &steps[candidates[candidate]];
        let numbers = || 0..candidates.len();
        let returns = numbers().map(|n| at(n).returned.map(|(moment, _)| moment));
        let versions = numbers().map(|n| at(n).order.map(Order::key));
        Search {
            twins: numbers()
                .map(|n| {
                    let first = match n < required {
                        true => n.saturating_sub(TWINS_TRIED),
                        false => required,
                    };
                    (first..n).rev().find(|m| are_twins(at(*m), at(n)))
                })
                .collect(),
            alone: alone(steps.len(), required, at),
            open: Line::new(numbers().map(Some).collect()),
            returns: Line::new(returns.collect()),
            versions: Line::new(versions.collect()),
            done: vec![false; steps.len()],
            order: Vec::new(),
            done_word: 0,
            steps,
            required,
            candidates,
        }
    }

    /// Calls `found` with each explanation, its operations and the state they leave, until it
    /// returns `true`.
    pub(super) fn walk(
        &mut self,
        start: &M::State,
        budget: &mut u64,
        mut found: impl FnMut(&[usize], &M::State) -> bool,
    ) -> Walk<M> {
        let mut seen: HashSet<u128, BuildHasherDefault<DefaultHasher>> = HashSet::default();
        let mut longest: (Vec<usize>, M::State) = (Vec::new(), start.clone());
        // One frame for each operation done: the state before it, and the next candidate to try in
        // its place.
        let mut frames: Vec<(M::State, usize)> = vec![(start.clone(), 0)];
        while let Some((state, next)) = frames.last() {
            let is_explained = self.returns.least().is_none();
            if is_explained && found(&self.steps_done(), state) {
                return Walk::Stopped;
            }
            let candidate = match is_explained {
                true => None,
                false => self.next(*next),
            };
            let Some(candidate) = candidate else {
                if self.order.len() > longest.0.len() {
                    longest = (self.steps_done(), state.clone());
                }
                frames.pop();
                self.undo();
                continue;
            };
            if *budget == 0 {
                return Walk::GivenUp;
            }
            *budget -= 1;
            let after = match self.is_in_vain(&frames, candidate) {
                true => None,
                false => self.try_on(state, candidate),
            };
            if let Some((_, next)) = frames.last_mut() {
                *next = candidate + 1;
            }
            let Some(after) = after else { continue };
            self.apply(candidate);
            if !self.alone[candidate] && !seen.insert(self.fingerprint(&after)) {
                self.undo();
                continue;
            }
            frames.push((after, 0));
        }
        Walk::Exhausted {
            longest: longest.0,
            state: longest.1,
        }
    }

    fn step(&self, candidate: usize) -> &'s Step<'a, M> {
        &self.steps[self.candidates[candidate]]
    }

    /// The state after a candidate, if its result is the recorded one.
    fn try_on(&self, state: &M::State, candidate: usize) -> Option<M::State> {
        let step = self.step(candidate);
        let mut after = state.clone();
        let output = M::apply(&mut after, &step.record.operation);
        let agrees = step
            .returned
            .is_none_or(|(_, recorded)| *recorded == output);
        agrees.then_some(after)
    }

    /// Whether a candidate follows one of unknown fate that could just as well come after it. An
    /// operation of unknown fate is placed only where it makes a difference.
    fn is_in_vain(&self, frames: &[(M::State, usize)], candidate: usize) -> bool {
        let Some(last) = self.last_unknown().filter(|_| candidate < self.required) else {
            return false;
        };
        let [.., (before, _), (now, _)] = frames else {
            return false;
        };
        let other_way = self
            .try_on(before, candidate)
            .and_then(|state| self.try_on(&state, last));
        other_way.is_some() && other_way == self.try_on(now, candidate)
    }

    /// The operation that was done last, if it is of unknown fate.
    fn last_unknown(&self) -> Option<usize> {
        let last = self.order.last().copied();
        last.filter(|last| *last >= self.required)
    }

    fn steps_done(&self) -> Vec<usize> {
        let done = self.order.iter();
        done.map(|candidate| self.candidates[*candidate]).collect()
    }

    /// The first candidate from this one on that may be done next.
    fn next(&self, from: usize) -> Option<usize> {
        let earliest_return = self.returns.least()?;
        let lowest_version = self.versions.least();
        let is_free = |candidate: &usize| {
            let step = self.step(*candidate);
            let precedes = |key| lowest_version.is_some_and(|lowest| lowest < key);
            let is_late = step.order.is_some_and(|order| precedes(order.key()));
            let is_twin = self.twins[*candidate].is_some_and(|twin| !self.done[twin]);
            !self.done[*candidate] && !is_late && !is_twin
        };
        let is_early = |candidate: &usize| self.step(*candidate).called < earliest_return;
        let required = from.max(self.open.first)..self.required;
        let unknown = from.max(self.required)..self.candidates.len();
        let mut free = required.take_while(is_early).filter(is_free);
        free.next()
            .or_else(|| unknown.take_while(is_early).find(is_free))
    }

    fn apply(&mut self, candidate: usize) {
        self.done[candidate] = true;
        self.order.push(candidate);
        self.done_word ^= word(candidate as u64);
        self.open.apply(&self.done);
        self.returns.apply(&self.done);
        self.versions.apply(&self.done);
    }

    fn undo(&mut self) {
        if let Some(candidate) = self.order.pop() {
            self.done[candidate] = false;
            self.done_word ^= word(candidate as u64);
            self.open.undo(candidate);
            self.returns.undo(candidate);
            self.versions.undo(candidate);
        }
    }

    /// Stands for what is done, what it left, and what may follow. It has 128 bits, so a collision
    /// is practically impossible.
    fn fingerprint(&self, state: &M::State) -> u128 {
        let mut hasher = DefaultHasher::new();
        (self.last_unknown(), state).hash(&mut hasher);
        let low = hasher.finish();
        // Not the same bits again: the hasher has taken another one.
        hasher.write_u8(1);
        let state = u128::from(low) | u128::from(hasher.finish()) << 64;
        self.done_word ^ state
    }
}

/// How many earlier operations are compared with one to see whether they did the same. More are
/// never under way at once.
const TWINS_TRIED: usize = 64;

/// Whether the second, which was called later, can always change places with the first.
fn are_twins<M: Model>(first: &Step<'_, M>, second: &Step<'_, M>) -> bool {
    let do_the_same = match (first.returned, second.returned) {
        (None, None) => true,
        (Some((earlier, one)), Some((later, other))) => earlier < later && one == other,
        _ => false,
    };
    do_the_same && first.order == second.order && first.record.operation == second.record.operation
}

/// A random word for each candidate.
fn word(candidate: u64) -> u128 {
    let half = |which| u128::from(draw::number(0, "", &[candidate, which]));
    half(0) | half(1) << 64
}

/// For each candidate whether it neither overlaps another one, unless versions order the two, nor
/// follows one of unknown fate.
fn alone<'r, 'a: 'r, M: Model>(
    count: usize,
    required: usize,
    at: impl Fn(usize) -> &'r Step<'a, M>,
) -> Vec<bool> {
    let first_unknown = match required < count {
        true => at(required).called,
        false => u64::MAX,
    };
    let mut alone = vec![false; count];
    alone[..required].fill(true);
    for first in 0..required {
        let returned = at(first).returned.map_or(u64::MAX, |(moment, _)| moment);
        alone[first] &= returned < first_unknown;
        let later = first + 1..required;
        for second in later.take_while(|second| at(*second).called < returned) {
            let orders = (at(first).order, at(second).order);
            if !matches!(orders, (Some(one), Some(other)) if one != other) {
                alone[first] = false;
                alone[second] = false;
            }
        }
    }
    alone
}

/// Candidates in the order of a key that some of them have, and the first of them that is not done.
struct Line<K> {
    sorted: Vec<(K, usize)>,
    /// Where in the line a candidate stands; behind its end if it does not.
    places: Vec<usize>,
    first: usize,
}

impl<K: Ord + Copy> Line<K> {
    fn new(keys: Vec<Option<K>>) -> Self {
        let with_key = keys.iter().enumerate();
        let mut sorted: Vec<(K, usize)> = with_key
            .filter_map(|(candidate, key)| Some(((*key)?, candidate)))
            .collect();
        sorted.sort_unstable();
        let mut places = vec![sorted.len(); keys.len()];
        for (place, (_, candidate)) in sorted.iter().enumerate() {
            places[*candidate] = place;
        }
        Line {
            sorted,
            places,
            first: 0,
        }
    }

    /// The least key of those that are not done.
    fn least(&self) -> Option<K> {
        self.sorted.get(self.first).map(|(key, _)| *key)
    }

    fn apply(&mut self, done: &[bool]) {
        while let Some((_, candidate)) = self.sorted.get(self.first)
            && done[*candidate]
        {
            self.first += 1;
        }
    }

    fn undo(&mut self, candidate: usize) {
        self.first = self.first.min(self.places[candidate]);
    }
}
