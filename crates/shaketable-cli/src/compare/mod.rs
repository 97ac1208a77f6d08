//! Two hosts compared: whether the embedded one behaves as a real server does, as far as runs can
//! show.
//!
//! Each host runs the same library with its own seeds, the embedded one many more, because it can.
//! A [`Sample`] collects what every run shows under both: how it ended, which assertions held, what
//! the database answered, how fast, and to which lines, what the workload measured, which faults
//! struck, how long it took in simulated time. [`rows`] puts the two beside each other, with
//! intervals, and asks of each difference whether chance explains it ([`crate::chance`]), corrected
//! for how many were looked at.
//!
//! Differences in what a client can see count. How often an error comes, and how long an answer
//! takes, count beyond a factor of three, which is what `docs/fidelity.md` promises. Differences in
//! the length of a run and the number of faults are shown, but are expected: the clusters are of
//! different sizes.

mod table;

pub use table::markdown;

use crate::chance::{Share, mean, ranks_differ_by_chance};
use shaketable_host::coverage::Covered;
use shaketable_host::verdict::{Answers, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// What the runs of one host have shown.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    runs: u64,
    passed: u64,
    /// By their signature: in how many runs, and one of them in words.
    failures: BTreeMap<String, (u64, String)>,
    /// In how many runs an assertion held.
    held: BTreeMap<String, u64>,
    /// The errors of each kind of call: in how many runs they came, and how many of a hundred calls
    /// had them in each run that made such calls.
    errors: BTreeMap<(String, i32), u64>,
    error_rates: BTreeMap<(String, i32), Vec<f64>>,
    /// Which errors the calls of each line met: in how many runs.
    lines: BTreeMap<String, u64>,
    /// How many runs made such calls.
    callers: BTreeMap<String, u64>,
    /// The median and the slowest hundredth of each kind of call in each run, in milliseconds.
    times: BTreeMap<(String, usize), Vec<f64>>,
    metrics: BTreeMap<String, Vec<f64>>,
    faults: BTreeMap<String, Vec<f64>>,
    simulated_seconds: Vec<f64>,
    cpu_seconds: Vec<f64>,
}

impl Sample {
    /// Adds a run, which took this long.
    pub fn add(&mut self, outcome: &Outcome, real_seconds: f64) {
        self.runs += 1;
        self.passed += u64::from(outcome.passed());
        let mut seen = BTreeSet::new();
        for failure in &outcome.failures {
            if seen.insert(failure.signature()) {
                let words = || {
                    let words = format!("{} in {}", failure.kind.describe(), failure.phase);
                    match failure.message.is_empty() {
                        true => words,
                        false => format!("{words}: {}", failure.message),
                    }
                };
                let entry = self.failures.entry(failure.signature());
                entry.or_insert_with(|| (0, words())).0 += 1;
            }
        }
        for assertion in outcome
            .assertions
            .iter()
            .filter(|one| matches!(&*one.kind, "sometimes" | "reachable"))
        {
            let name = format!("{} ({})", assertion.message, assertion.site);
            *self.held.entry(name).or_default() += u64::from(assertion.held > 0);
        }
        for (call, answers) in &outcome.calls {
            self.add_answers(call, answers);
        }
        for line in errors_of_lines(&outcome.coverage) {
            *self.lines.entry(line).or_default() += 1;
        }
        for metric in &outcome.metrics {
            let values = self.metrics.entry(metric.name.clone()).or_default();
            values.push(metric.value);
        }
        for (name, count) in &outcome.faults {
            let counts = self.faults.entry(name.clone()).or_default();
            // Runs before this one had none.
            counts.resize(self.runs as usize - 1, 0.0);
            counts.push(*count as f64);
        }
        self.simulated_seconds.push(outcome.simulated_seconds);
        self.cpu_seconds.push(real_seconds);
    }

    fn add_answers(&mut self, call: &str, answers: &Answers) {
        let callers = self.callers.entry(call.to_owned()).or_default();
        let before = *callers as usize;
        *callers += 1;
        for (code, count) in answers.codes.iter().filter(|(code, _)| **code != 0) {
            let key = (call.to_owned(), *code);
            *self.errors.entry(key.clone()).or_default() += 1;
            let rates = self.error_rates.entry(key).or_default();
            // Runs before this one had none.
            rates.resize(before, 0.0);
            rates.push(100.0 * *count as f64 / answers.count() as f64);
        }
        for (index, (_, share)) in QUANTILES.iter().enumerate() {
            if let Some(seconds) = answers.quantile(*share) {
                let times = self.times.entry((call.to_owned(), index)).or_default();
                times.push(1000.0 * seconds);
            }
        }
    }

    /// How many of a hundred calls had an error in each run that made such calls.
    fn error_rates_of(&self, key: &(String, i32)) -> Vec<f64> {
        let mut rates = self.error_rates.get(key).cloned().unwrap_or_default();
        rates.resize(self.callers.get(&key.0).copied().unwrap_or(0) as usize, 0.0);
        rates
    }

