"""Transactions: reading, writing, conflicts, the decorator that retries, and what is refused."""

import threading

import fdb

from . import Case


class Reading(Case):
    def test_a_key_that_was_never_written_is_absent(self):
        value = self.transaction()[self.key(b"absent")]
        self.assertFalse(value.present())
        self.assertTrue(value == None)  # noqa: E711 (the value is a future that compares itself)

    def test_a_committed_value_is_read_by_the_next_transaction(self):
        self.db[self.key(b"k")] = b"v"
        self.assertEqual(self.db[self.key(b"k")], b"v")

    def test_an_empty_value_is_not_an_absent_one(self):
        self.db[self.key(b"k")] = b""
        self.assertEqual(self.db[self.key(b"k")], b"")

    def test_any_byte_may_stand_in_a_key_and_a_value(self):
        every = bytes(range(256))
        self.db[self.key(every)] = every
        self.assertEqual(self.db[self.key(every)], every)

    def test_a_cleared_key_is_absent(self):
        self.db[self.key(b"k")] = b"v"
        del self.db[self.key(b"k")]
        self.assertIsNone(self.db[self.key(b"k")])

    def test_a_transaction_reads_its_own_writes(self):
        transaction = self.db.create_transaction()
        transaction[self.key(b"k")] = b"mine"
        self.assertEqual(transaction[self.key(b"k")], b"mine")
        self.assertEqual(transaction.snapshot[self.key(b"k")], b"mine")
        del transaction[self.key(b"k")]
        self.assertFalse(transaction[self.key(b"k")].present())

    def test_with_read_your_writes_disabled_it_does_not(self):
        transaction = self.db.create_transaction()
        transaction.options.set_read_your_writes_disable()
        transaction[self.key(b"k")] = b"mine"
        self.assertFalse(transaction[self.key(b"k")].present())

    def test_snapshot_reads_ignore_own_writes_when_told_to(self):
        transaction = self.db.create_transaction()
        transaction.options.set_snapshot_ryw_disable()
        transaction[self.key(b"k")] = b"mine"
        self.assertFalse(transaction.snapshot[self.key(b"k")].present())
        self.assertEqual(transaction[self.key(b"k")], b"mine")

    def test_a_transaction_does_not_see_what_commits_after_its_read_version(self):
        transaction = self.db.create_transaction()
        transaction.get_read_version().wait()
        self.db[self.key(b"k")] = b"later"
        self.assertFalse(transaction[self.key(b"k")].present())

    def test_a_transaction_can_read_at_the_version_of_another(self):
        self.db[self.key(b"k")] = b"old"
        version = self.transaction().get_read_version().wait()
        self.db[self.key(b"k")] = b"new"
        transaction = self.db.create_transaction()
        transaction.set_read_version(version)
        self.assertEqual(transaction.get_read_version().wait(), version)
        self.assertEqual(transaction[self.key(b"k")], b"old")


