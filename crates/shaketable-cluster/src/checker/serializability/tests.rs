//! The checker must find what is wrong: each test takes a correct run and breaks one thing.

use super::*;
use crate::checker::Read;
use crate::error::Error;
use crate::proto::{CommitTransaction, Key, KeySelector, KeyValue, Mutation, MutationKind, Value};
use bytes::Bytes;
use shaketable_kernel::Time;

const FIRST: Versionstamp = Versionstamp {
    version: 10,
    batch_index: 0,
};
const SECOND: Versionstamp = Versionstamp {
    version: 20,
    batch_index: 1,
};

fn set(key: &'static str, value: &'static str) -> Step {
    Step::Mutate {
        kind: MutationKind::SetValue,
        key: key.into(),
        operand: value.into(),
    }
}

fn marked(attempt: u64, mut steps: Vec<Step>) -> Vec<Step> {
    let key = Observation::marker(attempt);
    steps.push(Step::Mutate {
        kind: MutationKind::SetValue,
        key,
        operand: Bytes::new(),
    });
    steps
}

fn read(read: Read, snapshot: bool) -> Step {
    Step::Read {
        read,
        snapshot,
        sees_writes: true,
    }
}

fn get(key: &'static str, value: Option<&'static str>) -> Read {
    Read::Get {
        key: key.into(),
        value: value.map(Value::from),
    }
}

fn committed(stamp: Versionstamp, steps: &[Step]) -> Committed {
    let mutation = |step: &Step| match step.clone() {
        Step::Mutate { kind, key, operand } => Some(Mutation {
            kind,
            param1: key,
            param2: operand,
        }),
        _ => None,
    };
    let mutations = steps.iter().filter_map(mutation).collect();
    Committed {
        stamp,
        transaction: CommitTransaction {
            mutations,
            ..CommitTransaction::default()
        },
    }
}

fn observation(
    attempt: u64,
    read_version: Version,
    steps: Vec<Step>,
    outcome: Outcome,
) -> Observation {
    let time = Time::from_nanos(1);
    Observation {
        attempt,
        read_version: Some((time, time, read_version)),
        steps,
        outcome,
        ended: time,
    }
}

/// A run of two transactions: the first sets `a`, the second reads something at `read_version` and
/// sets `b`.
fn run(read_version: Version, what: Step) -> (Vec<Committed>, Vec<Observation>) {
    let first = marked(1, vec![set("a", "1")]);
    let second = marked(2, vec![what, set("b", "2")]);
    (
        vec![committed(FIRST, &first), committed(SECOND, &second)],
        vec![
            observation(1, 5, first, Outcome::Committed(FIRST)),
            observation(2, read_version, second, Outcome::Committed(SECOND)),
        ],
    )
}

fn verdict((committed, observations): (Vec<Committed>, Vec<Observation>)) -> Result<(), Violation> {
    verify(&committed, &fates(&committed)?, &observations).map(drop)
}

#[test]
fn a_good_run_passes() {
    assert_eq!(verdict(run(10, read(get("a", Some("1")), false))), Ok(()));
    assert_eq!(
        verdict(run(9, read(get("a", None), true))),
        Ok(()),
        "a snapshot read may be overtaken"
    );
}

#[test]
fn a_read_must_show_its_version() {
    let wrong = verdict(run(10, read(get("a", None), true)));
    assert!(
        matches!(
            wrong,
            Err(Violation::WrongRead {
                attempt: 2,
                step: 0,
                version: 10,
                ..
            })
        ),
        "{wrong:?}"
    );
    assert!(verdict(run(9, read(get("a", Some("1")), true))).is_err());
}

#[test]
fn a_serializable_read_must_hold_until_the_commit() {
    let overtaken = verdict(run(9, read(get("a", None), false)));
    assert!(
        matches!(
            overtaken,
            Err(Violation::ReadChanged {
                attempt: 2,
                step: 0,
                ..
            })
        ),
        "{overtaken:?}"
    );
}

#[test]
fn own_writes_cover_what_is_below() {
    let (history, mut observations) = run(9, read(get("x", None), true));
    let steps = &mut observations[1].steps;
    steps.push(read(get("b", Some("2")), false));
    assert_eq!(verdict((history.clone(), observations.clone())), Ok(()));
    let Some(Step::Read { sees_writes, .. }) = observations[1].steps.last_mut() else {
        unreachable!()
    };
    *sees_writes = false;
    assert!(matches!(
        verdict((history.clone(), observations.clone())),
        Err(Violation::WrongRead { .. })
    ));
}

