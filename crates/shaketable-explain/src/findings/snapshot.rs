//! Commits that no serial order explains.
//!
//! If every read of a transaction that writes is serializable, all commits could have happened one
//! after the other. A read by snapshot, or without its conflict range, takes that guarantee away:
//! transaction B may read K, C may change K, and B may commit all the same. That alone is harmless:
//! B came first, then. It is an anomaly if something else says that C came first: B overwrote what
//! C wrote, or C had read what B changed. The finding is the smallest such cycle, so the
//! transactions in it cannot be put in any order: two of them in most cases, at most four.

use super::Candidate;
use super::doubt::capital;
use crate::Finding;
use crate::focus::Focus;
use crate::history::{Change, History, How, Read};
use crate::words::{call, committed};
use shaketable_record::{AttemptId, Call, CommittedId};

/// A cycle of more transactions than this convinces no reader.
const CYCLE_MAX: usize = 4;
/// How many commits between the two ends of a cycle are looked at.
const WINDOW_MAX: u32 = 64;

pub fn find(history: &History<'_>, focus: &Focus<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (id, _) in history.attempts() {
        let Some(landed) = history.landed(id) else {
            continue;
        };
        // What two transactions did to keys that the failure never saw is not worth the search.
        let keys = history.keys_of(landed);
        if !focus.reads.is_empty() && !keys.iter().any(|(key, _)| focus.touches(key)) {
            continue;
        }
        for read in history.reads(id) {
            for (key, changes) in history.changes_in(read.begin, &read.end) {
                let later = |change: &Change| history.version_of(change.committed) > read.version;
                let from = changes.partition_point(|change| !later(change));
                let between = changes[from..]
                    .iter()
                    .take_while(|change| change.committed < landed)
                    .filter(|change| change.before != change.after);
                for change in between {
                    if !history.conflicts_on(id, key) {
                        let cycle = anomaly(history, &read, landed, key, change);
                        let cycle = cycle.or_else(|| stamped(history, &read, landed, key, change));
                        found.extend(cycle);
                    }
                }
            }
        }
    }
    found
}

/// Why one transaction comes before another.
struct Edge {
    from: CommittedId,
    to: CommittedId,
    key: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The second overwrote what the first wrote.
    Overwrote,
    /// The second read what the first wrote.
    Saw,
    /// The first read what the second changed later.
    Missed,
}

fn anomaly(
    history: &History<'_>,
    read: &Read<'_>,
    landed: CommittedId,
    key: &[u8],
    change: &Change,
) -> Option<Candidate> {
    let path = path(history, change.committed, landed)?;
    let other = change.committed;
    let text = history.key_text(key);
    let (who, whom) = (history.who(read.attempt), history.author(other));
    let kind = if read.snapshot {
        "by snapshot"
    } else {
        "without a conflict range"
    };
    let mut proof = vec![
        call(
            read.operation,
            format!("{kind}, {}", history.saw_text(key, read.version)),
        ),
        committed(
            other,
            format!("then {whom}: {}", history.change_text(key, change)),
        ),
    ];
    let own = history.keys_of(landed);
    let own_change = own.iter().find(|(written, _)| *written == key);
    // Whatever happened in between, what was read was true again.
    let held = history.value_at(key, read.version);
    if own_change.is_some_and(|(_, mine)| mine.before.as_ref() == held) {
        return None;
    }
    let direct = &path[0];
    let missing = change.before.is_none() && !read.point;
    let (name, weight, meaning) = match (path.len(), direct.kind, own_change) {
        // A row that was added and is gone is more than a row that was relied on.
        (1, _, Some((_, mine))) if mine.how == How::Set && change.after.is_some() => (
            "lost-update",
            if change.before.is_none() && change.after != mine.after {
                109
            } else {
                100
            },
            format!("and wrote {text} itself, over the change"),
        ),
        (1, _, Some(_)) => (
            "stale-rule",
            100,
            format!("and changed {text} itself, by a rule that no longer held"),
        ),
        (1, Kind::Missed, None) => (
            if missing { "phantom" } else { "write-skew" },
            102,
            format!(
                "and changed {}, which {whom} had relied on",
                history.key_text(&direct.key)
            ),
        ),
        (length, ..) => (
            if missing { "phantom" } else { "write-skew" },
            97,
            format!("in a cycle of {} transactions", length + 1),
        ),
    };
    for edge in &path {
        let key_text = history.key_text(&edge.key);
        let (from, to) = (history.author(edge.from), history.author(edge.to));
        if edge.kind == Kind::Missed
            && let Some(reader) = history.committed(edge.from).attempt
            && let Some(earlier) = history.reads(reader).find(|read| read.covers(&edge.key))
        {
            let saw = history.saw_text(&edge.key, earlier.version);
            proof.push(call(earlier.operation, format!("{from} had {saw}")));
        }
        let word = match edge.kind {
            Kind::Overwrote => format!("{to} overwrites {key_text}"),
            Kind::Saw => format!("{to} builds on {key_text}"),
            Kind::Missed => format!("{to} changes {key_text} all the same"),
        };
        let change = history
            .changes(&edge.key)
            .iter()
            .rfind(|c| c.committed == edge.to);
        let what = change.map_or(word, |change| history.change_text(&edge.key, change));
        proof.push(committed(edge.to, what));
    }
    let commits: Vec<CommittedId> = [landed]
        .into_iter()
        .chain(path.iter().map(|edge| edge.from))
        .collect();
    let keys = commits
        .iter()
        .flat_map(|commit| history.keys_of(*commit))
        .map(|(key, _)| key.to_vec());
    Some(Candidate {
        keys: keys.collect(),
        finding: Finding {
            name,
            sentence: format!(
                "{} read {text} {kind}{}, {whom} changed it, and {who} committed nevertheless {meaning}.",
                capital(&who),
                history.at_place(Some(read.operation)),
            ),
            proof,
            advice: "Read what decides about a write serializably (snapshot = false), or add a read \
                     conflict range for exactly the keys that matter; the transaction then conflicts \
                     and looks again."
                .to_owned(), times: 1,
        },
        weight,
        commits,
    })
}

