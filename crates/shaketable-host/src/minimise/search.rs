//! The levels of the search: what is left out, and in which order.
//!
//! Not every piece of a failing run can simply be left out, because the rest of the run takes
//! another course afterwards. The search therefore begins with leaps, and only then takes steps:
//!
//! 1. **Nothing happens.** Many bugs need no fault at all, only clients that meet.
//! 2. **Only what clients notice.** Faults of machines and networks matter to a client through what
//!    they do to it: a lost reply, a short range, an old version. Under stress these happen by
//!    themselves, each a decision with a name of its own, while the cluster stays whole.
//! 3. **What happened.** The decisions of the failing run, each of them forced.
//!
//! A leap is tried with a few futures: other latencies, and other draws altogether. From the first
//! leap that fails, deaths of clients are left out, then decisions by [groups](DecisionName), then
//! one by one; then the cluster becomes smaller, there are fewer clients, and numbers in the
//! options of workloads and in the names of decisions become small; then decisions are left out
//! again, up to the proof that each of them is needed. With fewer processes, what was to happen to
//! one happens to another.
//!
//! Where something is left in the end, the first two leaps are made once more: without a fault in
//! many more futures, and with other seeds, because some races are lost only in a cluster of
//! another shape; and, if several pieces are left, with what clients notice, from the small run.

use super::deaths::{self, Death};
use super::words::clause;
use super::{Candidates, Tried};
use crate::case::{Case, DecisionName, ReseedStreams, TakenDecision};
use crate::verdict::{Failure, Outcome};
use shaketable_cluster::faults::FaultWorkload;
use shaketable_minimise::{Answer, reduce_number, reduce_set};
use std::collections::BTreeMap;
use std::rc::Rc;

/// How many futures a leap is tried with, of each kind.
const FUTURES: u64 = 8;
/// The number of futures of a smaller step.
const FUTURES_OF_A_STEP: u64 = 3;
/// The number of futures in which fewer clients are tried: they meet less often.
const FUTURES_OF_CLIENTS: u64 = 20;
/// The number of futures in which a race is looked for that is seldom lost.
const FUTURES_OF_A_RACE: u64 = 100;
/// The number of other seeds in which it is looked for.
const SIBLINGS: u32 = 300;
/// The number of clients there, at most.
const CLIENTS_OF_SIBLINGS: u32 = 6;
/// The number of futures in which a few clients are tried, after everything else.
const FUTURES_OF_A_MEETING: u64 = 1000;

/// More pieces than these are not told one by one.
const SENTENCES_MAX: usize = 12;
/// As many clients as a person can follow at once.
const FEW_CLIENTS: u32 = 2;
/// So many pieces that another leap may need fewer.
const SEVERAL: usize = 2;
/// How often everything but decisions is made smaller.
const ROUNDS: usize = 3;

/// What clients notice of faults: the groups that stress makes frequent.
const NOTICED: &[&str] = &[
    "a reply is lost",
    "a commit is lost",
    "buggify client shortens a range read",
    "buggify commit proxy rejects a batch as too old",
    "buggify storage server limits the bytes of a range read",
    "stress watch is told late",
    "stress storage server lags",
    "stress commit proxy dies before it writes",
    "stress commit proxy dies before it tells",
    "read version is rejected",
];

/// The smallest case that was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// The case.
    pub case: Case,
    /// What happened in it.
    pub tried: Rc<Tried>,
    /// Whether each of its decisions is known to be needed.
    pub is_minimal: bool,
    /// What the failure needs: the decisions of the case, then its deaths.
    pub needs: Vec<Need>,
}

/// A piece of a case that is left.
#[derive(Debug, Clone)]
pub struct Need {
    /// The decision as a case lists it, or the death as `shaketableCrashAt` does.
    pub name: String,
    /// The same as a clause.
    pub words: String,
    /// What happens without it, if that was run.
    pub without: Option<Rc<Tried>>,
}

