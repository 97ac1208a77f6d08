//! A transaction that was told to read the past.
//!
//! A read version of the database is never older than what was committed before it was asked for.
//! One that is set by hand may be.

use super::Candidate;
use super::doubt::capital;
use crate::Finding;
use crate::focus::Focus;
use crate::history::History;
use crate::words::{call, committed};
use shaketable_record::{AttemptId, Call};

pub fn find(history: &History<'_>, focus: &Focus<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (id, _) in history.attempts() {
        for operation in history.operations_of(id) {
            if let Call::SetReadVersion(version) = history.operation(*operation).call {
                found.extend(old(history, focus, id, *operation, version));
            }
        }
    }
    found
}

fn old(
    history: &History<'_>,
    focus: &Focus<'_>,
    id: AttemptId,
    set: u32,
    version: i64,
) -> Option<Candidate> {
    let begun = history.attempt(id).begun;
    history.reads(id).find_map(|read| {
        let rows = history.changes_in(read.begin, &read.end);
        let (key, missed) = rows.into_iter().find_map(|(key, changes)| {
            let missed = changes.iter().rfind(|change| {
                let author = history.committed(change.committed).attempt;
                let over = author.and_then(|author| history.attempt(author).ended);
                history.version_of(change.committed) > version
                    && change.before != change.after
                    && over.is_some_and(|over| over <= begun)
            })?;
            Some((key, missed))
        })?;
        let text = history.key_text(key);
        Some(Candidate {
            finding: Finding {
                name: "old-read-version",
                sentence: format!(
                    "{} read {text}{} at version {version}, which it had set itself; {} had changed it \
                     at version {}, before the transaction began.",
                    capital(&history.who(id)),
                    history.at_place(Some(read.operation)),
                    history.author(missed.committed),
                    history.version_of(missed.committed),
                ),
                proof: vec![
                    committed(missed.committed, history.change_text(key, missed)),
                    call(set, format!("sets the read version to {version}")),
                    call(read.operation, history.saw_text(key, version)),
                ],
                advice: "Let every transaction get its own read version. A kept one is right only for \
                         readers that may see the past."
                    .to_owned(), times: 1,
            },
            weight: if focus.attempts.contains(&id) { 111 } else { 77 },
            keys: vec![key.to_vec()],
            // That it was not seen is the point.
            commits: Vec::new(),
        })
    })
}
