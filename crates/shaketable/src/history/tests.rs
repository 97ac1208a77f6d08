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
    let error = history.check().unwrap_err().to_string();
    let expected = "\
not linearizable: no order of these 1 of 3 operations explains every answer
  2 before these can only leave Some(1)
  client 1: Read -> None  [4, 5]
none of them, done first, returns what was recorded";
    assert_eq!(error, expected);
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
    let error = history.check().unwrap_err().to_string();
    let expected = "\
not linearizable: no order of these 1 of 121 operations explains every answer
  60 before these can only leave 30
  client 0: Read -> Some(29)  [121, 122]
none of them, done first, returns what was recorded";
    assert_eq!(error, expected);
}

#[test]
fn what_may_have_happened_before_stays_in_sight() {
    let history = History::<Counter>::new();
    for round in 0..30 {
        history.call(0, Add(1)).returned(None);
        history.call(1, Read).returned(Some(round + 1));
    }
    // It did not happen up to the last of these reads, so it may be yet to come.
    history.call(2, Add(5)).unknown();
    history.call(0, Read).returned(Some(30));
    history.call(0, Read).returned(Some(30));
    history.call(0, Read).returned(Some(36));
    let error = history.check().unwrap_err().to_string();
    let expected = "\
not linearizable: no order of these 2 of 64 operations explains every answer
  62 before these can only leave 30
  client 2: Add(5) (fate unknown)  [121, …
  client 0: Read -> Some(36)  [126, 127]
the longest order that explains a part:
  client 2: Add(5) (fate unknown)  [121, …
leaves 35, and none of the rest returns what was recorded";
    assert_eq!(error, expected);
}

#[test]
fn what_committed_later_does_not_hide_a_contradiction() {
    let history = History::<Counter>::new();
    let add = |client| history.call(client, CounterOperation::AddAndGet(1));
    add(0).committed(Some(1), 100);
    // It is under way while the others commit, and could have been what they counted, but for its
    // version.
    let late = add(1);
    add(0).committed(Some(3), 200);
    for round in 3..20 {
        add(0).committed(Some(round + 1), 200 + round);
    }
    late.committed(Some(21), 300);
    let error = history.check().unwrap_err().to_string();
    let expected = "\
not linearizable: no order of these 1 of 20 operations explains every answer
  1 before these can only leave 1
  client 0: AddAndGet(1) -> Some(3)  [4, 5] at version 200
none of them, done first, returns what was recorded";
    assert_eq!(error, expected);
}

#[test]
fn thousands_of_operations_are_explained_and_contradicted() {
    // Eight clients at a time, no versions; in every other block one of them does not know what it
    // did, and did it in half of these.
    let history = History::<Counter>::new();
    let mut value = 0;
    for block in 0..250 {
        let adds: Vec<_> = (0..7).map(|client| history.call(client, Add(1))).collect();
        for (client, add) in adds.into_iter().enumerate() {
            let is_unknown = client == 3 && block % 2 == 0;
            value += i64::from(!is_unknown || block % 4 == 0);
            match is_unknown {
                true => add.unknown(),
                false => add.returned(None),
            }
        }
        history.call(7, Read).returned(Some(value));
    }
    assert_eq!(history.len(), 2_000);
    history.check().unwrap();
    history.call(0, Read).returned(Some(value - 1));
    let error = history.check().unwrap_err().to_string();
    assert!(error.contains("of 2001 operations explains"), "{error}");
    assert!(
        error.contains(&format!("can only leave {value}")),
        "{error}"
    );
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

/// An operation as an exhaustive search sees it.
struct Known<'a, M: Model> {
    called: u64,
    returned: Option<(u64, &'a M::Output)>,
    order: Option<Order>,
    operation: &'a M::Operation,
}

/// The operations that did not fail, as of a moment.
fn known<M: Model>(records: &[Record<M>], until: u64) -> Vec<Known<'_, M>> {
    let happened = records
        .iter()
        .filter(|record| record.called <= until && !matches!(record.outcome, Outcome::Failed));
    happened
        .map(|record| {
            let (returned, order) = match &record.outcome {
                Outcome::Returned { at, output, order } if *at <= until => {
                    (Some((*at, output)), *order)
                }
                _ => (None, None),
            };
            Known {
                called: record.called,
                returned,
                order,
                operation: &record.operation,
            }
        })
        .collect()
}

/// Whether some permutation of the required operations, and of any of the others, explains the
/// answers.
fn exhaustive<M: Model>(start: &M::State, known: &[Known<'_, M>], done: u32) -> bool {
    let open = |index: usize| done & 1 << index == 0;
    if (0..known.len()).all(|index| !open(index) || known[index].returned.is_none()) {
        return true;
    }
    let precedes = |first: &Known<'_, M>, second: &Known<'_, M>| {
        let in_time = first.returned.is_some_and(|(at, _)| at < second.called);
        let by_version = match (first.order, second.order) {
            (Some(Order::Committed(a)), Some(Order::Committed(b))) => a < b,
            (Some(Order::Read(a)), Some(Order::Read(b))) => a < b,
            (Some(Order::Committed(a)), Some(Order::Read(b))) => a <= b,
            (Some(Order::Read(a)), Some(Order::Committed(b))) => a < b,
            _ => false,
        };
        in_time || by_version
    };
    let mut next = (0..known.len()).filter(|index| open(*index));
    next.any(|index| {
        let is_early =
            (0..known.len()).any(|other| open(other) && precedes(&known[other], &known[index]));
        let mut after = start.clone();
        let output = M::apply(&mut after, known[index].operation);
        let told = known[index]
            .returned
            .is_none_or(|(_, told)| *told == output);
        !is_early && told && exhaustive(&after, known, done | 1 << index)
    })
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A history of up to seven operations, three at a time, of an object that is now and then wrong:
/// it answers from the past, it forgets a write, it gives a version that is not its own. One of
/// three histories has versions.
fn random<M: Model>(dice: &mut Dice, operation: fn(&mut Dice) -> M::Operation) -> History<M> {
    let history = History::<M>::new();
    let has_versions = dice.one_in(3);
    let mut open: Vec<Call<M>> = Vec::new();
    let mut states = vec![M::initial()];
    for _ in 0..14 {
        if open.len() < 3 && history.len() < 7 && !dice.one_in(3) {
            open.push(history.call(open.len() as i32, operation(dice)));
        } else if !open.is_empty() {
            let call = open.remove(dice.below(open.len() as u64) as usize);
            let from = match dice.one_in(6) {
                true => dice.below(states.len() as u64) as usize,
                false => states.len() - 1,
            };
            let mut state = states[from].clone();
            let records = history.records.borrow();
            let output = M::apply(&mut state, &records.operations[call.index].operation);
            let is_read = M::is_read(&records.operations[call.index].operation);
            drop(records);
            if !is_read && !dice.one_in(8) {
                states.push(state);
            }
            let version = states.len() as i64 + i64::from(dice.one_in(8));
            match dice.below(8) {
                0 => call.unknown(),
                1 if is_read => call.failed(),
                _ if has_versions && is_read => call.read(output, version),
                _ if has_versions => call.committed(output, version),
                _ => call.returned(output),
            }
        }
    }
    history
}

fn agrees<M: Model>(operation: fn(&mut Dice) -> M::Operation) {
    let mut dice = Dice(7);
    let (mut good, mut bad) = (0, 0);
    for round in 0..1_000 {
        let history = random::<M>(&mut dice, operation);
        let records = history.records.borrow();
        let records = &records.operations;
        let expected = exhaustive::<M>(&M::initial(), &known(records, u64::MAX), 0);
        let found = history.check();
        let known: Vec<String> = records.iter().map(shown_record).collect();
        assert_eq!(found.is_ok(), expected, "round {round}: {known:#?}");
        if expected { good += 1 } else { bad += 1 }
    }
    assert!(good > 100 && bad > 100, "{good} and {bad}");
}

fn shown_record<M: Model>(record: &Record<M>) -> String {
    let operation = &record.operation;
    match &record.outcome {
        Outcome::Returned { at, output, order } => {
            format!(
                "{operation:?} -> {output:?} [{}, {at}] {order:?}",
                record.called
            )
        }
        Outcome::Unknown => format!("{operation:?} [{}, …", record.called),
        Outcome::Failed => format!("{operation:?} failed"),
    }
}

fn counter_operation(dice: &mut Dice) -> CounterOperation {
    match dice.below(4) {
        0 => Add(1 + dice.below(2) as i64),
        1 => CounterOperation::AddAndGet(1),
        _ => Read,
    }
}

#[test]
fn random_histories_of_a_counter_are_judged_as_by_trying_everything() {
    agrees::<Counter>(counter_operation);
}

#[test]
fn random_histories_of_a_register_are_judged_as_by_trying_everything() {
    agrees::<Register<u64>>(|dice| match dice.below(4) {
        0 => R::Write(dice.below(3)),
        1 => R::CompareAndSet(dice.below(3), dice.below(3)),
        _ => R::Read,
    });
}

#[test]
fn random_histories_of_a_set_are_judged_as_by_trying_everything() {
    agrees::<Set<u64>>(|dice| match dice.below(4) {
        0 => SetOperation::Add(dice.below(3)),
        1 => SetOperation::Remove(dice.below(3)),
        _ => SetOperation::Read,
    });
}

#[test]
fn random_histories_of_a_queue_are_judged_as_by_trying_everything() {
    agrees::<Queue<u64>>(|dice| match dice.below(2) {
        0 => QueueOperation::Push(dice.below(3)),
        _ => QueueOperation::Pop,
    });
}

#[test]
fn random_histories_of_a_list_are_judged_as_by_trying_everything() {
    agrees::<AppendList<u64>>(|dice| match dice.below(2) {
        0 => ListOperation::Append(dice.below(3)),
        _ => ListOperation::Read,
    });
}

#[test]
fn what_is_shown_of_a_contradiction_is_one_and_nothing_of_it_can_be_left_out() {
    let mut dice = Dice(11);
    let mut cut = 0;
    for _ in 0..1_500 {
        let history = random::<Counter>(&mut dice, counter_operation);
        let Err(error) = history.check() else {
            continue;
        };
        let contradiction = error.contradiction.expect("seven operations are few");
        let start = match &contradiction.before {
            Some((_, state)) => state.parse().expect("a counter is a number"),
            None => 0,
        };
        cut += usize::from(start != 0);
        let least = &contradiction.least;
        let last = least.iter().filter_map(|one| one.returned).max();
        let last = last.expect("without an answer there is nothing to explain");
        let records = history.records.borrow();
        let part = |until: u64, without: Option<u64>| {
            let mut known = known(&records.operations, until);
            known.retain(|one| least.iter().any(|shown| shown.called == one.called));
            known.retain(|one| without != Some(one.called));
            exhaustive::<Counter>(&start, &known, 0)
        };
        let text = least.iter().map(ToString::to_string);
        let text: Vec<String> = text.collect();
        assert!(!part(last, None), "explained after all: {text:#?}");
        // Its end, in time or by version, is what makes it one.
        let end = least
            .iter()
            .max_by_key(|one| (one.version, one.operation == "Read"));
        let without_end = match end.filter(|end| end.version.is_some()) {
            Some(end) => part(last, Some(end.called)),
            None => part(last - 1, None),
        };
        assert!(without_end, "its end is not needed: {text:#?}");
        for shown in least.iter().filter(|shown| shown.operation == "Read") {
            let without = part(last, Some(shown.called));
            assert!(without, "{shown} is not needed: {text:#?}");
        }
    }
    assert!(cut > 50, "{cut}");
}