class Committing(Case):
    def test_nothing_is_visible_before_the_commit(self):
        transaction = self.db.create_transaction()
        transaction[self.key(b"k")] = b"v"
        self.assertIsNone(self.db[self.key(b"k")])
        transaction.commit().wait()
        self.assertEqual(self.db[self.key(b"k")], b"v")

    def test_a_commit_has_a_version_above_the_one_it_read_at(self):
        transaction = self.db.create_transaction()
        read = transaction.get_read_version().wait()
        transaction[self.key(b"k")] = b"v"
        transaction.commit().wait()
        committed = transaction.get_committed_version()
        self.assertGreater(committed, read)
        self.assertGreaterEqual(self.transaction().get_read_version().wait(), committed)

    def test_a_commit_that_wrote_nothing_has_no_version(self):
        transaction = self.db.create_transaction()
        transaction[self.key(b"k")].wait()
        transaction.commit().wait()
        self.assertEqual(transaction.get_committed_version(), -1)

    def test_versions_only_grow(self):
        versions = []
        for _ in range(5):
            transaction = self.db.create_transaction()
            transaction[self.key(b"k")] = b"v"
            transaction.commit().wait()
            versions.append(transaction.get_committed_version())
        self.assertEqual(versions, sorted(set(versions)))

    def test_a_transaction_is_used_up_by_its_commit(self):
        transaction = self.db.create_transaction()
        transaction[self.key(b"k")] = b"v"
        transaction.commit().wait()
        with self.fails_with(2017):
            transaction[self.key(b"k")].wait()
        transaction.reset()
        self.assertEqual(transaction[self.key(b"k")], b"v")

    def test_the_approximate_size_grows_with_what_is_written(self):
        transaction = self.db.create_transaction()
        sizes = [transaction.get_approximate_size().wait()]
        for index in range(3):
            transaction[self.key(b"%d" % index)] = b"v" * 100
            sizes.append(transaction.get_approximate_size().wait())
        self.assertEqual(sizes, sorted(set(sizes)))
        self.assertGreaterEqual(sizes[-1], 300)

    def test_a_reset_forgets_what_was_written(self):
        transaction = self.db.create_transaction()
        transaction[self.key(b"k")] = b"v"
        transaction.reset()
        self.assertFalse(transaction[self.key(b"k")].present())
        self.assertEqual(transaction.get_committed_version(), -1)

    def test_a_cancelled_transaction_answers_nothing_until_it_is_reset(self):
        transaction = self.db.create_transaction()
        transaction.cancel()
        with self.fails_with(1025):
            transaction[self.key(b"k")].wait()
        with self.fails_with(1025):
            transaction.commit().wait()
        transaction.reset()
        self.assertFalse(transaction[self.key(b"k")].present())


class Conflicts(Case):
    def two(self):
        """Two transactions that have the same read version."""
        first, second = self.db.create_transaction(), self.db.create_transaction()
        second.set_read_version(first.get_read_version().wait())
        return first, second

    def test_reading_what_another_has_overwritten_conflicts(self):
        first, second = self.two()
        second[self.key(b"k")].wait()
        second[self.key(b"other")] = b"v"
        first[self.key(b"k")] = b"v"
        self.conflict(first, second)

    def test_a_snapshot_read_does_not_conflict(self):
        first, second = self.two()
        second.snapshot[self.key(b"k")].wait()
        second[self.key(b"other")] = b"v"
        first[self.key(b"k")] = b"v"
        first.commit().wait()
        second.commit().wait()

    def test_two_blind_writes_do_not_conflict(self):
        first, second = self.two()
        first[self.key(b"k")] = b"1"
        second[self.key(b"k")] = b"2"
        first.commit().wait()
        second.commit().wait()
        self.assertEqual(self.db[self.key(b"k")], b"2")

    def test_a_range_read_conflicts_with_a_row_that_appears_in_it(self):
        first, second = self.two()
        list(second[self.key(b"a") : self.key(b"z")])
        second[self.key(b"zz")] = b"v"
        first[self.key(b"m")] = b"v"
        self.conflict(first, second)

    def test_a_range_read_that_stopped_early_does_not_conflict_behind_its_last_row(self):
        rows = self.fill(5)
        first, second = self.two()
        list(second.get_range(*self.everything(), limit=2))
        second[self.key(b"x")] = b"v"
        first[rows[4][0]] = b"changed"
        first.commit().wait()
        second.commit().wait()

    def test_an_added_read_conflict_key_conflicts(self):
        first, second = self.two()
        second.add_read_conflict_key(self.key(b"k"))
        second[self.key(b"other")] = b"v"
        first[self.key(b"k")] = b"v"
        self.conflict(first, second)

    def test_an_added_read_conflict_range_ends_before_its_end(self):
        first, second = self.two()
        second.add_read_conflict_range(self.key(b"a"), self.key(b"b"))
        second[self.key(b"other")] = b"v"
        first[self.key(b"b")] = b"v"
        first.commit().wait()
        second.commit().wait()

    def test_an_added_write_conflict_key_conflicts_without_a_write(self):
        first, second = self.two()
        second[self.key(b"k")].wait()
        second[self.key(b"other")] = b"v"
        first.add_write_conflict_key(self.key(b"k"))
        self.conflict(first, second)
        self.assertIsNone(self.db[self.key(b"k")])

    def test_an_added_write_conflict_range_conflicts_without_a_write(self):
        first, second = self.two()
        second[self.key(b"b")].wait()
        second[self.key(b"other")] = b"v"
        first.add_write_conflict_range(self.key(b"a"), self.key(b"c"))
        self.conflict(first, second)

    def test_a_write_without_conflict_range_conflicts_with_nobody(self):
        first, second = self.two()
        second[self.key(b"k")].wait()
        second[self.key(b"other")] = b"v"
        first.options.set_next_write_no_write_conflict_range()
        first[self.key(b"k")] = b"v"
        first.commit().wait()
        second.commit().wait()

    def test_the_conflicting_keys_are_reported_when_asked_for(self):
        first, second = self.two()
        second.options.set_report_conflicting_keys()
        second[self.key(b"k")].wait()
        second[self.key(b"other")] = b"v"
        first[self.key(b"k")] = b"v"
        self.conflict(first, second)
        space = b"\xff\xff/transaction/conflicting_keys/"
        rows = [(kv.key, kv.value) for kv in second[space : space + b"\xff\xff"]]
        self.assertEqual(
            rows, [(space + self.key(b"k"), b"1"), (space + self.key(b"k") + b"\0", b"0")]
        )


