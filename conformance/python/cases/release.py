"""What the binding of FoundationDB 8.0 has, and what it no longer has; only for API version 800."""

import fdb

from . import Case


class Release(Case):
    def test_split_points_can_be_limited(self):
        transaction = self.db.create_transaction()
        for index in range(40):
            transaction[self.key(b"%06d" % index)] = b"v" * 50_000
        transaction.commit().wait()
        begin, end = self.everything()
        points = self.transaction().get_range_split_points(begin, end, 100_000).wait()
        few = self.transaction().get_range_split_points(begin, end, 100_000, limit=2).wait()
        self.assertGreater(len(points), 4)
        self.assertEqual(few, [*points[:3], end])

    def test_the_wait_for_a_read_version_can_be_limited(self):
        transaction = self.db.create_transaction()
        transaction.options.set_max_grv_queue_delay(1000)
        transaction[self.key(b"k")] = b"v"
        transaction.commit().wait()
        transaction = self.db.create_transaction()
        transaction.options.set_max_grv_queue_delay(-1)
        with self.fails_with(2006):
            transaction[self.key(b"k")].wait()

    def test_tenants_are_gone(self):
        self.assertFalse(hasattr(fdb, "Tenant") or hasattr(fdb, "tenant_management"))
        with self.fails_with(2108):
            self.db.open_tenant(b"tenant")
        self.assertEqual(fdb.FDBError(2131).description, b"UNKNOWN_ERROR")

    def test_a_read_version_that_would_wait_too_long_has_an_error_of_its_own(self):
        self.assertIn(b"GRV request rejected", fdb.FDBError(1251).description)
