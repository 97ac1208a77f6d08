//! A client that died between two transactions that belong together.
//!
//! No record tells what a client would have done next. But the same line of the same workload has
//! been there before: where a commit of this kind is followed by one of another kind every time,
//! in every life and by every client, the second belongs to the first. A life that ended after the
//! first, and a next life that does not begin with the second, have left it half done, if what the
//! first wrote still stands when the failed phase looks; or the next life begins with the first
//! again, and what that one adds to has been added to twice.
//!
//! The kind of a commit is the set of lines that wrote it, so there is no finding without lines. A
//! commit that the client died in counts by what became of it; where it was lost,
//! [`swallowed`](super::swallowed) finds it as well.

use super::Candidate;
use super::doubt::capital;
use crate::Finding;
use crate::focus::Focus;
use crate::history::{History, written};
use crate::words::{attempt, call, committed};
use shaketable_record::{AttemptId, OperationId, PhaseId, PlaceId};
use std::collections::{BTreeMap, BTreeSet};

pub const NAME: &str = "died-half-way";
pub const ADVICE: &str = "Write what belongs together in one transaction, or let `recover` look \
                          for what an earlier life has left half done.";

/// How often one kind must have followed another for it to be a habit.
const TIMES_MIN: usize = 2;

/// The lines that wrote a commit.
type Kind = BTreeSet<PlaceId>;

pub fn find(history: &History<'_>, focus: &Focus<'_>) -> Vec<Candidate> {
    let clients: BTreeSet<Option<u32>> = history.attempts().map(|(_, own)| own.client).collect();
    let lives: Vec<Vec<Life>> = clients
        .into_iter()
        .map(|client| lives(history, client))
        .collect();
    if lives.iter().all(|lives| lives.len() == 1) {
        return Vec::new();
    }
    let habits = habits(&lives);
    let mut found = Vec::new();
    for pair in lives.iter().flat_map(|lives| lives.windows(2)) {
        let [ended, next] = pair else { continue };
        found.extend(half_done(history, focus, &habits, ended, next));
    }
    found
}

/// Whether the client died at this moment, because the test file asked for it.
pub fn died(history: &History<'_>, client: Option<u32>, time: f64) -> bool {
    deaths(history, client).any(|death| death == time)
}

/// When a client died, in time.
pub fn deaths(history: &History<'_>, client: Option<u32>) -> impl Iterator<Item = f64> {
    let client = client.map(|client| client.to_string());
    let crashes = history.record.events.iter().filter(move |event| {
        let mut details = event.details.iter();
        event.name == "WorkloadCrashed"
            && details.any(|(key, value)| key == "Client" && Some(value) == client.as_ref())
    });
    crashes.map(|event| event.time)
}

/// What a client committed between its birth and its death.
#[derive(Default)]
struct Life {
    commits: Vec<Step>,
    /// Its first attempt, whatever became of it.
    first: Option<AttemptId>,
}

struct Step {
    attempt: AttemptId,
    transaction: u32,
    phase: Option<PhaseId>,
    kind: Kind,
}

fn lives(history: &History<'_>, client: Option<u32>) -> Vec<Life> {
    let mut ends = deaths(history, client).peekable();
    let mut lives = vec![Life::default()];
    for id in history.attempts_of(client) {
        let own = history.attempt(*id);
        while ends.next_if(|end| *end <= own.begun).is_some() {
            lives.push(Life::default());
        }
        let Some(life) = lives.last_mut() else {
            continue;
        };
        life.first.get_or_insert(*id);
        if history.landed(*id).is_some() {
            life.commits.push(Step {
                attempt: *id,
                transaction: own.transaction,
                phase: own.phase,
                kind: kind(history, *id),
            });
        }
    }
    // A client that died and did nothing any more.
    lives.extend(ends.map(|_| Life::default()));
    lives
}

fn kind(history: &History<'_>, id: AttemptId) -> Kind {
    writes(history, id)
        .filter_map(|id| history.operation(id).place)
        .collect()
}

fn writes<'h>(history: &'h History<'_>, id: AttemptId) -> impl Iterator<Item = OperationId> + 'h {
    let operations = history.operations_of(id).iter().copied();
    operations.filter(|id| written(&history.operation(*id).call).is_some())
}

/// The kind that follows a kind every time, and the last instance of it.
struct Habit<'l> {
    then: &'l Kind,
    times: usize,
    last: AttemptId,
}

