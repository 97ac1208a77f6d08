//! What a test reports about its seeds.

use super::regressions;
use shaketable_host::case::{CASE_VARIABLE, cargo_line};
use shaketable_host::coverage::Covered;
use shaketable_host::failure_folder;
use shaketable_host::verdict::{Assertion, Outcome};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

/// The result of a simulation in which every seed passed. Its text has the table of all assertions
/// of the program, with how often each held.
///
/// ```
/// let passed = shaketable::Simulation::new().seeds(0..3).test(async |_db, _context| {});
/// println!("{passed}"); // 3 seeds passed, 12.8 seconds simulated
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Passed {
    name: String,
    seeds: u32,
    simulated_seconds: f64,
    assertions: Vec<Assertion>,
    coverage: Vec<Covered>,
    errors: BTreeMap<i32, u64>,
    faults: BTreeMap<String, u64>,
}

impl Passed {
    pub(super) fn new(name: &str) -> Self {
        Passed {
            name: name.to_owned(),
            seeds: 0,
            simulated_seconds: 0.0,
            assertions: Vec::new(),
            coverage: Vec::new(),
            errors: BTreeMap::new(),
            faults: BTreeMap::new(),
        }
    }

    /// As if this many seeds had passed.
    pub(super) fn after(name: &str, seeds: u32) -> Self {
        Passed {
            seeds,
            ..Passed::new(name)
        }
    }