class Retrying(Case):
    def test_the_decorator_commits(self):
        @fdb.transactional
        def write(tr):
            tr[self.key(b"k")] = b"v"
            return "answer"

        self.assertEqual(write(self.db), "answer")
        self.assertEqual(self.db[self.key(b"k")], b"v")

    def test_inside_a_transaction_the_decorator_neither_commits_nor_retries(self):
        @fdb.transactional
        def write(tr):
            tr[self.key(b"k")] = b"v"

        transaction = self.db.create_transaction()
        write(transaction)
        self.assertIsNone(self.db[self.key(b"k")])
        transaction.commit().wait()
        self.assertEqual(self.db[self.key(b"k")], b"v")

    def test_the_decorator_runs_again_after_a_conflict(self):
        attempts = []

        @fdb.transactional
        def write(tr):
            seen = tr[self.key(b"k")].present()
            if not attempts:
                self.db[self.key(b"k")] = b"somebody else"
            attempts.append(seen)
            tr[self.key(b"k")] = b"mine"

        write(self.db)
        self.assertEqual(attempts, [False, True])
        self.assertEqual(self.db[self.key(b"k")], b"mine")

    def test_the_decorator_lets_other_exceptions_through_and_commits_nothing(self):
        @fdb.transactional
        def write(tr):
            tr[self.key(b"k")] = b"v"
            raise ValueError("mine")

        with self.assertRaises(ValueError):
            write(self.db)
        self.assertIsNone(self.db[self.key(b"k")])

    def test_on_error_readies_the_transaction_after_a_retryable_error(self):
        transaction = self.db.create_transaction()
        transaction[self.key(b"k")] = b"v"
        transaction.on_error(fdb.FDBError(1020)).wait()
        self.assertFalse(transaction[self.key(b"k")].present())

    def test_on_error_gives_back_an_error_that_cannot_be_retried(self):
        transaction = self.db.create_transaction()
        with self.fails_with(2000):
            transaction.on_error(fdb.FDBError(2000)).wait()
        with self.fails_with(1025):
            transaction[self.key(b"k")].wait()

    def test_increments_of_many_threads_all_count(self):
        @fdb.transactional
        def increment(tr):
            value = tr[self.key(b"counter")]
            tr[self.key(b"counter")] = b"%d" % (int(bytes(value)) + 1 if value.present() else 1)

        def work():
            for _ in range(20):
                increment(self.db)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.db[self.key(b"counter")], b"80")


