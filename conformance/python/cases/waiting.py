"""Futures and watches."""

import threading

import fdb

from . import PATIENCE_SECONDS, Case


class Futures(Case):
    def test_a_future_calls_back_when_it_is_ready(self):
        ready = threading.Event()
        future = self.transaction().get_read_version()
        future.on_ready(lambda it: ready.set())
        self.assertTrue(ready.wait(PATIENCE_SECONDS))
        self.assertTrue(future.is_ready())

    def test_a_ready_future_calls_back_at_once(self):
        future = self.transaction().get_read_version()
        future.wait()
        called = []
        future.on_ready(called.append)
        self.assertEqual(called, [future])

    def test_a_future_can_be_blocked_on_and_read_twice(self):
        transaction = self.db.create_transaction()
        future = transaction.get_read_version()
        future.block_until_ready()
        self.assertEqual(future.wait(), future.wait())

    def test_many_futures_of_one_transaction_are_all_answered(self):
        rows = self.fill(500)
        transaction = self.db.create_transaction()
        futures = [transaction[key] for key, _ in rows]
        self.assertEqual([bytes(future) for future in futures], [value for _, value in rows])

    def test_a_value_can_be_read_by_many_threads_at_once(self):
        self.db[self.key(b"k")] = b"v"
        value = self.transaction()[self.key(b"k")]
        found = []
        threads = [threading.Thread(target=lambda: found.append(bytes(value))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
        self.assertEqual(found, [b"v"] * 8)

    def test_a_cancelled_future_says_so(self):
        transaction = self.db.create_transaction()
        watch = transaction.watch(self.key(b"k"))
        transaction.commit().wait()
        watch.cancel()
        with self.fails_with(1101):
            self.wait(watch)

    def test_the_first_of_several_futures_can_be_waited_for(self):
        transaction = self.db.create_transaction()
        pending = transaction.watch(self.key(b"k"))
        transaction.commit().wait()
        ready = self.transaction().get_read_version()
        self.assertEqual(fdb.Future.wait_for_any(pending, ready), 1)

    def test_futures_that_nobody_waits_for_do_no_harm(self):
        transaction = self.db.create_transaction()
        for index in range(200):
            transaction[self.key(b"%d" % index)]
        transaction[self.key(b"k")] = b"v"
        transaction.commit().wait()
        self.assertEqual(self.db[self.key(b"k")], b"v")


class Watches(Case):
    def test_a_watch_fires_when_the_value_changes(self):
        self.db[self.key(b"k")] = b"1"
        transaction = self.db.create_transaction()
        watch = transaction.watch(self.key(b"k"))
        transaction.commit().wait()
        self.assertFalse(watch.is_ready())
        self.db[self.key(b"k")] = b"2"
        self.wait(watch)

    def test_a_watch_fires_when_the_key_is_cleared(self):
        self.db[self.key(b"k")] = b"1"
        transaction = self.db.create_transaction()
        watch = transaction.watch(self.key(b"k"))
        transaction.commit().wait()
        del self.db[self.key(b"k")]
        self.wait(watch)

    def test_a_watch_does_not_fire_when_the_same_value_is_written_again(self):
        self.db[self.key(b"k")] = b"1"
        transaction = self.db.create_transaction()
        watch = transaction.watch(self.key(b"k"))
        transaction.commit().wait()
        self.db[self.key(b"k")] = b"1"
        # A second watch, on a key that does change, is behind the first: once it has fired, the
        # first would have.
        transaction = self.db.create_transaction()
        other = transaction.watch(self.key(b"other"))
        transaction.commit().wait()
        self.db[self.key(b"other")] = b"1"
        self.wait(other)
        self.assertFalse(watch.is_ready())

    def test_a_watch_on_what_the_transaction_wrote_waits_for_the_next_change(self):
        transaction = self.db.create_transaction()
        transaction[self.key(b"k")] = b"1"
        watch = transaction.watch(self.key(b"k"))
        transaction.commit().wait()
        self.assertFalse(watch.is_ready())
        self.db[self.key(b"k")] = b"2"
        self.wait(watch)

    def test_a_watch_of_a_transaction_that_is_reset_is_cancelled(self):
        transaction = self.db.create_transaction()
        watch = transaction.watch(self.key(b"k"))
        transaction.reset()
        with self.fails_with(1025):
            self.wait(watch)

    def test_a_watch_outlives_its_transaction(self):
        transaction = self.db.create_transaction()
        watch = transaction.watch(self.key(b"k"))
        transaction.commit().wait()
        del transaction
        self.db[self.key(b"k")] = b"1"
        self.wait(watch)

    def test_a_watch_needs_to_read_its_own_writes(self):
        transaction = self.db.create_transaction()
        transaction.options.set_read_your_writes_disable()
        with self.fails_with(1034):
            self.wait(transaction.watch(self.key(b"k")))

    def test_the_database_reads_writes_and_clears_with_a_watch(self):
        value, watch = self.db.get_and_watch(self.key(b"k"))
        self.assertFalse(value.present())
        watch_of_write = self.db.set_and_watch(self.key(b"k"), b"1")
        self.wait(watch)
        watch_of_clear = self.db.clear_and_watch(self.key(b"k"))
        self.wait(watch_of_write)
        self.db[self.key(b"k")] = b"2"
        self.wait(watch_of_clear)

    def test_more_watches_than_allowed_are_refused(self):
        database = self.another_handle()
        database.options.set_max_watches(1)
        kept, refused = database.create_transaction(), database.create_transaction()
        watch = kept.watch(self.key(b"k"))
        kept.commit().wait()
        with self.fails_with(1032):
            self.wait(refused.watch(self.key(b"l")))
        self.assertFalse(watch.is_ready())