    /// How many runs.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    fn share(&self, hits: u64) -> Share {
        Share {
            hits,
            of: self.runs,
        }
    }

    /// How often each fault struck in each run.
    fn faults_of(&self, name: &str) -> Vec<f64> {
        let mut counts = self.faults.get(name).cloned().unwrap_or_default();
        counts.resize(self.runs as usize, 0.0);
        counts
    }
}

/// One line of the comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What is compared.
    pub what: String,
    /// Under the real server.
    pub real: Seen,
    /// In the embedded host.
    pub embedded: Seen,
    /// The chance that the difference comes about by chance, corrected for the number of rows.
    pub p_value: f64,
    /// Whether a difference here is a difference in what a client can see.
    pub counts: bool,
}

/// What one host has shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// In how many runs.
    Share(Share),
    /// A number, and how far the true mean may be from it.
    Mean(f64, f64),
}

/// The times of calls that are compared.
const QUANTILES: [(&str, f64); 2] = [("half within", 0.5), ("99 % within", 0.99)];

/// A difference must be less likely than this to come about by chance.
const SIGNIFICANT: f64 = 0.01;

impl Row {
    /// Whether the hosts differ beyond chance.
    pub fn differs(&self) -> bool {
        self.p_value < SIGNIFICANT
    }
}

/// The comparison, in the order in which a person asks.
pub fn rows(real: &Sample, embedded: &Sample) -> Vec<Row> {
    let mut rows = vec![shares(
        "runs that passed".to_owned(),
        real.share(real.passed),
        embedded.share(embedded.passed),
        true,
    )];
    for signature in keys(&real.failures, &embedded.failures) {
        let find = |sample: &Sample| sample.failures.get(signature).cloned();
        let words = find(real).or(find(embedded)).unwrap_or_default().1;
        let count = |sample: &Sample| sample.share(find(sample).unwrap_or_default().0);
        rows.push(shares(words, count(real), count(embedded), true));
    }
    for name in keys(&real.held, &embedded.held) {
        let count = |sample: &Sample| sample.share(sample.held.get(name).copied().unwrap_or(0));
        let what = format!("held: {name}");
        rows.push(shares(what, count(real), count(embedded), true));
    }
    // A library without the feature `measure` has counted nothing.
    let is_measured = !real.callers.is_empty() && !embedded.callers.is_empty();
    for key in keys(&real.errors, &embedded.errors) {
        if !is_measured {
            break;
        }
        let (call, code) = key;
        let name = format!("{code} {} on {call}", shaketable_host::error_name(*code));
        let count = |sample: &Sample| sample.share(sample.errors.get(key).copied().unwrap_or(0));
        let what = format!("saw {name}");
        rows.push(shares(what, count(real), count(embedded), true));
        let (real, embedded) = (real.error_rates_of(key), embedded.error_rates_of(key));
        rows.push(of_calls(format!("{name}, per 100"), &real, &embedded));
    }
    // Under a server only a library that was not built again since has lines.
    for line in keys(&real.lines, &embedded.lines) {
        if real.lines.is_empty() || embedded.lines.is_empty() {
            break;
        }
        let count = |sample: &Sample| sample.share(sample.lines.get(line).copied().unwrap_or(0));
        rows.push(shares(line.clone(), count(real), count(embedded), true));
    }
    for key in keys(&real.times, &embedded.times) {
        let times = |sample: &Sample| sample.times.get(key).cloned().unwrap_or_default();
        let (real, embedded) = (times(real), times(embedded));
        if !real.is_empty() && !embedded.is_empty() {
            let what = format!("{}: {}, ms", key.0, QUANTILES[key.1].0);
            rows.push(of_calls(what, &real, &embedded));
        }
    }
    for name in keys(&real.metrics, &embedded.metrics) {
        let values = |sample: &Sample| sample.metrics.get(name).cloned().unwrap_or_default();
        let (real, embedded) = (values(real), values(embedded));
        // A metric that one host did not get to cannot be compared.
        if !real.is_empty() && !embedded.is_empty() {
            rows.push(means(name.clone(), &real, &embedded));
        }
    }
    for name in keys(&real.faults, &embedded.faults) {
        let (real, embedded) = (real.faults_of(name), embedded.faults_of(name));
        rows.push(means(format!("{name} in a run"), &real, &embedded));
    }
    let (long, short) = (&real.simulated_seconds, &embedded.simulated_seconds);
    rows.push(means("simulated seconds".to_owned(), long, short));
    let looked_at = rows.len() as f64;
    for row in &mut rows {
        row.p_value = (row.p_value * looked_at).min(1.0);
    }
    let took = (mean(&real.cpu_seconds), mean(&embedded.cpu_seconds));
    rows.push(Row {
        what: "real seconds".to_owned(),
        real: Seen::Mean(took.0.0, took.0.1),
        embedded: Seen::Mean(took.1.0, took.1.1),
        p_value: 1.0,
        counts: false,
    });
    rows
}