    pub(super) fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.simulated_seconds += outcome.simulated_seconds;
        Assertion::merge(&mut self.assertions, &outcome.assertions);
        Covered::merge(&mut self.coverage, &outcome.coverage);
        for (code, count) in &outcome.errors {
            *self.errors.entry(*code).or_default() += count;
        }
        for (name, count) in &outcome.faults {
            *self.faults.entry(name.clone()).or_default() += count;
        }
    }

    /// Whether a line has never met an outcome that its calls can have.
    pub(super) fn has_gaps(&self) -> bool {
        self.coverage.iter().any(|one| !one.never().is_empty())
    }

    /// The assertions that should have held once, and did not: of all, or of those with these
    /// messages.
    pub(super) fn missed(&self, required: &[String], all: bool) -> Vec<Assertion> {
        let missed = self.assertions.iter().filter(|one| one.is_missed());
        let mut missed: Vec<Assertion> = missed
            .filter(|one| all || required.contains(&one.message))
            .cloned()
            .collect();
        let is_known = |message: &str| self.assertions.iter().any(|one| one.message == message);
        let unknown = required.iter().filter(|message| !is_known(message));
        missed.extend(unknown.map(|message| Assertion {
            kind: "required".to_owned(),
            message: message.clone(),
            site: "no place that was seen".to_owned(),
            ..Assertion::default()
        }));
        missed
    }

    /// How many seeds ran.
    ///
    /// ```
    /// let passed = shaketable::Simulation::new().seeds(0..3).test(async |_db, _context| {});
    /// assert_eq!(passed.seeds(), 3);
    /// ```
    pub fn seeds(&self) -> u32 {
        self.seeds
    }

    /// How often the [assertion](crate::sometimes) with this message held, and how often it did
    /// not; `None` if the program has no such assertion.
    ///
    /// ```
    /// let passed = shaketable::Simulation::new().seeds(0..3).test(async |_db, context| {
    ///     shaketable::sometimes!(context.rnd() % 1000 == 0, "one in a thousand");
    /// });
    /// let (held, did_not) = passed.assertion("one in a thousand").expect("it was evaluated");
    /// assert_eq!(held + did_not, 3);
    /// ```
    pub fn assertion(&self, message: &str) -> Option<(u64, u64)> {
        let mut all = self.assertions.iter();
        let found = all.find(|one| one.message == message)?;
        Some((found.held, found.broken))
    }

    /// How often the clients were answered with this error, in all seeds together: whether a test
    /// has met what it is about.
    ///
    /// ```
    /// let passed = shaketable::Simulation::new().seeds(0..3).test(async |db, _context| {
    ///     let trx = db.create_trx().expect("a transaction");
    ///     trx.set_read_version(1); // long gone
    ///     assert!(trx.get(b"key", false).await.is_err()); // too old
    /// });
    /// assert!(passed.errors(1007) > 0);
    /// assert_eq!(passed.errors(1031), 0);
    /// ```
    pub fn errors(&self, code: i32) -> u64 {
        self.errors.get(&code).copied().unwrap_or_default()
    }

    /// How often this fault was injected, in all seeds together; by its name in reports.
    ///
    /// ```
    /// # use shaketable::{Faults, Simulation};
    /// let calm = Simulation::new().seeds(0..3).faults(Faults::none());
    /// let passed = calm.test(async |_db, _context| {});
    /// assert_eq!(passed.faults("RebootingProcess"), 0);
    /// ```
    pub fn faults(&self, name: &str) -> u64 {
        self.faults.get(name).copied().unwrap_or_default()
    }

    /// How many calls of all lines together ended in this way: `ok`, `1007`, `1020`, `1021 landed`,
    /// `1021 lost`, or `more` for a range read that has more. Zero unless they were
    /// [counted](crate::Simulation::count_outcomes).
    ///
    /// ```
    /// # use shaketable::Simulation;
    /// let simulation = Simulation::new().seeds(0..3).count_outcomes();
    /// let passed = simulation.test(async |db, _context| {
    ///     let read = db.run(|trx, _| async move { Ok(trx.get(b"key", false).await?) });
    ///     read.await.expect("it is read in the end");
    /// });
    /// assert!(passed.outcomes("ok") > 0);
    /// assert_eq!(passed.outcomes("1021 landed"), 0, "nothing was written");
    /// ```
    pub fn outcomes(&self, outcome: &str) -> u64 {
        let lines = self.coverage.iter();
        lines.filter_map(|line| line.met.get(outcome)).sum()
    }

    /// How many seconds were simulated, in all seeds together.
    ///
    /// ```
    /// let passed = shaketable::Simulation::new().seeds(1).test(async |_db, _context| {
    ///     shaketable::sleep(std::time::Duration::from_secs(3600)).await;
    /// });
    /// assert!(passed.simulated_seconds() > 3600.0);
    /// ```
    pub fn simulated_seconds(&self) -> f64 {
        self.simulated_seconds
    }
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seeds, seconds) = (self.seeds, self.simulated_seconds);
        let noun = if seeds == 1 { "seed" } else { "seeds" };
        write!(f, "{seeds} {noun} passed, {seconds:.1} seconds simulated")?;
        if !self.assertions.is_empty() {
            write!(f, "\n  {:>10} {:>10}  assertion", "held", "did not")?;
        }
        for one in &self.assertions {
            let Assertion {
                held,
                broken,
                kind,
                message,
                site,
            } = one;
            let remark = if one.is_missed() { "  never held" } else { "" };
            write!(
                f,
                "\n  {held:>10} {broken:>10}  {kind} {message:?} {site}{remark}"
            )?;
        }
        for one in &self.coverage {
            let met = one.met.iter();
            let met: Vec<String> = met.map(|(met, count)| format!("{met} {count}")).collect();
            let (line, call) = (&one.line, &one.call);
            write!(f, "\n  {line} {call}: {}", met.join(", "))?;
        }
        Ok(())
    }
}

/// A simulation in which a seed failed. Its text is the whole report, also when it is shown by
/// `unwrap`.
///
/// ```
/// # let simulation = shaketable::Simulation::new().seeds(7).without_regressions();
/// # let result = simulation.try_test(async |_db, _context| assert!(1 > 2, "out of eggs"));
/// let failed = result.expect_err("the code under test panics");
/// println!("{failed}"); // the seed, the reason, the faults, the line to paste
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Failed {
    seed: u64,
    reason: String,
    text: String,
}

/// What became of a failure.
#[derive(Debug)]
pub(super) enum Kept {
    /// There is a new case of it, which needs this.
    New(PathBuf, Vec<String>),
    /// There was a case of it already, or a seed.
    Known(PathBuf),
    /// The case cannot be written.
    Not(PathBuf, String),
}

