//! The checker against histories whose answer is known, and against an exhaustive one.

use super::CounterOperation::{Add, Read};
use super::RegisterOperation as R;
use super::*;

#[test]
fn what_overlaps_may_have_happened_in_either_order() {
    let history = History::<Register<u8>>::new();
    let write = history.call(0, R::Write(1));
    history.call(1, R::Read).returned(None);
    history.call(2, R::Read).returned(Some(1));
    write.returned(None);
    history.check().unwrap();
}

#[test]
fn a_read_cannot_see_less_than_an_earlier_one() {
    let history = History::<Register<u8>>::new();
    let write = history.call(0, R::Write(1));
    history.call(2, R::Read).returned(Some(1));
    history.call(1, R::Read).returned(None);
    write.returned(None);
    let error = history.check().unwrap_err();
    assert_eq!(error.len(), 3, "{error}");
}

#[test]
fn an_operation_of_unknown_fate_may_happen_late_or_never() {
    let history = History::<Counter>::new();
    history.call(0, Add(5)).unknown();
    history.call(1, Read).returned(Some(0));
    history.call(1, Read).returned(Some(5));
    history.check().unwrap();
    history.call(1, Read).returned(Some(10));
    assert!(history.check().is_err(), "but not twice");
}

#[test]
fn an_operation_that_failed_did_not_happen() {
    let history = History::<Counter>::new();
    history.call(0, Add(5)).failed();
    history.call(1, Read).returned(Some(0));
    history.check().unwrap();
    history.call(1, Read).returned(Some(5));
    assert!(history.check().is_err());
}

#[test]
fn a_call_that_is_dropped_is_of_unknown_fate() {
    let history = History::<Counter>::new();
    drop(history.call(0, Add(1)));
    history.call(1, Read).returned(Some(1));
    history.check().unwrap();
}

#[test]
fn versions_decide_the_order_of_what_overlaps() {
    let race = |first: i64, second: i64, read: i64, seen: u8| {
        let history = History::<Register<u8>>::new();
        let calls = [
            history.call(0, R::Write(1)),
            history.call(1, R::Write(2)),
            history.call(2, R::Read),
        ];
        let [one, two, look] = calls;
        one.committed(None, first);
        two.committed(None, second);
        look.read(Some(seen), read);
        history.check()
    };
    race(10, 20, 20, 2).unwrap();
    race(10, 20, 15, 1).unwrap();
    race(20, 10, 20, 1).unwrap();
    assert!(race(10, 20, 20, 1).is_err());
    assert!(race(10, 20, 15, 2).is_err());
    let error = race(10, 20, 15, 2).unwrap_err().to_string();
    assert!(
        error.contains("Read -> Some(2)  [3, 6] at version 15"),
        "{error}"
    );
}

#[test]
fn a_contradiction_is_cut_down_to_what_shows_it() {
    let history = History::<Counter>::new();
    for round in 0..30 {
        history.call(round % 3, Add(1)).returned(None);
        history
            .call(round % 3, Read)
            .returned(Some(i64::from(round) + 1));
    }
    history.call(0, Read).returned(Some(29));
    for round in 30..60 {
        history.call(0, Add(1)).returned(None);
        history.call(1, Read).returned(Some(round + 1));
    }
    let error = history.check().unwrap_err();
    assert_eq!(error.len(), 31, "thirty additions and one read:\n{error}");
    let text = error.to_string();
    assert!(text.contains("31 of 121 operations"), "{text}");
    assert!(text.contains("Read -> Some(29)"), "{text}");
    assert!(
        text.contains("leaves 30, and nothing that is left answers so"),
        "{text}"
    );
    assert!(text.contains("… 15 before these"), "{text}");
    assert!(!text.contains("Read -> Some(30)"), "{text}");
}

#[test]
fn long_histories_with_versions_are_checked_at_once() {
    let history = History::<AppendList<u32>>::new();
    let mut list = Vec::new();
    for block in 0..40_u32 {
        let calls: Vec<_> = (0..10)
            .map(|n| history.call(n, ListOperation::Append(block * 10 + n as u32)))
            .collect();
        for (n, call) in calls.into_iter().enumerate() {
            // Within a block the last called committed first.
            call.committed(None, i64::from(block) * 100 + 50 - n as i64);
        }
        list.extend((0..10).rev().map(|n| block * 10 + n));
        history
            .call(0, ListOperation::Read)
            .read(Some(list.clone()), i64::from(block) * 100 + 60);
    }
    assert_eq!(history.len(), 440);
    history.check().unwrap();
}