fn keys<'a, K: Ord, V>(one: &'a BTreeMap<K, V>, other: &'a BTreeMap<K, V>) -> BTreeSet<&'a K> {
    one.keys().chain(other.keys()).collect()
}

fn shares(what: String, real: Share, embedded: Share, counts: bool) -> Row {
    Row {
        what,
        p_value: real.differs_by_chance(embedded),
        real: Seen::Share(real),
        embedded: Seen::Share(embedded),
        counts,
    }
}

fn means(what: String, real: &[f64], embedded: &[f64]) -> Row {
    let seen = |values: &[f64]| {
        let (mean, spread) = mean(values);
        Seen::Mean(mean, spread)
    };
    Row {
        what,
        p_value: ranks_differ_by_chance(real, embedded),
        real: seen(real),
        embedded: seen(embedded),
        counts: false,
    }
}

/// What a call meets whose future is dropped.
const GIVEN_UP: i32 = 1101;

/// The errors that the calls of each line met. Only the embedded host knows whether a commit of
/// unknown fate has landed; here both fates are one. Only that host sees a future that is dropped
/// before there is an answer, too.
fn errors_of_lines(coverage: &[Covered]) -> BTreeSet<String> {
    let met = coverage.iter().flat_map(|covered| {
        let codes = covered.met.keys().filter_map(|met| {
            let code = met.split(' ').next()?;
            code.parse::<i32>().ok().filter(|code| *code != GIVEN_UP)
        });
        codes.map(move |code| format!("{} {} met {code}", covered.line, covered.call))
    });
    met.collect()
}

/// How much the hosts may differ in how often an error comes and how long a call takes.
const FACTOR_MAX: f64 = 3.0;

/// A number that says how the database treats a client.
fn of_calls(what: String, real: &[f64], embedded: &[f64]) -> Row {
    let (one, two) = (mean(real).0, mean(embedded).0);
    Row {
        counts: one.max(two) > FACTOR_MAX * one.min(two),
        ..means(what, real, embedded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shaketable_host::verdict::{Assertion, Failure, FailureKind, Phase};

    fn outcome(fails: bool, held: u64, reboots: u64) -> Outcome {
        let answers = Answers {
            codes: BTreeMap::from([(0, 90), (1020, 8), (1021, reboots)]),
            times: BTreeMap::from([(60 + reboots as u32, 88), (80, 2)]),
        };
        let failure = Failure {
            kind: FailureKind::CheckFailed,
            test: "Bank".into(),
            workload: "Bank".into(),
            phase: Phase::Check,
            client: Some(1),
            time: 50.0,
            message: format!("{reboots} rows are missing"),
        };
        Outcome {
            failures: fails.then_some(failure).into_iter().collect(),
            assertions: vec![Assertion {
                site: "src/lib.rs:7".into(),
                kind: "sometimes".into(),
                message: "a retry".into(),
                held,
                broken: 1,
            }],
            calls: BTreeMap::from([("commit".to_owned(), answers)]),
            coverage: vec![Covered {
                line: "src/lib.rs:12".into(),
                call: "commit".into(),
                met: BTreeMap::from([
                    ("ok".into(), 90),
                    ("1021 landed".into(), 1),
                    ("1101 lost".into(), 2),
                ]),
            }],
            faults: BTreeMap::from([("RebootingProcess".to_owned(), reboots)]),
            simulated_seconds: 40.0 + reboots as f64,
            ..Outcome::default()
        }
    }

    fn sample(runs: u64, fails: impl Fn(u64) -> bool) -> Sample {
        let mut sample = Sample::default();
        for run in 0..runs {
            sample.add(&outcome(fails(run), run % 2, run % 5), 0.5);
        }
        sample
    }

    #[test]
    fn hosts_that_fail_alike_do_not_differ() {
        let rows = rows(
            &sample(20, |run| run % 4 == 0),
            &sample(200, |run| run % 4 == 1),
        );
        assert!(rows.iter().all(|row| !row.differs()), "{rows:?}");
        insta::assert_snapshot!(markdown("fdbserver 7.4.7", &rows));
    }

    #[test]
    fn a_failure_that_only_one_host_shows_is_a_difference() {
        let rows = rows(&sample(20, |run| run % 2 == 0), &sample(200, |_| false));
        let told: Vec<&str> = rows
            .iter()
            .filter(|row| row.differs() && row.counts)
            .map(|row| row.what.as_str())
            .collect();
        assert_eq!(
            told,
            [
                "runs that passed",
                "check failed in check: 0 rows are missing"
            ]
        );
    }
}