impl Need {
    /// What happens without it, as a clause, if that is known.
    pub fn without(&self) -> Option<String> {
        Some(match &self.without.as_deref()?.failure {
            None => "without it the run passes".to_owned(),
            Some(other) => format!("without it the run fails in another way: {other}"),
        })
    }
}

impl Found {
    /// How the case fails.
    pub fn failure<'a>(&'a self, wanted: &'a Failure) -> &'a Failure {
        self.tried.failure.as_ref().unwrap_or(wanted)
    }

    /// What the failure needs, a line for each piece. If time was up early there are many, of which
    /// most do not matter; the case lists them all.
    pub fn sentences(&self) -> Vec<String> {
        if self.needs.is_empty() {
            return vec!["no fault, only the clients".to_owned()];
        }
        let line = |need: &Need| match need.without() {
            Some(without) => format!("{}; {without}", need.words),
            None => need.words.clone(),
        };
        let shown = match self.needs.len() > SENTENCES_MAX {
            true => SENTENCES_MAX - 1,
            false => self.needs.len(),
        };
        let mut sentences: Vec<String> = self.needs[..shown].iter().map(line).collect();
        if shown < self.needs.len() {
            sentences.push(format!("and {} more", self.needs.len() - shown));
        }
        sentences
    }
}

/// Searches for a smaller case than `start`, of which this became.
pub fn search(oracle: &mut dyn Candidates, start: &Case, outcome: &Outcome) -> Option<Found> {
    let died = deaths::happened(&outcome.deaths);
    // If clients died, the failure may not need it.
    let alive = (!died.is_empty()).then(|| deaths::with(start, &[]));
    let quiet = alive.clone().unwrap_or_else(|| start.clone());
    let start = match died.is_empty() {
        true => start.clone(),
        false => deaths::with(start, &died),
    };
    let alive = alive.and_then(|alive| leap(oracle, &alive, &[]));
    let best = alive.or_else(|| leap(oracle, &start, &outcome.decisions))?;
    let found = reduce(oracle, best);
    if found.needs.is_empty() {
        return Some(found);
    }
    // A race that is seldom lost needs many futures, but no fault.
    let quiet = without_faults(&nothing_happens(&quiet));
    let race = futures(&quiet, FUTURES_OF_A_RACE);
    let race = race.into_iter().chain(siblings(&quiet));
    if let Some(lost) = first_of(oracle, &race.collect::<Vec<Case>>()) {
        return Some(reduce(oracle, lost));
    }
    Some(leap_again(oracle, &start, found))
}

/// A case without a fault, with other seeds: other clusters, in which what is near here may be far
/// away. More clients than a few make a run longer, and do not meet more often.
fn siblings(case: &Case) -> impl Iterator<Item = Case> {
    (1..=SIBLINGS).map(|further| Case {
        seed: case.seed.wrapping_add(further.into()),
        clients: case.clients.map(|clients| clients.min(CLIENTS_OF_SIBLINGS)),
        buggify: Some(false),
        stress: Some(false),
        ..case.clone()
    })
}

/// Leaps once more, with what clients notice of faults, if several pieces are left: the first leap
/// that failed need not have been the one that needs least. Runs are short by now, so many futures
/// can be tried.
fn leap_again(oracle: &mut dyn Candidates, start: &Case, found: Found) -> Found {
    if found.needs.len() < SEVERAL {
        return found;
    }
    let small = Case {
        reseed: Vec::new(),
        buggify: start.buggify,
        ..found.case.clone()
    };
    let alive = match small.options.contains_key(deaths::AT) {
        true => deaths::with(&small, &[]),
        false => small,
    };
    let noticed = without_faults(&what_clients_notice(&alive));
    let noticed = first_of(oracle, &futures(&noticed, FUTURES_OF_A_RACE));
    let other = noticed.and_then(|failing| listed(oracle, failing));
    match other.map(|other| reduce(oracle, other)) {
        Some(other) if other.is_minimal && other.needs.len() < found.needs.len() => other,
        _ => found,
    }
}

