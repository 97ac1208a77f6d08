"""What the cases share: one database for the whole process, and a key space of its own for each
test."""

import contextlib
import threading
import unittest

import fdb

# Long enough that only a library that never answers reaches it.
PATIENCE_SECONDS = 30


class Case(unittest.TestCase):
    """A test with the open database `self.db` and keys under `self.prefix` that nobody else
    uses."""

    def setUp(self):
        self.db = fdb.open()
        self.prefix = self.id().encode() + b"/"
        self.kept = []

    def transaction(self):
        """A transaction that lives as long as the test: one that is dropped cancels what it was
        asked."""
        self.kept.append(self.db.create_transaction())
        return self.kept[-1]

    def key(self, name):
        return self.prefix + name

    def another_handle(self):
        """The same database, through a handle whose options are nobody else's."""
        return fdb.impl.create_database()

    def fill(self, count):
        """Commits `count` rows and returns them."""
        rows = [(self.key(b"%06d" % index), b"value %d" % index) for index in range(count)]
        transaction = self.db.create_transaction()
        for key, value in rows:
            transaction[key] = value
        transaction.commit().wait()
        return rows

    def everything(self):
        """The range of this test's keys, as arguments for `get_range`."""
        return self.prefix, self.prefix + b"\xff"

    @contextlib.contextmanager
    def fails_with(self, code):
        with self.assertRaises(fdb.FDBError) as caught:
            yield
        self.assertEqual(caught.exception.code, code, caught.exception)

    def wait(self, future):
        """Waits for a future that should become ready, and fails instead of hanging if it does
        not."""
        ready = threading.Event()
        future.on_ready(lambda _: ready.set())
        self.assertTrue(ready.wait(PATIENCE_SECONDS), "the future never became ready")
        return future.wait()

    def conflict(self, first, second):
        """Commits `first`, then expects `second` to conflict with it."""
        first.commit().wait()
        with self.fails_with(1020):
            second.commit().wait()
