//! The client alone, on a stage that answers its messages and misbehaves on demand.

mod stage;

use bytes::Bytes;
use shaketable_cluster::client::{ConflictRangeKind, RangeLimits, Transaction};
use shaketable_cluster::error::Error;
use shaketable_cluster::proto::{Key, KeyRange, KeySelector};
use stage::{Stage, Trouble};
use std::cell::RefCell;
use std::rc::Rc;

fn key(text: &str) -> Key {
    Bytes::copy_from_slice(text.as_bytes())
}

fn at(text: &str) -> KeySelector {
    KeySelector::first_greater_or_equal(key(text))
}

fn range(begin: &str, end: &str) -> KeyRange {
    KeyRange {
        begin: key(begin),
        end: key(end),
    }
}

fn stage() -> Stage {
    Stage::new(740)
}

#[test]
fn what_is_committed_is_read_by_the_next_transaction() {
    let stage = stage();
    stage.put(&[("a", "1"), ("b", "2")]);
    let transaction = stage.transaction();
    assert_eq!(stage.get(&transaction, "a"), Ok(Some(key("1"))));
    assert_eq!(stage.get(&transaction, "c"), Ok(None));
}

#[test]
fn a_second_read_of_a_key_asks_nobody() {
    let stage = stage();
    stage.put(&[("a", "1")]);
    let transaction = stage.transaction();
    stage.get(&transaction, "a").unwrap();
    let reads = stage.server.reads.get();
    assert_eq!(stage.get(&transaction, "a"), Ok(Some(key("1"))));
    assert_eq!(stage.server.reads.get(), reads);
}

#[test]
fn a_lost_reply_is_an_unknown_result_whose_fate_is_settled() {
    for (trouble, committed) in [(Trouble::LoseReply, true), (Trouble::LoseRequest, false)] {
        let stage = stage();
        let transaction = stage.transaction();
        transaction.set(key("a"), key("1"));
        stage.server.troubles.borrow_mut().push_back(trouble);
        assert_eq!(
            stage.run(transaction.commit()),
            Err(Error::COMMIT_UNKNOWN_RESULT)
        );
        // The last transaction committed before the answer is one that conflicts with the lost one.
        let dummy = stage.server.commits.borrow().last().cloned().unwrap();
        assert!(dummy.mutations.is_empty());
        assert_eq!(dummy.read_conflict_ranges, dummy.write_conflict_ranges);
        assert!(dummy.read_conflict_ranges[0].begin.starts_with(b"\xff/SC/"));
        assert_eq!(
            stage.get(&stage.transaction(), "a").unwrap().is_some(),
            committed
        );
    }
}

#[test]
fn an_idempotency_id_tells_what_became_of_a_lost_commit() {
    let expected = [
        (Trouble::LoseReply, Ok(())),
        (Trouble::LoseRequest, Err(Error::TRANSACTION_TOO_OLD)),
    ];
    for (trouble, result) in expected {
        let stage = stage();
        let transaction = stage.transaction();
        transaction.set_option(505, None);
        transaction.set(key("a"), key("1"));
        stage.server.troubles.borrow_mut().push_back(trouble);
        assert_eq!(stage.run(transaction.commit()), result);
        assert_eq!(transaction.get_committed_version() > 0, result.is_ok());
    }
}

#[test]
fn a_risky_commit_does_not_wait_for_its_fate() {
    let stage = stage();
    let transaction = stage.transaction();
    transaction.set_option(10, None);
    transaction.set(key("a"), key("1"));
    stage
        .server
        .troubles
        .borrow_mut()
        .push_back(Trouble::LoseRequest);
    assert_eq!(
        stage.run(transaction.commit()),
        Err(Error::COMMIT_UNKNOWN_RESULT)
    );
    assert!(stage.server.commits.borrow().is_empty());
}

