"""Time-outs, retry limits and the other options: what they bound, and what outlives what."""

import fdb

from . import Case


class Timeouts(Case):
    def expired(self, transaction):
        """Lets a time-out of one millisecond expire, on the stamp of a commit that never comes."""
        transaction.options.set_timeout(1)
        with self.fails_with(1031):
            self.wait(transaction.get_versionstamp())

    def test_a_transaction_that_timed_out_answers_nothing(self):
        transaction = self.db.create_transaction()
        self.expired(transaction)
        with self.fails_with(1031):
            transaction[self.key(b"k")].wait()
        with self.fails_with(1031):
            transaction.commit().wait()

    def test_on_error_does_not_help_it(self):
        transaction = self.db.create_transaction()
        self.expired(transaction)
        with self.fails_with(1031):
            transaction.on_error(fdb.FDBError(1020)).wait()

    def test_a_reset_does(self):
        transaction = self.db.create_transaction()
        self.expired(transaction)
        transaction.reset()
        self.assertFalse(transaction[self.key(b"k")].present())

    def test_no_timeout_is_a_timeout_of_zero(self):
        transaction = self.db.create_transaction()
        transaction.options.set_timeout(0)
        self.assertFalse(transaction[self.key(b"k")].present())

    def test_a_timeout_survives_on_error(self):
        transaction = self.db.create_transaction()
        transaction.options.set_timeout(200)
        transaction.on_error(fdb.FDBError(1020)).wait()
        with self.fails_with(1031):
            self.wait(transaction.get_versionstamp())

    def test_a_database_hands_its_timeout_to_its_transactions(self):
        database = self.another_handle()
        database.options.set_transaction_timeout(100)
        transaction = database.create_transaction()
        with self.fails_with(1031):
            self.wait(transaction.get_versionstamp())

    def test_a_timeout_below_zero_is_refused(self):
        transaction = self.db.create_transaction()
        transaction.options.set_timeout(-1)
        with self.fails_with(2006):
            transaction[self.key(b"k")].wait()


class RetryLimits(Case):
    def retry(self, transaction):
        transaction.on_error(fdb.FDBError(1020)).wait()

    def test_no_more_retries_than_allowed(self):
        transaction = self.db.create_transaction()
        transaction.options.set_retry_limit(2)
        self.retry(transaction)
        self.retry(transaction)
        with self.fails_with(1020):
            self.retry(transaction)
        with self.fails_with(1025):
            transaction[self.key(b"k")].wait()

    def test_a_reset_counts_anew_without_the_limit(self):
        transaction = self.db.create_transaction()
        transaction.options.set_retry_limit(0)
        with self.fails_with(1020):
            self.retry(transaction)
        transaction.reset()
        self.retry(transaction)

    def test_a_limit_of_minus_one_is_none(self):
        transaction = self.db.create_transaction()
        transaction.options.set_max_retry_delay(0)
        transaction.options.set_retry_limit(0)
        transaction.options.set_retry_limit(-1)
        for _ in range(20):
            self.retry(transaction)

    def test_retries_before_the_limit_was_set_count(self):
        transaction = self.db.create_transaction()
        self.retry(transaction)
        transaction.options.set_retry_limit(1)
        with self.fails_with(1020):
            self.retry(transaction)

    def test_the_decorator_gives_up_at_the_limit(self):
        attempts = []

        @fdb.transactional
        def conflict(tr):
            tr.options.set_retry_limit(3)
            attempts.append(tr[self.key(b"k")].present())
            self.db[self.key(b"k")] = b"%d" % len(attempts)
            tr[self.key(b"other")] = b"v"

        with self.fails_with(1020):
            conflict(self.db)
        self.assertEqual(len(attempts), 4)

    def test_a_database_hands_its_limit_to_its_transactions(self):
        database = self.another_handle()
        database.options.set_transaction_retry_limit(1)
        transaction = database.create_transaction()
        for _ in range(2):
            self.retry(transaction)
            with self.fails_with(1020):
                self.retry(transaction)
            transaction.reset()

    def test_a_limit_below_minus_one_is_refused(self):
        transaction = self.db.create_transaction()
        transaction.options.set_retry_limit(-2)
        with self.fails_with(2006):
            transaction[self.key(b"k")].wait()


class Options(Case):
    def test_options_that_change_nothing_here_are_accepted(self):
        transaction = self.db.create_transaction()
        transaction.options.set_causal_read_risky()
        transaction.options.set_causal_write_risky()
        transaction.options.set_priority_batch()
        transaction.options.set_priority_system_immediate()
        transaction.options.set_debug_transaction_identifier("conformance")
        transaction.options.set_transaction_logging_max_field_length(100)
        transaction.options.set_lock_aware()
        transaction.options.set_tag("conformance")
        transaction.options.set_max_retry_delay(100)
        transaction[self.key(b"k")] = b"v"
        transaction.commit().wait()
        self.assertEqual(self.db[self.key(b"k")], b"v")

    def test_an_unknown_option_is_refused_at_once(self):
        with self.fails_with(2007):
            self.transaction()._set_option(123456, None, 0)
        with self.fails_with(2007):
            self.db._set_option(123456, None, 0)

    def test_the_size_limit_has_bounds(self):
        transaction = self.db.create_transaction()
        transaction.options.set_size_limit(31)
        with self.fails_with(2006):
            transaction[self.key(b"k")].wait()

    def test_options_of_one_attempt_are_gone_in_the_next(self):
        transaction = self.db.create_transaction()
        transaction.options.set_access_system_keys()
        self.assertFalse(transaction[b"\xff/shaketable-has-no-such-key"].present())
        transaction.on_error(fdb.FDBError(1020)).wait()
        with self.fails_with(2004):
            transaction[b"\xff/shaketable-has-no-such-key"].wait()
