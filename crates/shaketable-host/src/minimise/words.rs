//! Decisions in words.

use crate::case::DecisionName;

/// What a decision does, as a clause: *the reply of commit 3 of client 1 is lost*.
pub fn clause(text: &str) -> String {
    let (name, outcome) = DecisionName::parse(text);
    let place = name.place.as_deref().map(process).unwrap_or_default();
    let number = name.number.unwrap_or(1);
    let outcome = outcome.unwrap_or_default();
    match name.group.as_str() {
        "a reply is lost" => format!("the reply of commit {number} of {place} is lost"),
        "a commit is lost" => format!("the request of commit {number} of {place} is lost"),
        "read version is rejected" => {
            format!(
                "{place} rejects its {} request for a read version",
                nth(number)
            )
        }
        "connection" => {
            let (from, to) = ends(name.place.as_deref().unwrap_or_default());
            let breaks = if outcome.is_empty() {
                "closes"
            } else {
                &outcome
            };
            format!("the connection of {from} and {to} {breaks} after message {number} of {from}")
        }
        "lost message" => {
            let (from, to) = ends(name.place.as_deref().unwrap_or_default());
            format!("message {number} from {from} to {to} is lost with its connection")
        }
        kind @ ("commit" | "read" | "range read" | "watch") => {
            format!("{kind} {number} of {place}: {outcome}")
        }
        "knob" => format!("the knob {place} is {outcome}"),
        "cluster" if outcome == "1" => format!("the cluster has 1 {}", singular(&place)),
        "cluster" => format!("the cluster has {outcome} {place}"),
        group => {
            let site = group
                .strip_prefix("buggify ")
                .or(group.strip_prefix("buggify! "))
                .or(group.strip_prefix("stress "));
            match site {
                Some(site) => {
                    let lasts = if outcome.is_empty() {
                        String::new()
                    } else {
                        format!(" {outcome}")
                    };
                    format!("{site}{lasts}, the {} time on {place}", nth(number))
                }
                None if name.place.is_none() => format!("{group}, whatever it does"),
                None => format!("{group} {} for the {} time", does(&place), nth(number)),
            }
        }
    }
}

/// What a fault workload does: the first word of its act is a verb.
fn does(act: &str) -> String {
    match act.split_once(' ') {
        Some((verb, rest)) => format!("{verb}s {rest}"),
        None => format!("{act}s"),
    }
}

/// One of the parts of a cluster.
fn singular(parts: &str) -> String {
    match parts.split_once("processes") {
        Some((_, rest)) => format!("process{rest}"),
        None => match parts.strip_suffix("ies") {
            Some(part) => format!("{part}y"),
            None => parts.trim_end_matches('s').to_owned(),
        },
    }
}

/// A process as people know it: testers are clients.
fn process(name: &str) -> String {
    match name.strip_prefix("tester ") {
        Some(number) => format!("client {number}"),
        None => name.to_owned(),
    }
}

fn ends(place: &str) -> (String, String) {
    let (from, to) = place.split_once('→').unwrap_or((place, ""));
    (process(from), process(to))
}

fn nth(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_read_as_clauses() {
        let clauses: Vec<String> = [
            "a reply is lost/tester 1 3",
            "a commit is lost/tester 0 11",
            "connection/tester 2→server 0.1 412: falls silent for 1.25 s",
            "connection/server 0.1→server 1.0 3",
            "lost message/server 0.1→tester 2 398",
            "buggify client shortens a range read/tester 2 12",
            "stress watch is told late/server 1.0 2: for 2.5 s",
            "knob/default_backoff: 0.42",
            "range read/tester 2 12: it is cut after 3 rows",
            "Attrition/kill 3",
            "RandomClogging #2/clog a pair 21",
            "cluster/commit proxies: 1",
            "cluster/processes per machine: 1",
            "cluster/resolvers: 1",
            "cluster/machines: 5",
            "ChangeConfig/configure 1",
            "Liveness/cut off 2",
            "Attrition",
            "read version is rejected/server 0.1 1",
        ]
        .map(clause)
        .into();
        insta::assert_snapshot!(clauses.join("\n"));
    }
}