#[test]
fn shards_and_their_moves_are_not_seen() {
    let stage = stage();
    *stage.server.cuts.borrow_mut() = vec![key("c"), key("f"), key("k")];
    let letters = ["a", "b", "c", "d", "e", "f", "g", "h"];
    stage.put(&letters.map(|letter| (letter, "1")));
    let rows = |reverse, begin: KeySelector, end: KeySelector| {
        let transaction = stage.transaction();
        stage.server.moved.set(2);
        let limits = RangeLimits::rows(100);
        let result = stage
            .run(transaction.get_range(begin, end, limits, false, reverse))
            .unwrap();
        assert!(!result.more);
        let keys = result
            .rows
            .iter()
            .map(|row| String::from_utf8_lossy(&row.key).into_owned());
        keys.collect::<String>()
    };
    assert_eq!(rows(false, at(""), at("z")), "abcdefgh");
    assert_eq!(rows(true, at(""), at("z")), "hgfedcba");
    let walk = |text: &str, offset| KeySelector {
        key: key(text),
        or_equal: false,
        offset,
    };
    assert_eq!(rows(false, walk("e", -2), walk("d", 5)), "bcdefg");
    assert_eq!(rows(true, walk("g", -3), walk("b", 5)), "edc");
    let transaction = stage.transaction();
    assert_eq!(
        stage.run(transaction.get_key(walk("h", -4), false)),
        Ok(key("c"))
    );
    assert_eq!(
        stage.run(transaction.get_key(walk("a", 7), false)),
        Ok(key("g"))
    );
    assert_eq!(
        stage.run(transaction.get_key(walk("a", 70), false)),
        Ok(Bytes::from_static(b"\xff"))
    );
    assert_eq!(
        stage.run(transaction.get_key(walk("c", -70), false)),
        Ok(Bytes::new())
    );
}

#[test]
fn read_versions_are_asked_for_in_batches() {
    let stage = stage();
    stage.put(&[("a", "1")]);
    let before = stage.server.read_versions.get();
    let transactions: Vec<_> = (0..100).map(|_| stage.transaction()).collect();
    let reads: Vec<_> = transactions
        .iter()
        .map(|t| t.get(key("a"), false))
        .collect();
    for read in reads {
        assert_eq!(stage.run(read), Ok(Some(key("1"))));
    }
    assert_eq!(stage.server.read_versions.get(), before + 1);
}

#[test]
fn a_failed_read_is_the_failure_of_the_commit() {
    let stage = stage();
    stage.put(&[("a", "1")]);
    let transaction = stage.transaction();
    transaction.set_read_version(1 << 40);
    drop(transaction.get(key("a"), false));
    transaction.set(key("b"), key("1"));
    assert_eq!(stage.run(transaction.commit()), Err(Error::FUTURE_VERSION));
}

#[test]
fn a_read_that_was_dropped_still_conflicts() {
    let stage = stage();
    stage.put(&[("a", "1")]);
    let transaction = stage.transaction();
    drop(transaction.get(key("a"), false));
    transaction.set(key("b"), key("1"));
    stage.run(transaction.commit()).unwrap();
    let commit = stage.server.commits.borrow().last().cloned().unwrap();
    assert!(commit.read_conflict_ranges.contains(&range("a", "a\0")));
}

#[test]
fn conflict_ranges_leave_out_what_the_transaction_wrote_itself() {
    let stage = stage();
    stage.put(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]);
    let transaction = stage.transaction();
    transaction.set(key("b"), key("x"));
    let limits = RangeLimits::rows(100);
    stage
        .run(transaction.get_range(at("a"), at("d"), limits, false, false))
        .unwrap();
    stage
        .run(transaction.get_range(at("e"), at("f"), limits, true, false))
        .unwrap();
    transaction.add_conflict_range(range("x", "y"), ConflictRangeKind::Write);
    stage.run(transaction.commit()).unwrap();
    let commit = stage.server.commits.borrow().last().cloned().unwrap();
    let own = |range: &&KeyRange| !range.begin.starts_with(b"\xff");
    let reads: Vec<_> = commit
        .read_conflict_ranges
        .iter()
        .filter(own)
        .cloned()
        .collect();
    let writes: Vec<_> = commit
        .write_conflict_ranges
        .iter()
        .filter(own)
        .cloned()
        .collect();
    assert_eq!(reads, [range("a", "b"), range("b\0", "d")]);
    assert_eq!(writes, [range("b", "b\0"), range("x", "y")]);
}

#[test]
fn watches_are_counted_and_give_their_place_back() {
    let stage = stage();
    stage.database.set_option(20, Some(&2i64.to_le_bytes()));
    let transaction = stage.transaction();
    let watches: Vec<_> = ["a", "b"]
        .map(|k| transaction.watch(key(k)))
        .into_iter()
        .collect();
    let one_too_many = transaction.watch(key("c"));
    assert_eq!(stage.run(one_too_many), Err(Error::TOO_MANY_WATCHES));
    stage.run(transaction.commit()).unwrap();
    drop(watches);
    let transaction = stage.transaction();
    let watch = transaction.watch(key("a"));
    stage.run(transaction.commit()).unwrap();
    stage.put(&[("a", "changed")]);
    assert_eq!(stage.run(watch), Ok(()));
}