/// A commit that would have come first without harm, had it not written down when it came: its
/// versionstamp is later than the change that it did not see.
fn stamped(
    history: &History<'_>,
    read: &Read<'_>,
    landed: CommittedId,
    key: &[u8],
    change: &Change,
) -> Option<Candidate> {
    let of_other = history.client_of(change.committed) != history.attempt(read.attempt).client;
    if !read.point || !of_other {
        return None;
    }
    let operations = history.operations_of(read.attempt).iter();
    let stamp = operations.copied().find(|id| {
        let call = &history.operation(*id).call;
        matches!(call, Call::Atomic { name, .. } if name.starts_with("set_versionstamped"))
    })?;
    let (text, whom) = (history.key_text(key), history.author(change.committed));
    let rows = history.keys_of(landed);
    let row = rows.iter().find(|(_, change)| change.after.is_some());
    let mut proof = vec![
        call(
            read.operation,
            format!("by snapshot, {}", history.saw_text(key, read.version)),
        ),
        committed(
            change.committed,
            format!("then {whom}: {}", history.change_text(key, change)),
        ),
    ];
    proof.extend(row.map(|(key, change)| committed(landed, history.change_text(key, change))));
    Some(Candidate {
        keys: rows.iter().map(|(key, _)| key.to_vec()).collect(),
        finding: Finding {
            name: "stale-rule",
            sentence: format!(
                "{} read {text} by snapshot{}, {whom} changed it, and the row that {} wrote{} has a \
                 versionstamp after that change.",
                capital(&history.who(read.attempt)),
                history.at_place(Some(read.operation)),
                history.who(read.attempt),
                history.at_place(Some(stamp)),
            ),
            proof,
            advice:
                "Read what decides about a write serializably (snapshot = false): a fencing token \
                     or a lock guards nothing if a change of it is no conflict."
                    .to_owned(),
            times: 1,
        },
        weight: 94,
        commits: vec![landed, change.committed],
    })
}

/// The shortest way from one commit to a later one over reasons to come before.
fn path(history: &History<'_>, from: CommittedId, to: CommittedId) -> Option<Vec<Edge>> {
    if let Some(edge) = edge(history, from, to) {
        return Some(vec![edge]);
    }
    if to - from > WINDOW_MAX {
        return None;
    }
    let mut reached: Vec<(CommittedId, Vec<CommittedId>)> = vec![(from, vec![from])];
    let mut at = 0;
    while let Some((last, way)) = reached.get(at).cloned() {
        at += 1;
        if way.len() >= CYCLE_MAX - 1 {
            continue;
        }
        for next in last + 1..to {
            if reached.iter().any(|(known, _)| *known == next)
                || edge(history, last, next).is_none()
            {
                continue;
            }
            let way = [&way[..], &[next]].concat();
            if edge(history, next, to).is_some() {
                let all = [&way[..], &[to]].concat();
                return all
                    .windows(2)
                    .map(|pair| edge(history, pair[0], pair[1]))
                    .collect();
            }
            reached.push((next, way));
        }
    }
    None
}

/// Why the first of two commits comes before the second, apart from having come first.
fn edge(history: &History<'_>, from: CommittedId, to: CommittedId) -> Option<Edge> {
    let attempt = |id: CommittedId| -> Option<AttemptId> { history.committed(id).attempt };
    let (first, second) = (attempt(from)?, attempt(to)?);
    // Within one transaction its own order counts, and nothing has to be explained.
    if history.attempt(first).transaction == history.attempt(second).transaction {
        return None;
    }
    let new = |key: &[u8], kind| Edge {
        from,
        to,
        key: key.to_vec(),
        kind,
    };
    let (earlier, later) = (history.keys_of(from), history.keys_of(to));
    let both = later
        .iter()
        .find(|(key, _)| earlier.iter().any(|(k, _)| k == key));
    if let Some((key, _)) = both {
        return Some(new(key, Kind::Overwrote));
    }
    let mut first_reads = history.reads(first);
    let missed = first_reads.find_map(|read| {
        later
            .iter()
            .find(|(key, change)| read.covers(key) && change.before != change.after)
    });
    if let Some((key, _)) = missed {
        return Some(new(key, Kind::Missed));
    }
    let version = history.version_of(from);
    let mut second_reads = history.reads(second).filter(|read| read.version >= version);
    let saw = second_reads.find_map(|read| earlier.iter().find(|(key, _)| read.covers(key)));
    saw.map(|(key, _)| new(key, Kind::Saw))
}