class Refusals(Case):
    def refused(self, code, act):
        transaction = self.db.create_transaction()
        act(transaction)
        with self.fails_with(code):
            transaction.commit().wait()

    def test_a_key_of_more_than_ten_thousand_bytes_is_too_large(self):
        self.refused(2102, lambda tr: tr.set(b"k" * 10001, b""))

    def test_a_value_of_more_than_a_hundred_thousand_bytes_is_too_large(self):
        self.refused(2103, lambda tr: tr.set(self.key(b"k"), b"v" * 100001))

    def test_the_largest_key_and_value_are_accepted(self):
        key = self.key(b"").ljust(10000, b"k")
        self.db[key] = b"v" * 100000
        self.assertEqual(len(bytes(self.db[key])), 100000)

    def test_a_transaction_of_more_than_ten_million_bytes_is_too_large(self):
        def write(tr):
            for index in range(101):
                tr[self.key(b"%d" % index)] = b"v" * 100000

        self.refused(2101, write)

    def test_a_size_limit_is_kept(self):
        def write(tr):
            tr.options.set_size_limit(1000)
            tr[self.key(b"k")] = b"v" * 1000

        self.refused(2101, write)

    def test_a_range_that_ends_before_it_begins_is_refused(self):
        self.refused(2005, lambda tr: tr.clear_range(self.key(b"b"), self.key(b"a")))

    def test_system_keys_are_out_of_range_without_permission(self):
        transaction = self.db.create_transaction()
        with self.fails_with(2004):
            transaction[b"\xff/conf/x"].wait()
        self.refused(2004, lambda tr: tr.set(b"\xff/shaketable", b""))

    def test_system_keys_can_be_read_with_permission(self):
        transaction = self.db.create_transaction()
        transaction.options.set_read_system_keys()
        self.assertFalse(transaction[b"\xff/shaketable-has-no-such-key"].present())

    def test_a_version_that_is_not_one_is_refused(self):
        transaction = self.db.create_transaction()
        transaction.set_read_version(0)
        with self.fails_with(2011):
            transaction[self.key(b"k")].wait()

    def test_a_version_cannot_be_set_twice(self):
        transaction = self.db.create_transaction()
        transaction.get_read_version().wait()
        transaction.set_read_version(1)
        with self.fails_with(2010):
            transaction[self.key(b"k")].wait()

    def test_a_version_of_long_ago_is_too_old(self):
        self.transaction().get_read_version().wait()
        transaction = self.db.create_transaction()
        transaction.set_read_version(1)
        with self.fails_with(1007):
            transaction[self.key(b"k")].wait()

    def test_a_version_of_the_far_future_is_not_there_yet(self):
        self.transaction().get_read_version().wait()
        transaction = self.db.create_transaction()
        transaction.set_read_version(1 << 62)
        with self.fails_with(1009):
            transaction[self.key(b"k")].wait()


class Errors(Case):
    def test_an_error_has_the_text_of_its_code(self):
        self.assertEqual(
            fdb.FDBError(1020).description,
            b"Transaction not committed due to conflict with another transaction",
        )
        self.assertEqual(
            fdb.FDBError(1031).description, b"Operation aborted because the transaction timed out"
        )

    def test_predicates_tell_which_errors_can_be_retried(self):
        answers = {
            code: (
                fdb.predicates.is_retryable(fdb.FDBError(code)),
                fdb.predicates.is_maybe_committed(fdb.FDBError(code)),
                fdb.predicates.is_retryable_not_committed(fdb.FDBError(code)),
            )
            for code in (1007, 1020, 1021, 1025, 1031, 2000)
        }
        yes, no = True, False
        self.assertEqual(
            {code: tuple(map(bool, answer)) for code, answer in answers.items()},
            {
                1007: (yes, no, yes),
                1020: (yes, no, yes),
                1021: (yes, yes, no),
                1025: (no, no, no),
                1031: (no, no, no),
                2000: (no, no, no),
            },
        )
