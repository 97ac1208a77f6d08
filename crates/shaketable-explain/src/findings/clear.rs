//! A range was cleared that held rows of another client.
//!
//! Prefixes without an end mark (`user/1` and `user/10`), a wrong end key, a subspace above the own
//! one: the clear takes rows along that another client had written, and that the failed phase
//! misses.

use super::Candidate;
use super::doubt::capital;
use crate::Finding;
use crate::focus::Focus;
use crate::history::{History, How};
use crate::words::{call, committed};
use shaketable_record::Mutation;

pub fn find(history: &History<'_>, focus: &Focus<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for read in &focus.reads {
        for (key, changes) in history.changes_in(read.begin, &read.end) {
            let seen = changes.partition_point(|c| history.version_of(c.committed) <= read.version);
            let Some((gone, before)) = changes[..seen].split_last() else {
                continue;
            };
            let Some(writer) = before.last().filter(|_| gone.how == How::ClearRange) else {
                continue;
            };
            let (cleared_by, written_by) = (
                history.client_of(gone.committed),
                history.client_of(writer.committed),
            );
            // A client may well clear its own rows; but then a check should not miss them.
            let own = if cleared_by == written_by { 10 } else { 0 };
            let range = history
                .committed(gone.committed)
                .mutations
                .iter()
                .find_map(|mutation| match mutation {
                    Mutation::Clear { range } if crate::history::contains(range, key) => {
                        Some(range)
                    }
                    _ => None,
                });
            let Some(range) = range else {
                continue;
            };
            let author = history.committed(gone.committed).attempt;
            let place = history.at_place(author.and_then(|author| history.writer(author, key)));
            let (begin, end) = (
                history.key_text(range.begin.kept()),
                history.key_text(range.end.kept()),
            );
            let text = history.key_text(key);
            found.push(Candidate {
                finding: Finding {
                    name: "range-clear-too-wide",
                    sentence: format!(
                        "{} cleared everything from {begin} to {end}{place}, and with it {text}, which \
                         {} had written.",
                        capital(&history.author(gone.committed)),
                        history.author(writer.committed),
                    ),
                    proof: vec![
                        committed(writer.committed, history.change_text(key, writer)),
                        committed(gone.committed, history.change_text(key, gone)),
                        call(read.operation, format!("looks for {text}: no value")),
                    ],
                    advice: "End a prefix with a mark that no longer name can go on with: pack keys as \
                             tuples and clear the range of a subspace, or put a separator at the end."
                        .to_owned(), times: 1,
                },
                weight: if read.point { 80 } else { 45 } - own,
                keys: vec![key.to_vec()],
                commits: vec![gone.committed],
            });
        }
    }
    found
}