#[test]
fn a_watch_is_done_at_once_when_its_transaction_writes_another_value() {
    let stage = stage();
    stage.put(&[("a", "1")]);
    let transaction = stage.transaction();
    let same = transaction.watch(key("a"));
    stage.get(&transaction, "a").unwrap();
    transaction.set(key("a"), key("1"));
    stage.run(stage.kernel.sleep(1.0));
    assert!(!same.is_ready());
    transaction.set(key("a"), key("2"));
    assert_eq!(stage.run(same), Ok(()));
}

#[test]
fn a_locked_database_is_refused_except_by_the_lock_aware() {
    let stage = stage();
    stage.put(&[("a", "1")]);
    stage.server.locked.set(true);
    let transaction = stage.transaction();
    assert_eq!(stage.get(&transaction, "a"), Err(Error::DATABASE_LOCKED));
    let transaction = stage.transaction();
    transaction.set_option(700, None);
    assert_eq!(stage.get(&transaction, "a"), Ok(Some(key("1"))));
}

#[test]
fn backoff_grows_only_after_errors_of_its_class() {
    let stage = stage();
    let transaction = stage.transaction();
    let wait = |error| {
        let before = stage.kernel.now();
        stage.run(transaction.on_error(error)).unwrap();
        stage.kernel.now().since(before)
    };
    for _ in 0..20 {
        assert!(wait(Error::NOT_COMMITTED) <= 1.0);
        let fixed = wait(Error::TRANSACTION_TOO_OLD);
        assert!((0.0099..0.0101).contains(&fixed), "{fixed}");
    }
}

#[test]
fn an_error_that_is_not_retryable_leaves_the_transaction_cancelled() {
    let stage = stage();
    let transaction = stage.transaction();
    let error = Error::KEY_TOO_LARGE;
    assert_eq!(stage.run(transaction.on_error(error)), Err(error));
    assert_eq!(
        stage.get(&transaction, "a"),
        Err(Error::TRANSACTION_CANCELLED)
    );
    assert_eq!(
        stage.run(transaction.commit()),
        Err(Error::TRANSACTION_CANCELLED)
    );
    transaction.reset();
    assert_eq!(stage.get(&transaction, "a"), Ok(None));

    let old = Stage::new(600);
    let transaction = old.transaction();
    assert_eq!(old.run(transaction.on_error(error)), Err(error));
    assert_eq!(old.get(&transaction, "a"), Ok(None));
}

#[test]
fn a_hundred_thousand_writes_and_reads_over_them_take_no_quadratic_time() {
    let stage = stage();
    let transaction = stage.transaction();
    transaction.set_option(503, Some(&10_000_000i64.to_le_bytes()));
    for n in 0..100_000u32 {
        // Scattered, so that chunks are split in the middle.
        let n = n.wrapping_mul(2_654_435_761) >> 1;
        transaction.set(n.to_be_bytes().to_vec().into(), Bytes::from_static(b"v"));
    }
    let limits = RangeLimits::rows(i32::MAX);
    let all = stage
        .run(transaction.get_range(at(""), at("\x40"), limits, true, false))
        .unwrap();
    assert!(all.rows.len() > 45_000);
}