#[test]
fn an_acknowledged_commit_must_be_in_the_history_where_it_says() {
    let (mut history, observations) = run(10, read(get("a", Some("1")), false));
    let last = history.pop();
    assert!(matches!(
        verdict((history.clone(), observations.clone())),
        Err(Violation::LostCommit { attempt: 2, .. })
    ));
    history.push(Committed {
        stamp: Versionstamp {
            version: 21,
            batch_index: 1,
        },
        ..last.unwrap()
    });
    assert!(matches!(
        verdict((history.clone(), observations.clone())),
        Err(Violation::LostCommit { attempt: 2, .. })
    ));
}

#[test]
fn a_refused_commit_must_not_be_in_the_history_but_an_unknown_one_may() {
    let (mut history, mut observations) = run(10, read(get("a", Some("1")), false));
    observations[1].outcome = Outcome::Failed(Error::NOT_COMMITTED);
    assert!(matches!(
        verdict((history.clone(), observations.clone())),
        Err(Violation::ZombieCommit { attempt: 2, .. })
    ));
    observations[1].outcome = Outcome::Failed(Error::COMMIT_UNKNOWN_RESULT);
    assert_eq!(verdict((history.clone(), observations.clone())), Ok(()));
    history.pop();
    assert_eq!(verdict((history.clone(), observations.clone())), Ok(()));
}

#[test]
fn nothing_commits_twice() {
    let (mut history, observations) = run(10, read(get("a", Some("1")), false));
    let again = Committed {
        stamp: Versionstamp {
            version: 30,
            batch_index: 0,
        },
        ..history[1].clone()
    };
    history.push(again);
    assert!(matches!(
        verdict((history.clone(), observations.clone())),
        Err(Violation::CommittedTwice { attempt: 2, .. })
    ));
}

#[test]
fn mutations_must_do_what_the_calls_asked_for() {
    let (mut history, observations) = run(10, read(get("a", Some("1")), false));
    history[1].transaction.mutations[0].param2 = "3".into();
    assert!(matches!(
        verdict((history.clone(), observations.clone())),
        Err(Violation::WrongEffect { attempt: 2, .. })
    ));
}

fn selector(key: &'static str, or_equal: bool, offset: i32) -> KeySelector {
    KeySelector {
        key: key.into(),
        or_equal,
        offset,
    }
}

#[test]
fn selectors_are_resolved_among_the_keys_that_exist() {
    let at = |selector, key: &'static [u8]| {
        let key = Key::from_static(key);
        verdict(run(10, read(Read::GetKey { selector, key }, true)))
    };
    assert_eq!(at(selector("a", false, 1), b"a"), Ok(()));
    assert_eq!(at(selector("a", true, 0), b"a"), Ok(()));
    assert_eq!(at(selector("a", false, 0), b""), Ok(()));
    assert_eq!(at(selector("a", true, 2), b"\xff"), Ok(()));
    assert!(at(selector("a", true, 1), b"a").is_err());
}

#[test]
fn ranges_must_be_complete_up_to_where_they_say_there_is_more() {
    let row = KeyValue {
        key: "a".into(),
        value: "1".into(),
    };
    let range = |rows: Vec<KeyValue>, more, limit| {
        let (begin, end) = (selector("", false, 1), selector("\u{7f}", false, 1));
        let read_range = Read::GetRange {
            begin,
            end,
            reverse: true,
            limit,
            rows,
            more,
        };
        verdict(run(10, read(read_range, true)))
    };
    let marker = KeyValue {
        key: Observation::marker(1),
        value: Bytes::new(),
    };
    let both = vec![marker.clone(), row.clone()];
    assert_eq!(range(both.clone(), false, None), Ok(()));
    assert_eq!(range(vec![marker.clone()], true, Some(1)), Ok(()));
    assert!(
        range(vec![marker.clone()], false, None).is_err(),
        "a row is missing"
    );
    assert!(
        range(vec![row, marker], false, None).is_err(),
        "the order is wrong"
    );
    assert!(range(both, true, Some(1)).is_err(), "one row too many");
    assert!(
        range(vec![], true, None).is_err(),
        "more, but nothing to go on from"
    );
}