/// Makes a case that fails smaller, step by step.
fn reduce(oracle: &mut dyn Candidates, best: (Case, Rc<Tried>)) -> Found {
    let mut search = Search {
        best,
        oracle,
        is_minimal: false,
        deaths_are_minimal: true,
    };
    search.reduce_everything();
    if search.meet_in_a_small_group() {
        search.reduce_everything();
    }
    search.finish()
}

/// The first leap that fails.
fn leap(
    oracle: &mut dyn Candidates,
    start: &Case,
    taken: &[TakenDecision],
) -> Option<(Case, Rc<Tried>)> {
    let noticed = what_clients_notice(start);
    let quiet = nothing_happens(start);
    let happened = Case {
        only: Some(texts(taken)),
        ..start.clone()
    };
    // Fault workloads that do nothing make a run long, which a few bugs need.
    let leaps = [
        (without_faults(&quiet), FUTURES),
        (quiet, FUTURES_OF_A_STEP),
        (without_faults(&noticed), FUTURES),
        (noticed, FUTURES),
    ];
    let candidates: Vec<Case> = leaps
        .iter()
        .flat_map(|(leap, count)| futures(leap, *count))
        .chain((!taken.is_empty()).then_some(happened))
        .collect();
    let found = first_of(oracle, &candidates)?;
    listed(oracle, found)
}

/// A case whose groups were left to chance, with each decision of its run listed.
fn listed(
    oracle: &mut dyn Candidates,
    (case, tried): (Case, Rc<Tried>),
) -> Option<(Case, Rc<Tried>)> {
    let listed = Case {
        only: Some(texts(&tried.decisions)),
        ..case
    };
    oracle.fails(&listed).map(|tried| (listed, tried))
}

/// Nothing happens but what clients notice of faults, and that is frequent.
fn what_clients_notice(start: &Case) -> Case {
    Case {
        only: Some(NOTICED.iter().map(|group| (*group).to_owned()).collect()),
        stress: Some(true),
        ..start.clone()
    }
}

fn nothing_happens(start: &Case) -> Case {
    Case {
        only: Some(Vec::new()),
        ..start.clone()
    }
}

/// The case without the fault workloads that do nothing in it.
fn without_faults(case: &Case) -> Case {
    let listed = case.only.iter().flatten();
    let groups = listed.map(|text| DecisionName::parse(text).0.group);
    // The second of its kind is `Attrition #2`.
    let is_fault = |group: &String| {
        let kind = group.split(' ').next().unwrap_or_default();
        FaultWorkload::NAMES.contains(&kind)
    };
    let mut faults: Vec<String> = groups.filter(is_fault).collect();
    faults.sort();
    faults.dedup();
    Case {
        faults: Some(faults),
        ..case.clone()
    }
}

/// The first of these that fails.
fn first_of(oracle: &mut dyn Candidates, candidates: &[Case]) -> Option<(Case, Rc<Tried>)> {
    let Answer::Fails(index) = oracle.first_failing(candidates) else {
        return None;
    };
    let found = candidates.get(index)?.clone();
    let tried = oracle.look_up(&found)?;
    Some((found, tried))
}

/// The names of the events that happened. The shape of the cluster is none, and is made small by
/// itself.
fn texts(decisions: &[TakenDecision]) -> Vec<String> {
    let happened = decisions.iter().filter(|decision| decision.is_event());
    happened.map(TakenDecision::text).collect()
}

/// A case as it is, with other latencies, and with other draws altogether.
fn futures(case: &Case, count: u64) -> Vec<Case> {
    let reseeded = |streams: &str, seed: u64| {
        let mut case = case.clone();
        case.reseed = vec![ReseedStreams {
            streams: streams.to_owned(),
            seed,
            from: 0.0,
        }];
        case
    };
    let mut all = vec![case.clone()];
    all.extend((1..=count).map(|seed| reseeded("network", seed)));
    all.extend((1..=count).map(|seed| reseeded("", seed)));
    all
}