#[test]
fn queues_and_sets_and_comparisons_do_what_they_do() {
    let queue = History::<Queue<u8>>::new();
    queue.call(0, QueueOperation::Push(1)).returned(None);
    queue.call(0, QueueOperation::Push(2)).returned(None);
    let (first, second) = (
        queue.call(1, QueueOperation::Pop),
        queue.call(2, QueueOperation::Pop),
    );
    first.returned(Some(2));
    second.returned(Some(1));
    queue.call(0, QueueOperation::Pop).returned(None);
    queue.check().unwrap();
    queue.call(0, QueueOperation::Pop).returned(Some(2));
    assert!(queue.check().is_err(), "a value comes out once");

    let set = History::<Set<u8>>::new();
    set.call(0, SetOperation::Add(1)).returned(None);
    set.call(0, SetOperation::Add(2)).unknown();
    set.call(1, SetOperation::Read)
        .returned(Some([1, 2].into()));
    set.call(1, SetOperation::Remove(1)).returned(None);
    set.call(1, SetOperation::Read).returned(Some([2].into()));
    set.check().unwrap();

    let register = History::<Register<u8>>::new();
    register.call(0, R::Write(1)).returned(None);
    let (a, b) = (
        register.call(1, R::CompareAndSet(1, 2)),
        register.call(2, R::CompareAndSet(1, 3)),
    );
    a.returned(Some(1));
    b.returned(Some(1));
    assert!(register.check().is_err(), "one of two wins");
}

#[test]
fn histories_of_one_name_are_one() {
    History::<Counter>::shared("shared")
        .call(0, Add(1))
        .returned(None);
    assert_eq!(History::<Counter>::shared("shared").len(), 1);
    assert!(History::<Counter>::shared("another").is_empty());
}

#[test]
#[should_panic(expected = "one of another model")]
fn a_name_has_one_model() {
    History::<Counter>::shared("mixed");
    History::<Queue<u8>>::shared("mixed");
}

/// When an operation was called; when it returned, and what; the operation.
type Known = (u64, Option<(u64, Option<i64>)>, CounterOperation);

/// Whether some permutation of the required operations, and of any of the others, explains the answers.
fn exhaustive(records: &[Known]) -> bool {
    fn go(records: &[Known], done: u32, state: i64) -> bool {
        let open = |index: usize| done & 1 << index == 0;
        if (0..records.len()).all(|index| !open(index) || records[index].1.is_none()) {
            return true;
        }
        (0..records.len())
            .filter(|index| open(*index))
            .any(|index| {
                let (called, returned, operation) = &records[index];
                let too_early = (0..records.len()).any(|other| {
                    open(other)
                        && other != index
                        && records[other].1.is_some_and(|(at, _)| at < *called)
                });
                let mut after = state;
                let output = Counter::apply(&mut after, operation);
                let told = returned.is_none_or(|(_, told)| told == output);
                !too_early && told && go(records, done | 1 << index, after)
            })
    }
    go(records, 0, 0)
}

#[test]
fn random_small_histories_are_judged_as_by_trying_everything() {
    let mut word = 1_u64;
    let mut below = |n: u64| {
        word = word
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (word >> 33) % n
    };
    let (mut good, mut bad) = (0, 0);
    for _ in 0..3_000 {
        let history = History::<Counter>::new();
        let mut open: Vec<(usize, Call<Counter>)> = Vec::new();
        let mut known: Vec<Known> = Vec::new();
        let mut clock = 0;
        for _ in 0..12 {
            if open.len() < 3 && below(2) == 0 && known.len() < 7 {
                let operation = if below(2) == 0 {
                    Read
                } else {
                    Add(1 + below(2) as i64)
                };
                clock += 1;
                known.push((clock, None, operation));
                open.push((known.len() - 1, history.call(0, operation)));
            } else if !open.is_empty() {
                let (index, call) = open.remove(below(open.len() as u64) as usize);
                let output = match known[index].2 {
                    Read => Some(below(4) as i64),
                    _ => None,
                };
                if below(5) == 0 {
                    call.unknown();
                } else {
                    clock += 1;
                    known[index].1 = Some((clock, output));
                    call.returned(output);
                }
            }
        }
        let expected = exhaustive(&known);
        assert_eq!(history.check().is_ok(), expected, "{known:?}");
        if expected { good += 1 } else { bad += 1 }
    }
    assert!(good > 200 && bad > 200, "{good} and {bad}");
}
