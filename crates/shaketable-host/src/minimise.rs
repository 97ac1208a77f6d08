//! Making a failing run small.
//!
//! [`search`](search::search) decides what to leave out of a [`Case`] and in which order; [`words`]
//! says what is left. Neither knows how a candidate is run: the program `shaketable` has worker
//! processes for it, a test program its own threads, and both are [`Candidates`]. How a set or a
//! number is made smaller is the business of the crate `shaketable-minimise`.

pub mod deaths;
pub mod search;
pub mod told;
pub mod words;

use crate::case::{Case, TakenDecision};
use crate::verdict::{Death, Failure, Outcome};
use std::collections::BTreeMap;
use std::rc::Rc;

pub use shaketable_minimise::Answer;

/// What became of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// Whether it failed in the wanted way.
    pub fails: bool,
    /// How it failed, in whatever way.
    pub failure: Option<Failure>,
    /// The decisions that happened.
    pub decisions: Vec<TakenDecision>,
    /// The clients that died.
    pub deaths: Vec<Death>,
    /// The options that the code under test read, with the texts it was given.
    pub options: BTreeMap<String, String>,
    /// How long it took, in simulated seconds.
    pub simulated_seconds: f64,
}

impl Tried {
    /// Whether a run failed in the way of this signature, and what happened in it.
    pub fn judge(outcome: Outcome, signature: &str) -> Tried {
        let wanted = |failure: &&Failure| failure.signature() == signature;
        let failure = outcome.failures.iter().find(wanted);
        Tried {
            fails: failure.is_some(),
            failure: failure.or(outcome.failures.first()).cloned(),
            decisions: outcome.decisions,
            deaths: outcome.deaths,
            options: outcome.options,
            simulated_seconds: outcome.simulated_seconds,
        }
    }
}

/// Runs candidates, and remembers what became of each.
pub trait Candidates {
    /// How many candidates are worth asking about at a time.
    fn batch(&self) -> usize;

    /// The first candidate that fails in the wanted way. What was run once is not run again.
    fn first_failing(&mut self, candidates: &[Case]) -> Answer;

    /// What is known about a candidate that was run.
    fn look_up(&self, case: &Case) -> Option<Rc<Tried>>;

    /// Whether this candidate fails in the wanted way, and what happened in it.
    fn fails(&mut self, case: &Case) -> Option<Rc<Tried>> {
        match self.first_failing(std::slice::from_ref(case)) {
            Answer::Fails(_) => self.look_up(case),
            Answer::AllPass | Answer::Stop => None,
        }
    }
}