/// A case in whose decisions the names of processes that begin so have other numbers.
fn renamed(case: &Case, prefix: &str, number: impl Fn(u32) -> String) -> Case {
    let mut case = case.clone();
    let mut renamed: Vec<String> = Vec::new();
    for text in case.only.iter().flatten() {
        let mut parts = text.split(prefix);
        let mut new = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let old: String = part
                .chars()
                .take_while(|one| one.is_ascii_digit() || *one == '.')
                .collect();
            let whole = old.split('.').next().and_then(|whole| whole.parse().ok());
            let number = number(whole.unwrap_or(0));
            new.push_str(&format!("{prefix}{number}{}", &part[old.len()..]));
        }
        if !renamed.contains(&new) {
            renamed.push(new);
        }
    }
    case.only = case.only.map(|_| renamed);
    case
}

/// The numbers in a text that follow a word.
fn numbers_after(text: &str, word: &str) -> Vec<u32> {
    let parts = text.split(word).skip(1);
    let numbers = parts.filter_map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    numbers.collect()
}

struct Search<'s> {
    oracle: &'s mut dyn Candidates,
    best: (Case, Rc<Tried>),
    is_minimal: bool,
    deaths_are_minimal: bool,
}

impl Search<'_> {
    fn case(&self) -> &Case {
        &self.best.0
    }

    fn listed(&self) -> Vec<String> {
        self.case().only.clone().unwrap_or_default()
    }

    /// Takes the first of these cases that fails, if one does.
    fn take_first(&mut self, candidates: &[Case]) -> bool {
        match first_of(self.oracle, candidates) {
            Some(found) => {
                self.best = found;
                true
            }
            None => false,
        }
    }

    fn with_decisions(&self, only: Vec<String>) -> Case {
        Case {
            only: Some(only),
            ..self.case().clone()
        }
    }

    /// Makes everything smaller, in turns, until nothing becomes smaller any more.
    fn reduce_everything(&mut self) {
        self.reduce_deaths();
        self.reduce_decisions();
        for _ in 0..ROUNDS {
            let before = self.case().clone();
            self.reduce_settings();
            self.reduce_cluster();
            self.reduce_clients();
            self.reduce_options();
            self.reduce_numbers();
            self.forget_futures();
            if *self.case() == before {
                break;
            }
            self.reduce_deaths();
            self.reduce_decisions();
        }
    }

    /// Leaves decisions out: those that no longer come up, groups, single ones.
    fn reduce_decisions(&mut self) {
        self.forget_unmet();
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for text in self.listed() {
            let group = DecisionName::parse(&text).0.group;
            groups.entry(group).or_default().push(text);
        }
        if groups.len() > 1 && self.listed().len() > groups.len() {
            self.reduce_lists(groups.into_values().collect());
            self.forget_unmet();
        }
        let single = self.listed().into_iter().map(|text| vec![text]).collect();
        self.is_minimal = self.reduce_lists(single);
    }

    /// Leaves lists of decisions out; returns whether all that are left are needed.
    fn reduce_lists(&mut self, lists: Vec<Vec<String>>) -> bool {
        let (order, best) = (self.listed(), self.case().clone());
        let case_of = |kept: &Vec<usize>| -> Case {
            let kept: Vec<&String> = kept.iter().flat_map(|index| &lists[*index]).collect();
            let mut only = order.clone();
            only.retain(|text| kept.contains(&text));
            Case {
                only: Some(only),
                ..best.clone()
            }
        };
        let batch = self.oracle.batch();
        let reduced = reduce_set(lists.len(), batch, |candidates| {
            let cases: Vec<Case> = candidates.iter().map(case_of).collect();
            self.oracle.first_failing(&cases)
        });
        let case = case_of(&reduced.kept);
        if let Some(tried) = self.oracle.look_up(&case).filter(|tried| tried.fails) {
            self.best = (case, tried);
        }
        reduced.is_minimal
    }

    /// Lets fewer clients die, and the others earlier.
    fn reduce_deaths(&mut self) {
        let died = deaths::of(self.case());
        if died.is_empty() {
            return;
        }
        let best = self.case().clone();
        let case_of = |kept: &Vec<usize>| -> Case {
            let kept: Vec<Death> = kept.iter().map(|index| died[*index].clone()).collect();
            deaths::with(&best, &kept)
        };
        let batch = self.oracle.batch();
        let reduced = reduce_set(died.len(), batch, |candidates| {
            let cases: Vec<Case> = candidates.iter().map(case_of).collect();
            self.oracle.first_failing(&cases)
        });
        let case = case_of(&reduced.kept);
        if let Some(tried) = self.oracle.look_up(&case).filter(|tried| tried.fails) {
            self.best = (case, tried);
        }
        self.deaths_are_minimal = reduced.is_minimal;
        for index in 0..deaths::of(self.case()).len() {
            let died = deaths::of(self.case());
            let candidates = earlier(died[index].at).map(|at| {
                let mut died = died.clone();
                died[index].at = at;
                deaths::with(self.case(), &died)
            });
            let candidates: Vec<Case> = candidates.collect();
            self.take_first(&candidates);
        }
    }

    /// Removes decisions from the list that did not come up in the run.
    fn forget_unmet(&mut self) {
        loop {
            let met = texts(&self.best.1.decisions);
            let names: Vec<DecisionName> =
                met.iter().map(|text| DecisionName::parse(text).0).collect();
            let mut only = self.listed();
            only.retain(|text| names.contains(&DecisionName::parse(text).0));
            if only.len() == self.listed().len() || !self.take_first(&[self.with_decisions(only)]) {
                return;
            }
        }
    }

    /// Switches off what is no longer needed around the decisions, such as fault workloads for
    /// whose end the run only waits, and lets the decisions take their usual course: what lasts,
    /// lasts as long as it can.
    fn reduce_settings(&mut self) {
        let short = without_faults(self.case());
        if short != *self.case() {
            self.take_first(&futures(&short, FUTURES_OF_A_STEP));
        }
        if self.case().stress == Some(true) {
            let calm = Case {
                stress: Some(false),
                ..self.case().clone()
            };
            self.take_first(&futures(&calm, FUTURES_OF_A_STEP));
        }
        if self.case().buggify != Some(false) {
            let sober = Case {
                buggify: Some(false),
                ..self.case().clone()
            };
            self.take_first(&futures(&sober, FUTURES_OF_A_STEP));
        }
        let plain = |text: &String| match DecisionName::parse(text) {
            (name, Some(_)) if name.number.is_some() => name.to_string(),
            _ => text.clone(),
        };
        let usual: Vec<String> = self.listed().iter().map(plain).collect();
        if usual != self.listed() && self.take_first(&[self.with_decisions(usual)]) {
            self.reduce_decisions();
        }
    }

    /// Asks for a small cluster.
    fn reduce_cluster(&mut self) {
        let shapes: [&[(&str, &str)]; 3] = [
            &[
                ("simpleConfig", "true"),
                ("machineCount", "1"),
                ("processesPerMachine", "1"),
                ("coordinators", "1"),
            ],
            &[("simpleConfig", "true")],
            &[("generateFearless", "false")],
        ];
        let mut candidates = Vec::new();
        for shape in shapes {
            let mut case = self.case().clone();
            let keys = shape
                .iter()
                .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
            case.configuration.extend(keys);
            if case == *self.case() {
                break;
            }
            let moved = renamed(&case, "server ", |_| "0.0".to_owned());
            if moved != case {
                candidates.extend(futures(&moved, FUTURES_OF_A_STEP));
            }
            candidates.extend(futures(&case, FUTURES_OF_A_STEP));
        }
        self.take_first(&candidates);
    }

    /// Tries one client, then two, and so on. What was to happen to a client that is no longer
    /// there happens to another.
    fn reduce_clients(&mut self) {
        let clients = self.case().clients.unwrap_or(1);
        let all: Vec<Case> = (1..clients)
            .flat_map(|fewer| self.with_clients(fewer, FUTURES_OF_CLIENTS))
            .collect();
        self.take_first(&all);
    }

    /// Tries as few clients as a person can follow in a great many futures, because they seldom get
    /// in each other's way. Returns whether they did.
    fn meet_in_a_small_group(&mut self) -> bool {
        self.case().clients > Some(FEW_CLIENTS)
            && self.take_first(&self.with_clients(FEW_CLIENTS, FUTURES_OF_A_MEETING))
    }

    /// The case with fewer clients, in a number of futures.
    fn with_clients(&self, fewer: u32, count: u64) -> Vec<Case> {
        let listed = self.listed();
        let died = deaths::of(self.case());
        let named = listed.iter();
        let named = named.flat_map(|text| numbers_after(text, "tester "));
        let died_as = died.iter().map(|death| death.client);
        let mut named: Vec<u32> = named.chain(died_as).collect();
        named.sort_unstable();
        named.dedup();
        let case = Case {
            clients: Some(fewer),
            ..self.case().clone()
        };
        let rank = |number: u32| {
            let rank = named.iter().position(|one| *one == number);
            (rank.unwrap_or(0) as u32).min(fewer - 1)
        };
        let renumbered = |number: &dyn Fn(u32) -> u32| {
            let case = renamed(&case, "tester ", |old| number(old).to_string());
            if died.is_empty() {
                return case;
            }
            let mut died = died.clone();
            for death in &mut died {
                death.client = number(death.client);
            }
            deaths::with(&case, &died)
        };
        let front = renumbered(&rank);
        let back = renumbered(&|number| fewer - 1 - rank(number));
        let mut variants = vec![case, front, back];
        variants.dedup();
        let variants = variants.iter();
        variants.flat_map(|case| futures(case, count)).collect()
    }

    /// Lets decisions happen earlier.
    fn reduce_numbers(&mut self) {
        for index in 0..self.listed().len() {
            let listed = self.listed();
            let Some(text) = listed.get(index) else {
                return;
            };
            let (name, outcome) = DecisionName::parse(text);
            let Some(number) = name.number else {
                continue;
            };
            let candidates = earlier(number).map(|earlier| {
                let name = DecisionName {
                    number: Some(earlier),
                    ..name.clone()
                };
                let mut only = listed.clone();
                let text = match &outcome {
                    Some(outcome) => format!("{name}: {outcome}"),
                    None => name.to_string(),
                };
                // Two that were apart may be one now.
                if only.contains(&text) {
                    only.remove(index);
                } else {
                    only[index] = text;
                }
                self.with_decisions(only)
            });
            let candidates: Vec<Case> = candidates.collect();
            self.take_first(&candidates);
        }
    }

    /// Makes the numbers in the options of workloads small.
    fn reduce_options(&mut self) {
        for (name, text) in self.best.1.options.clone() {
            let text = self.case().options.get(&name).cloned().unwrap_or(text);
            let Some((number, ending)) = as_number(&text) else {
                continue;
            };
            self.reduce_a_number(u64::from(number > 0), number, |case, number| {
                case.options
                    .insert(name.clone(), format!("{number}{ending}"));
            });
        }
    }

    /// Makes one number of the case smaller.
    fn reduce_a_number(&mut self, smallest: u64, now: u64, set: impl Fn(&mut Case, u64)) {
        let best = self.case().clone();
        let cases_of = |number: u64| {
            let mut case = best.clone();
            set(&mut case, number);
            futures(&case, FUTURES_OF_A_STEP)
        };
        let mut found = None;
        reduce_number(smallest, now, 1, |numbers| {
            let cases = cases_of(numbers[0]);
            match self.oracle.first_failing(&cases) {
                Answer::Fails(index) => {
                    found = Some(cases[index].clone());
                    Answer::Fails(0)
                }
                other => other,
            }
        });
        if let Some(case) = found
            && let Some(tried) = self.oracle.look_up(&case)
        {
            self.best = (case, tried);
        }
    }

    /// Tries to do without other latencies and draws.
    fn forget_futures(&mut self) {
        if !self.case().reseed.is_empty() {
            let plain = Case {
                reseed: Vec::new(),
                ..self.case().clone()
            };
            self.take_first(&[plain]);
        }
    }

    fn finish(self) -> Found {
        let listed = self.listed();
        let died = deaths::of(self.case());
        let of_decisions = listed.iter().map(|text| {
            let mut others = listed.clone();
            others.retain(|other| other != text);
            Need {
                name: text.clone(),
                words: clause(text),
                without: self.oracle.look_up(&self.with_decisions(others)),
            }
        });
        let of_deaths = died.iter().map(|death| {
            let mut others = died.clone();
            others.retain(|other| other != death);
            Need {
                name: death.to_string(),
                words: death.clause(),
                without: self.oracle.look_up(&deaths::with(self.case(), &others)),
            }
        });
        let needs = of_decisions.chain(of_deaths).collect();
        Found {
            needs,
            is_minimal: self.is_minimal && self.deaths_are_minimal,
            case: self.best.0,
            tried: self.best.1,
        }
    }
}

