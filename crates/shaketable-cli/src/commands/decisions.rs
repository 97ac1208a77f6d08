//! `decisions`: what chance decided in a run, by the names that a case can list.

use crate::args::{DecisionsArgs, MessageFormat};
use crate::exit_codes;
use crate::pool::Addresses;
use crate::protocol::Request;
use crate::report::human;
use crate::seed::Seed;
use crate::session::{Session, SessionError};
use crate::sweep::run_one;
use serde::Serialize;
use shaketable_host::plan::Recording;
use shaketable_host::verdict::Outcome;
use std::collections::BTreeMap;
use std::fmt::Write;

/// `decisions`.
pub fn decisions(args: &DecisionsArgs) -> Result<u8, SessionError> {
    let file = std::slice::from_ref(&args.file);
    let session = Session::prepare(file, &args.simulation, &args.build, true)?;
    let seed = session.only_seed(args.seed)?;
    let mut pool = session.pool(1, Addresses::Fixed)?;
    let request = Request {
        file: 0,
        seed: seed.0,
        recording: Recording::Decisions,
        case: None,
    };
    let response = run_one(&mut pool, request, &session.interrupted);
    let outcome = response.ok_or(SessionError::Interrupted)?.outcome;
    match args.message_format {
        MessageFormat::Human => anstream::print!("{}", text(&outcome)),
        MessageFormat::Json => print!("{}", json(&outcome)),
    }
    Ok(exit_codes::PASSED)
}

/// The decisions in the order of their time, then how many there are of each group.
fn text(outcome: &Outcome) -> String {
    let mut text = String::new();
    let mut groups: BTreeMap<&str, u64> = BTreeMap::new();
    for decision in &outcome.decisions {
        let group = decision.name.split('/').next().unwrap_or_default();
        *groups.entry(group).or_default() += 1;
        let _ = write!(text, "{:>10.3} s  {}", decision.time, decision.text());
        text.push_str(match (decision.happened, decision.by_chance) {
            (false, _) => "  (left out)\n",
            (true, false) => "  (forced)\n",
            (true, true) => "\n",
        });
    }
    if !groups.is_empty() {
        text.push('\n');
    }
    text.push_str(&counts(
        groups.iter().map(|(group, count)| (*group, *count)),
    ));
    if !outcome.streams.is_empty() {
        text.push_str("\nstreams of everything else, and how often each was drawn from\n");
    }
    let streams = outcome.streams.iter();
    text.push_str(&counts(streams.map(|one| (&*one.name, one.draws))));
    if !outcome.streams.is_empty() {
        text.push('\n');
    }
    let count = human::plural(outcome.decisions.len() as u64, "decision");
    let verdict = match outcome.failures.first() {
        Some(failure) => format!("the run failed: {failure}"),
        None => "the run passed".to_owned(),
    };
    let _ = writeln!(
        text,
        "{count} in {:.1} simulated seconds; {verdict}",
        outcome.simulated_seconds
    );
    text
}

/// A line for each name.
fn counts<'a>(names: impl Iterator<Item = (&'a str, u64)> + Clone) -> String {
    let width = names.clone().map(|(name, _)| name.chars().count()).max();
    let width = width.unwrap_or(0);
    names
        .map(|(name, count)| format!("{name:<width$}  {count:>6}\n"))
        .collect()
}

/// One object per line.
fn json(outcome: &Outcome) -> String {
    let (decisions, streams) = (outcome.decisions.iter(), outcome.streams.iter());
    let decisions = decisions.map(|decision| line("decision", outcome.seed, decision));
    let streams = streams.map(|stream| line("stream", outcome.seed, stream));
    decisions.chain(streams).collect()
}

fn line(kind: &'static str, seed: u64, what: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Line<'a, T> {
        #[serde(rename = "type")]
        kind: &'static str,
        seed: Seed,
        #[serde(flatten)]
        what: &'a T,
    }
    let seed = Seed(seed);
    serde_json::to_string(&Line { kind, seed, what }).expect("names and numbers can be written")
        + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use shaketable_host::case::TakenDecision;
    use shaketable_record::Stream;

    fn outcome() -> Outcome {
        let decision =
            |name: &str, outcome: Option<&str>, time, happened, by_chance| TakenDecision {
                name: name.into(),
                outcome: outcome.map(str::to_owned),
                time,
                happened,
                by_chance,
            };
        Outcome {
            seed: 42,
            simulated_seconds: 31.25,
            decisions: vec![
                decision("knob/default_backoff", Some("0.42"), 0.0, true, true),
                decision("Attrition/kill 1", None, 7.5, false, false),
                decision("Attrition/kill 2", None, 12.0625, true, false),
            ],
            streams: [("kills", 3), ("network", 12_345)]
                .map(|(name, draws)| Stream {
                    name: name.into(),
                    draws,
                })
                .into(),
            ..Outcome::default()
        }
    }

    #[test]
    fn decisions_are_listed_in_order_and_counted() {
        insta::assert_snapshot!(text(&outcome()));
    }

    #[test]
    fn decisions_are_objects_of_json() {
        insta::assert_snapshot!(json(&outcome()));
    }
}
