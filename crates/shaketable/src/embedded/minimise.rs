//! Making a failure small inside a test program.
//!
//! The search is the one of `shaketable minimise` (`shaketable_host::minimise`). Candidates run one
//! after the other, each on a thread of its own as every seed does, and only while there is time. A
//! candidate that hangs ends the search: its thread cannot be ended.

#![expect(
    clippy::disallowed_methods,
    reason = "the budget is one of real time, and measured outside of all seeds"
)]

use shaketable_host::case::{Case, MINIMISE_VARIABLE};
use shaketable_host::isolation::parse_hang_limit;
use shaketable_host::minimise::search::{Found, search};
use shaketable_host::minimise::{Answer, Candidates, Tried};
use shaketable_host::plan::Recording;
use shaketable_host::verdict::{Failure, Outcome};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long a test that fails takes longer, at most, to make its case small.
pub(super) const BUDGET: Duration = Duration::from_secs(10);

/// The budget that the environment asks for; `None` if it asks for nothing.
pub(super) fn budget_from_environment() -> Option<Duration> {
    let text = std::env::var(MINIMISE_VARIABLE).ok();
    let text = text.filter(|text| !text.is_empty())?;
    match parse_hang_limit(&text) {
        Ok(budget) => Some(budget.unwrap_or_default()),
        Err(error) => panic!(
            "{MINIMISE_VARIABLE}: expected a time such as 30s or 5m, or off, found `{text}`: {error}"
        ),
    }
}

/// Makes a case that fails small within a budget. `run` simulates a case, and returns nothing if
/// that did not end.
pub(super) fn minimise(
    start: &Case,
    wanted: &Failure,
    budget: Duration,
    run: impl Fn(&Case, &Recording) -> Option<Outcome>,
) -> Option<Found> {
    if budget.is_zero() {
        return None;
    }
    let deadline = Instant::now() + budget;
    let outcome = run(start, &Recording::Decisions)?;
    let start = Case {
        clients: Some(outcome.drawn.clients),
        buggify: Some(outcome.drawn.buggify),
        stress: Some(outcome.drawn.stress),
        ..start.clone()
    };
    let mut candidates = InThreads {
        run,
        deadline,
        signature: wanted.signature(),
        known: BTreeMap::new(),
        is_stopped: false,
    };
    search(&mut candidates, &start, &outcome)
}

struct InThreads<R> {
    run: R,
    deadline: Instant,
    /// Of the wanted failure.
    signature: String,
    /// By the text of the case.
    known: BTreeMap<String, Rc<Tried>>,
    is_stopped: bool,
}

impl<R: Fn(&Case, &Recording) -> Option<Outcome>> Candidates for InThreads<R> {
    fn batch(&self) -> usize {
        1
    }

    fn first_failing(&mut self, candidates: &[Case]) -> Answer {
        for (index, case) in candidates.iter().enumerate() {
            let key = case.to_toml();
            if !self.known.contains_key(&key) {
                if self.is_stopped || Instant::now() > self.deadline {
                    return Answer::Stop;
                }
                let Some(outcome) = (self.run)(case, &Recording::Nothing) else {
                    self.is_stopped = true;
                    return Answer::Stop;
                };
                let tried = Tried::judge(outcome, &self.signature);
                self.known.insert(key.clone(), Rc::new(tried));
            }
            if self.known[&key].fails {
                return Answer::Fails(index);
            }
        }
        Answer::AllPass
    }

    fn look_up(&self, case: &Case) -> Option<Rc<Tried>> {
        self.known.get(&case.to_toml()).cloned()
    }
}