/// The number of an option, and what is written behind another one in its place. One with a
/// fraction, such as how long a test lasts, becomes a whole one of the same kind.
fn as_number(text: &str) -> Option<(u64, &'static str)> {
    if let Ok(number) = text.parse::<u64>() {
        return Some((number, ""));
    }
    let number = text.parse::<f64>().ok()?;
    let whole = number.ceil();
    // Beyond that, whole numbers are no longer apart.
    let fits = number > 1.0 && whole <= 1e15;
    fits.then_some((whole as u64, ".0"))
}

/// Numbers before this one, the most desirable first.
fn earlier(number: u64) -> impl Iterator<Item = u64> {
    let earlier = [
        1,
        2,
        3,
        4,
        5,
        6,
        8,
        10,
        number / 2,
        number.saturating_sub(1),
    ];
    let earlier = earlier.into_iter();
    earlier.filter(move |earlier| (1..number).contains(earlier))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_workloads_that_act_stay() {
        let texts = [
            "Attrition #2/kill 3",
            "Rollback/trigger a recovery 1",
            "knob/x: 3",
        ];
        let case = Case {
            only: Some(texts.map(str::to_owned).into()),
            ..Case::default()
        };
        let faults = without_faults(&case).faults.unwrap();
        assert_eq!(faults, ["Attrition #2", "Rollback"]);
    }

    #[test]
    fn options_are_numbers_with_and_without_a_fraction() {
        let smaller = |text| as_number(text).map(|(number, ending)| (number, format!("2{ending}")));
        assert_eq!(smaller("30"), Some((30, "2".to_owned())));
        assert_eq!(smaller("30.0"), Some((30, "2.0".to_owned())));
        assert_eq!(smaller("2.5"), Some((3, "2.0".to_owned())));
        for text in ["", "many", "-3", "0.25", "1.0", "nan", "inf", "1e300"] {
            assert_eq!(smaller(text), None, "{text}");
        }
    }

    #[test]
    fn decisions_move_to_other_processes() {
        let case = Case {
            only: Some(vec![
                "a reply is lost/tester 2 5".into(),
                "connection/tester 2→server 3.1 7: closes".into(),
                "connection/tester 0→server 4.0 7: closes".into(),
                "Attrition/kill 3".into(),
            ]),
            ..Case::default()
        };
        let moved = renamed(&case, "server ", |_| "0.0".into());
        let moved = renamed(&moved, "tester ", |_| "1".into());
        let expected = [
            "a reply is lost/tester 1 5",
            "connection/tester 1→server 0.0 7: closes",
            "Attrition/kill 3",
        ];
        assert_eq!(moved.only.unwrap(), expected);
        let numbers = numbers_after("connection/tester 12→server 3.1 7", "tester ");
        assert_eq!(numbers, [12]);
    }
}