impl Failed {
    pub(super) fn new(
        name: &str,
        outcome: &Outcome,
        passed: &Passed,
        replay: &str,
        kept: Option<Kept>,
    ) -> Self {
        let text = text(name, outcome, passed, replay, kept.as_ref());
        let text = text.expect("a string takes any text");
        if let Some(folder) = outcome.folder() {
            // The test fails anyway, and shows the same.
            let _ = std::fs::write(folder.join(failure_folder::REPORT), &text);
        }
        Failed {
            seed: outcome.seed,
            reason: reason(outcome),
            text,
        }
    }

    /// The same seed gave two different runs.
    pub(super) fn differs(name: &str, seed: u64, difference: &str, replay: &str) -> Self {
        let reason = format!("`{name}`: seed {seed} gave two different runs");
        let text = format!(
            "{reason}\n  {difference}\nto run it again:\n  {replay}\n\
             docs/guide/4-determinism.md says what to look for\n"
        );
        Failed { seed, reason, text }
    }

    /// No seed failed, but something that the test requires never happened in any of them.
    pub(super) fn missed(passed: &Passed, missed: &[Assertion]) -> Self {
        let (name, seeds) = (&passed.name, passed.seeds);
        let mut text = format!("`{name}`: in {seeds} seeds, all passing, these never held:\n");
        for Assertion {
            site,
            kind,
            message,
            broken,
            ..
        } in missed
        {
            let how = match broken {
                0 => "never reached".to_owned(),
                count => format!("reached {count} times"),
            };
            writeln!(text, "  {kind} \"{message}\" at {site}: {how}")
                .expect("a string takes any text");
        }
        Failed {
            seed: 0,
            reason: text.clone(),
            text,
        }
    }

    pub(super) fn uncovered(passed: &Passed) -> Self {
        let (name, seeds) = (&passed.name, passed.seeds);
        let mut text = format!("`{name}`: in {seeds} seeds, all passing, these were never met:\n");
        for one in &passed.coverage {
            let never = one.never();
            if !never.is_empty() {
                let (line, call) = (&one.line, &one.call);
                writeln!(text, "  {line} {call}: {}", never.join(", "))
                    .expect("a string takes any text");
            }
        }
        Failed {
            seed: 0,
            reason: text.clone(),
            text,
        }
    }