fn habits(lives: &[Vec<Life>]) -> BTreeMap<&Kind, Option<Habit<'_>>> {
    let mut habits: BTreeMap<&Kind, Option<Habit<'_>>> = BTreeMap::new();
    let lives = lives.iter().flatten();
    for pair in lives.flat_map(|life| life.commits.windows(2)) {
        let [one, two] = pair else { continue };
        // A check does not go on with what a start has begun, and a retry begins it again.
        if one.phase != two.phase || one.transaction == two.transaction {
            continue;
        }
        let known = habits.entry(&one.kind).or_insert(Some(Habit {
            then: &two.kind,
            times: 0,
            last: two.attempt,
        }));
        match known {
            Some(habit) if *habit.then == two.kind => {
                habit.times += 1;
                habit.last = two.attempt;
            }
            _ => *known = None,
        }
    }
    habits
}

/// What a life has begun and the next one did not end.
fn half_done(
    history: &History<'_>,
    focus: &Focus<'_>,
    habits: &BTreeMap<&Kind, Option<Habit<'_>>>,
    ended: &Life,
    next: &Life,
) -> Option<Candidate> {
    let Step {
        attempt: id,
        kind: first,
        ..
    } = ended.commits.last()?;
    let habit = habits.get(first)?.as_ref()?;
    if habit.times < TIMES_MIN || habit.then == first || habit.then.is_empty() {
        return None;
    }
    let mut until_again = next.commits.iter().take_while(|step| step.kind != *first);
    if until_again.any(|step| step.kind == *habit.then) {
        return None;
    }
    let landed = history.landed(*id)?;
    let version = focus.version().unwrap_or(i64::MAX);
    // The next life begins with the same step: what it adds to, it adds to twice.
    let again = next.commits.first().filter(|step| step.kind == *first);
    let again = again.and_then(|step| history.landed(step.attempt));
    let grows = |key: &[u8]| {
        let changed = |landed| {
            let mut changes = history.changes(key).iter();
            changes.any(|change| change.committed == landed && change.before != change.after)
        };
        again.is_some_and(|again| changed(landed) && changed(again))
    };
    let mut keys: Vec<Vec<u8>> = history
        .keys_of(landed)
        .into_iter()
        .filter(|(key, change)| {
            let seen = history.change_seen(key, version);
            let stands = seen.is_some_and(|seen| seen.committed == landed);
            change.after.is_some() && (stands || grows(key))
        })
        .map(|(key, _)| key.to_vec())
        .collect();
    let key = keys.iter().find(|key| focus.touches(key));
    let key = key.or(keys.first())?.clone();
    let text = history.key_text(&key);
    let writer = history.writer(*id, &key)?;
    let missing = writes(history, habit.last).find(|id| history.operation(*id).place.is_some())?;
    let mut proof = vec![
        call(
            writer,
            format!("writes {text}, and the client dies after this transaction"),
        ),
        call(
            missing,
            format!(
                "what follows such a write, {} times in this run",
                habit.times
            ),
        ),
    ];
    let repeated = grows(&key);
    proof.extend(next.first.map(|first| {
        attempt(
            first,
            match repeated {
                true => "the next life of the client does not know of it",
                false => "the next life of the client begins with something else",
            },
        )
    }));
    if let Some(again) = again.filter(|_| repeated) {
        proof.push(committed(again, format!("and writes {text} again")));
    }
    if let Some(read) = focus.read_of(&key) {
        proof.push(call(read.operation, history.saw_text(&key, read.version)));
    }
    let then = match repeated {
        true => ", and the next life wrote it again",
        false => "",
    };
    let sentence = format!(
        "{} died between two transactions that belong together: {text}{} was written, and what \
         follows every other time{} was not{then}.",
        capital(&history.who(*id)),
        history.at_place(Some(writer)),
        history.at_place(Some(missing)),
    );
    // The failed phase may only have looked for what is missing.
    let others = history
        .landed(habit.last)
        .map(|last| history.keys_of(last))
        .unwrap_or_default();
    keys.extend(others.into_iter().map(|(key, _)| key.to_vec()));
    Some(Candidate {
        finding: Finding {
            name: NAME,
            sentence,
            proof,
            advice: ADVICE.to_owned(),
            times: 1,
        },
        weight: 88,
        keys,
        commits: vec![landed],
    })
}