#[test]
fn a_versionstamp_is_there_when_its_commit_is() {
    type Prepare = fn(&Stage, &Transaction);
    let write: Prepare = |_, transaction| transaction.set(key("a"), key("1"));
    let lost: Prepare = |stage, transaction| {
        transaction.set(key("a"), key("1"));
        stage
            .server
            .troubles
            .borrow_mut()
            .push_back(Trouble::LoseReply);
    };
    let too_large: Prepare = |_, transaction| {
        transaction.set_option(503, Some(&32_i64.to_le_bytes()));
        transaction.set(key("a"), Bytes::from(vec![0; 100]));
    };
    let timed_out: Prepare = |stage, transaction| {
        // The commit takes the place that this read leaves, before the stamp's.
        stage.get(transaction, "b").unwrap();
        transaction.set_option(500, Some(&3_000_i64.to_le_bytes()));
        transaction.set(key("a"), key("1"));
        let losses = std::iter::repeat_n(Trouble::LoseRequest, 10_000);
        stage.server.troubles.borrow_mut().extend(losses);
    };
    let reading: Prepare = |_, transaction| {
        drop(transaction.get(key("b"), false));
        transaction.set(key("a"), key("1"));
    };
    // What happens before the commit, what becomes of the commit, and of the stamp.
    let cases: [(&str, Prepare, i32, i32); 6] = [
        ("a write", write, 0, 0),
        ("a write after a read that is under way", reading, 0, 0),
        ("nothing to commit", |_, _| {}, 0, 2021),
        ("a lost reply", lost, 1021, 2020),
        ("a transaction that is too large", too_large, 2101, 2020),
        ("a timeout", timed_out, 1031, 1031),
    ];
    for api_version in [740, 630] {
        for (name, prepare, commit_code, stamp_code) in cases {
            let stage = Stage::new(api_version);
            let transaction = stage.transaction();
            prepare(&stage, &transaction);
            let stamp = Rc::new(RefCell::new(None));
            let seen = stamp.clone();
            let _stamp = transaction
                .get_versionstamp()
                .then(move |result| *seen.borrow_mut() = Some(result));
            let at_commit = Rc::new(RefCell::new(None));
            let target = at_commit.clone();
            let commit = transaction.commit();
            let _commit = commit.then(move |result| {
                *target.borrow_mut() = Some((result, *stamp.borrow()));
            });
            stage.run(stage.kernel.sleep(10.0));
            let code = |result: Result<(), Error>| result.err().map_or(0, |error| error.0);
            let (commit, stamp) = at_commit.borrow().expect("the commit ends");
            let stamp = stamp.expect("a stamp is ready before its commit");
            assert_eq!(
                (code(commit), code(stamp.map(drop))),
                (commit_code, stamp_code),
                "{name} at {api_version}"
            );
        }
    }
}

#[test]
fn what_a_transaction_in_a_tenant_does_without_its_tenant() {
    let stage = stage();
    let begin = || stage.database.create_tenant_transaction();
    let code = |result: Result<(), Error>| result.err().map_or(0, |error| error.0);
    let get = |transaction: &Transaction, text: &str| code(stage.get(transaction, text).map(drop));

    let reads = begin();
    let whole = range("a", "z");
    let limits = RangeLimits::rows(10);
    assert_eq!(get(&reads, "a"), 2131);
    assert_eq!(code(stage.run(reads.get(key("a"), true)).map(drop)), 2131);
    assert_eq!(
        code(stage.run(reads.get_key(at("a"), false)).map(drop)),
        2131
    );
    let rows = reads.get_range(at("a"), at("z"), limits, false, false);
    assert_eq!(code(stage.run(rows).map(drop)), 2131);
    assert_eq!(code(stage.run(reads.watch(key("a")))), 2131);
    let size = reads.get_estimated_range_size_bytes(whole.clone());
    assert_eq!(code(stage.run(size).map(drop)), 2131);
    let points = reads.get_range_split_points(whole, 1000);
    assert_eq!(code(stage.run(points).map(drop)), 2131);
    assert_eq!(
        code(stage.run(reads.get_addresses_for_key(key("a"))).map(drop)),
        2131
    );
    assert_eq!(code(stage.run(reads.get_read_version()).map(drop)), 0);
    assert_eq!(code(stage.run(reads.commit())), 2131, "after a failed read");

    let writes = begin();
    writes.set(key("a"), key("1"));
    assert_eq!(stage.get(&writes, "a"), Ok(Some(key("1"))));
    assert_eq!(stage.run(writes.get_approximate_size()), Ok(73));
    assert_eq!(code(stage.run(writes.commit())), 2131);
    assert_eq!(writes.get_committed_version(), -1);
    assert_eq!(code(stage.run(writes.on_error(Error(2131)))), 2131);

    assert_eq!(code(stage.run(begin().commit())), 0);
    let depends = begin();
    depends.add_conflict_range(range("a", "b"), ConflictRangeKind::Read);
    assert_eq!(code(stage.run(depends.commit())), 0);

    let system = begin();
    assert_eq!(
        code(
            stage
                .run(system.get(Bytes::from_static(b"\xff/x"), false))
                .map(drop)
        ),
        2004
    );
    for option in [301, 302, 303] {
        let raw = begin();
        raw.set_option(option, None);
        assert_eq!(get(&raw, "a"), 2007, "option {option}");
    }
    let cancelled = begin();
    cancelled.cancel();
    assert_eq!(get(&cancelled, "a"), 1025);
}

