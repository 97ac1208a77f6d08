//! The story of a key: who wrote what when, and what the failed phase saw of it.

use crate::focus::Focus;
use crate::history::History;
use crate::words::{call, committed};
use crate::{Evidence, Finding, Story};
use shaketable_record::Bytes;

/// How many keys have their story told.
const STORIES_MAX: usize = 3;
/// How many changes of a key are told: those that the first finding is about with their neighbours,
/// or the last ones.
const CHANGES_MAX: usize = 6;

/// The stories of the keys that the failed phase had read: first those that a finding is about.
pub fn tell(history: &History<'_>, focus: &Focus<'_>, findings: &[Finding]) -> Vec<Story> {
    let commits: Vec<u32> = findings
        .iter()
        .take(1)
        .flat_map(|finding| &finding.proof)
        .filter_map(|proof| match proof.at {
            Evidence::Committed(id) => Some(id),
            _ => None,
        })
        .collect();
    let mut keys: Vec<(usize, u32, &[u8])> = Vec::new();
    for read in focus.reads.iter().rev() {
        for (key, changes) in history.changes_in(read.begin, &read.end) {
            if keys.iter().any(|(_, _, known)| *known == key) {
                continue;
            }
            let own = changes
                .iter()
                .filter(|change| commits.contains(&change.committed))
                .count();
            keys.push((own, focus.mentions(&history.key_text(key)), key));
        }
    }
    keys.sort_by_key(|(own, mentioned, _)| std::cmp::Reverse((*own, *mentioned)));
    keys.into_iter()
        .take(STORIES_MAX)
        .map(|(_, _, key)| story(history, focus, key, &commits))
        .collect()
}

fn story(history: &History<'_>, focus: &Focus<'_>, key: &[u8], commits: &[u32]) -> Story {
    let read = focus.read_of(key);
    let version = read.map_or(i64::MAX, |read| read.version);
    let changes = history.changes(key);
    let seen = changes.partition_point(|change| history.version_of(change.committed) <= version);
    let last = seen.saturating_sub(CHANGES_MAX);
    let proven = changes[..seen]
        .iter()
        .position(|change| commits.contains(&change.committed));
    let begin = proven.map_or(last, |first| first.saturating_sub(1).min(last));
    let end = seen.min(begin + CHANGES_MAX);
    let told = &changes[begin..end];
    let mut chapters: Vec<_> = told
        .iter()
        .map(|change| committed(change.committed, history.change_text(key, change)))
        .collect();
    chapters.extend(read.map(|read| call(read.operation, history.saw_text(key, version))));
    Story {
        key: Bytes::whole(key),
        text: history.key_text(key),
        chapters,
        earlier: u32::try_from(begin).unwrap_or(u32::MAX),
        later: u32::try_from(seen - end).unwrap_or(u32::MAX),
    }
}