    /// The seed that failed; 0 when no single seed failed but all of them together.
    ///
    /// ```
    /// # let simulation = shaketable::Simulation::new().seeds(7).without_regressions();
    /// # let result = simulation.try_test(async |_db, _context| assert!(1 > 2, "out of eggs"));
    /// # let failed = result.unwrap_err();
    /// assert_eq!(failed.seed(), 7);
    /// ```
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The first thing that went wrong.
    ///
    /// ```
    /// # let simulation = shaketable::Simulation::new().seeds(7).without_regressions();
    /// # let result = simulation.try_test(async |_db, _context| assert!(1 > 2, "out of eggs"));
    /// # let failed = result.unwrap_err();
    /// assert!(failed.reason().contains("out of eggs"));
    /// ```
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Failed {}

/// The first failure, which is nearest to the cause.
pub(super) fn reason(outcome: &Outcome) -> String {
    outcome
        .failures
        .first()
        .map_or(String::new(), ToString::to_string)
}

/// Further failures than these are consequences.
const FAILURES_SHOWN: usize = 6;

fn text(
    name: &str,
    outcome: &Outcome,
    passed: &Passed,
    replay: &str,
    kept: Option<&Kept>,
) -> Result<String, fmt::Error> {
    let mut text = String::new();
    let seed = outcome.seed;
    let before = match passed.seeds {
        0 => "the first one tried".to_owned(),
        1 => "after one that passed".to_owned(),
        count => format!("after {count} that passed"),
    };
    writeln!(text, "`{name}` fails with seed {seed}, {before}")?;
    for failure in outcome.failures.iter().take(FAILURES_SHOWN) {
        writeln!(text, "  {failure}")?;
    }
    let hidden = outcome.failures.len().saturating_sub(FAILURES_SHOWN);
    if hidden > 0 {
        writeln!(text, "  and {hidden} more")?;
    }
    if let Some(cause) = &outcome.cause {
        writeln!(text, "why: {} ({})", cause.sentence, cause.name)?;
        writeln!(text, "  → {}", cause.advice)?;
    }
    for wait in &outcome.waits {
        writeln!(text, "  {wait}")?;
    }
    if !outcome.story.is_empty() {
        match outcome.failures.first().and_then(|failure| failure.client) {
            Some(client) => writeln!(text, "the last operations of client {client}:")?,
            None => writeln!(text, "the last operations:")?,
        }
        for line in &outcome.story {
            writeln!(text, "  {line}")?;
        }
    }
    if !outcome.stack.is_empty() {
        writeln!(text, "where it was:")?;
    }
    for line in &outcome.stack {
        writeln!(text, "  {line}")?;
    }
    let drawn = &outcome.drawn;
    let buggified = if drawn.buggify { ", buggified" } else { "" };
    let stressed = if drawn.stress { ", under stress" } else { "" };
    let swarm = drawn.swarm.describe();
    let swarm = swarm.map_or(String::new(), |swarm| format!(", {swarm}"));
    writeln!(
        text,
        "in {:.1} simulated seconds, {} {}{buggified}{stressed}{swarm}; {}",
        outcome.simulated_seconds,
        drawn.clients,
        if drawn.clients == 1 {
            "client"
        } else {
            "clients"
        },
        drawn.cluster
    )?;
    if !drawn.faults.is_empty() {
        writeln!(text, "fault workloads: {}", drawn.faults.join(", "))?;
    }
    if !drawn.buggified.is_empty() {
        writeln!(text, "buggified: {}", drawn.buggified.join(", "))?;
    }
    let counts = |counts: Vec<String>| match counts.is_empty() {
        true => "none".to_owned(),
        false => counts.join(", "),
    };
    let faults = outcome.faults.iter();
    let faults = counts(
        faults
            .map(|(name, count)| format!("{name} ×{count}"))
            .collect(),
    );
    writeln!(text, "faults: {faults}")?;
    if !outcome.faults_around.is_empty() {
        writeln!(text, "the last of them before it failed:")?;
    }
    for event in &outcome.faults_around {
        let details = event.details.iter();
        let details: Vec<String> = details
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let (time, kind, machine) = (event.time, &event.kind, &event.machine);
        writeln!(
            text,
            "  {time:>12.6} s  {kind} {machine} {}",
            details.join(" ")
        )?;
    }
    for death in &outcome.deaths {
        writeln!(text, "{death}")?;
    }
    let errors = outcome.errors.iter().map(|(code, count)| {
        let name = shaketable_host::error_name(*code);
        format!("{name} ({code}) ×{count}")
    });
    writeln!(text, "errors the clients saw: {}", counts(errors.collect()))?;
    for what in &outcome.uncontrolled {
        writeln!(
            text,
            "the workload {what}: the seed may not decide everything"
        )?;
    }
    if let Some(folder) = outcome.folder() {
        writeln!(text, "everything about it: {}", folder.display())?;
    }
    writeln!(text, "to run it again:")?;
    writeln!(text, "  {replay}")?;
    match kept {
        None => {}
        Some(Kept::New(path, needs)) => {
            for need in needs {
                writeln!(text, "needs: {need}")?;
            }
            writeln!(
                text,
                "kept as a case, which runs first from now on: commit {}",
                path.display()
            )?;
        }
        Some(Kept::Known(path)) => writeln!(text, "known already: {}", path.display())?,
        Some(Kept::Not(path, why)) => {
            writeln!(text, "no case could be kept in {}: {why}", path.display())?;
        }
    }
    Ok(text)
}

/// The line to paste, for the test runner in use.
pub(super) fn replay_line(test: Option<&str>, seed: u64) -> String {
    format!("SHAKETABLE_SEED={seed} {}", test_line(test))
}

/// The line that runs the test.
fn test_line(test: Option<&str>) -> String {
    let package = std::env::var("CARGO_PKG_NAME").ok();
    cargo_line(package.as_deref(), test)
}

/// The line that runs a case of a test again.
pub(super) fn case_line(test: Option<&str>, case: &Path) -> String {
    let root = regressions::workspace_root();
    let case = match case.strip_prefix(&root) {
        Ok(inside) if !root.as_os_str().is_empty() => inside,
        _ => case,
    };
    format!("{CASE_VARIABLE}={} {}", case.display(), test_line(test))
}