#[test]
fn what_api_versions_before_510_did_otherwise() {
    let outside = || KeyRange {
        begin: Bytes::from_static(b"\xff/a"),
        end: Bytes::from_static(b"\xff/b"),
    };
    for api_version in [13, 100, 299, 300, 409, 410, 509] {
        let stage = Stage::new(api_version);
        let transaction = stage.transaction();
        transaction.set(key("a"), key("1"));
        assert_eq!(stage.run(transaction.commit()), Ok(()), "{api_version}");
        assert!(transaction.get_committed_version() > 0);
        let again = stage.get(&transaction, "a");
        if api_version < 410 {
            assert_eq!(again, Ok(Some(key("1"))), "{api_version}: as good as new");
        } else {
            assert_eq!(again, Err(Error::USED_DURING_COMMIT), "{api_version}");
        }

        let transaction = stage.transaction();
        transaction.add_conflict_range(outside(), ConflictRangeKind::Read);
        let read = stage.get(&transaction, "a");
        assert_eq!(read.is_ok(), api_version < 300, "{api_version}");

        // A limit that mutations alone keep and conflict ranges do not.
        let transaction = stage.transaction();
        transaction.set_option(503, Some(&60_i64.to_le_bytes()));
        transaction.set(key("a"), key("1"));
        let committed = stage.run(transaction.commit());
        assert_eq!(committed.is_ok(), api_version < 300, "{api_version}");

        let transaction = stage.transaction();
        transaction.cancel();
        let version = stage.run(transaction.get_read_version());
        assert_eq!(version.is_ok(), api_version < 101, "{api_version}");
    }
}

#[test]
fn since_8_0_a_watch_gets_the_error_that_ends_its_commit() {
    for api_version in [740, 800] {
        let stage = Stage::new(api_version);
        let transaction = stage.transaction();
        transaction.set_option(500, Some(&1_000_i64.to_le_bytes()));
        transaction.set(key("a"), key("1"));
        let watch = transaction.watch(key("b"));
        stage.server.troubles.borrow_mut().push_back(Trouble::Hold);
        let error = Err(Error::TRANSACTION_TIMED_OUT);
        assert_eq!(stage.run(transaction.commit()), error);
        assert_eq!(watch.is_ready(), api_version == 800, "{api_version}");
        if api_version == 800 {
            assert_eq!(stage.run(watch), error);
        }
    }
}

#[test]
fn a_watch_outlives_a_transaction_that_has_committed() {
    for api_version in [740, 800] {
        let stage = Stage::new(api_version);
        let transaction = stage.transaction();
        transaction.set(key("a"), key("1"));
        let watch = transaction.watch(key("b"));
        stage.run(transaction.commit()).unwrap();
        transaction.cancel();
        drop(transaction);
        stage.run(stage.kernel.sleep(1.0));
        assert!(!watch.is_ready(), "{api_version}");
        stage.put(&[("b", "changed")]);
        assert_eq!(stage.run(watch), Ok(()), "{api_version}");
    }
}

#[test]
fn after_1031_or_1039_a_commit_may_still_be_in_flight_and_land() {
    for error in [Error::TRANSACTION_TIMED_OUT, Error::CLUSTER_VERSION_CHANGED] {
        let stage = stage();
        let transaction = stage.transaction();
        let trouble = if error == Error::TRANSACTION_TIMED_OUT {
            transaction.set_option(500, Some(&1_000_i64.to_le_bytes()));
            Trouble::Hold
        } else {
            // What a client of several versions is told when the cluster changes its protocol.
            Trouble::HoldAndTell(error)
        };
        transaction.set(key("a"), key("1"));
        stage.server.troubles.borrow_mut().push_back(trouble);
        assert_eq!(stage.run(transaction.commit()), Err(error));
        assert_eq!(transaction.get_committed_version(), -1);
        assert_eq!(stage.get(&stage.transaction(), "a"), Ok(None), "{error:?}");
        // Nothing that the program does with its transaction calls it back.
        transaction.reset();
        drop(transaction);
        stage.server.let_go();
        assert_eq!(
            stage.get(&stage.transaction(), "a"),
            Ok(Some(key("1"))),
            "{error:?}"
        );
    }
}

#[test]
fn the_first_status_of_a_new_handle_describes_the_cluster() {
    let stage = stage();
    let database = stage.open(740);
    let status = Bytes::from_static(b"\xff\xff/status/json");
    let status = stage.run(database.create_transaction().get(status, false));
    let status: serde_json::Value = serde_json::from_slice(&status.unwrap().unwrap()).unwrap();
    assert_eq!(status["client"]["database_status"]["available"], true);
    assert_eq!(status["cluster"]["generation"], 1);
}
