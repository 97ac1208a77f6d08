"""Ranges and key selectors."""

import fdb
from fdb import KeySelector, StreamingMode

from . import Case


def pairs(rows):
    return [(row.key, row.value) for row in rows]


class Ranges(Case):
    def test_rows_come_in_the_order_of_their_keys(self):
        rows = self.fill(10)
        transaction = self.db.create_transaction()
        self.assertEqual(pairs(transaction.get_range(*self.everything())), rows)

    def test_and_backwards_when_asked(self):
        rows = self.fill(10)
        transaction = self.db.create_transaction()
        self.assertEqual(pairs(transaction.get_range(*self.everything(), reverse=True)), rows[::-1])

    def test_a_limit_counts_from_the_end_that_is_read_first(self):
        rows = self.fill(10)
        transaction = self.db.create_transaction()
        self.assertEqual(pairs(transaction.get_range(*self.everything(), limit=3)), rows[:3])
        self.assertEqual(
            pairs(transaction.get_range(*self.everything(), limit=3, reverse=True)), rows[:-4:-1]
        )

    def test_the_end_is_not_part_of_a_range(self):
        rows = self.fill(5)
        transaction = self.db.create_transaction()
        self.assertEqual(pairs(transaction[rows[1][0] : rows[3][0]]), rows[1:3])

    def test_a_range_between_equal_keys_is_empty(self):
        rows = self.fill(2)
        transaction = self.db.create_transaction()
        self.assertEqual(pairs(transaction[rows[0][0] : rows[0][0]]), [])

    def test_every_streaming_mode_gives_the_same_rows(self):
        rows = self.fill(1000)
        for mode in ("iterator", "want_all", "small", "medium", "large", "serial"):
            for reverse in (False, True):
                with self.subTest(mode=mode, reverse=reverse):
                    transaction = self.db.create_transaction()
                    found = transaction.get_range(
                        *self.everything(),
                        reverse=reverse,
                        streaming_mode=getattr(StreamingMode, mode),
                    )
                    self.assertEqual(pairs(found), rows[::-1] if reverse else rows)

    def test_the_exact_mode_gives_exactly_as_many_rows_as_it_is_asked_for(self):
        rows = self.fill(100)
        transaction = self.db.create_transaction()
        found = transaction.get_range(
            *self.everything(), limit=70, streaming_mode=StreamingMode.exact
        )
        self.assertEqual(pairs(found), rows[:70])

    def test_the_exact_mode_needs_a_limit(self):
        transaction = self.db.create_transaction()
        with self.fails_with(2210):
            list(transaction.get_range(*self.everything(), streaming_mode=StreamingMode.exact))

    def test_a_long_range_can_be_read_while_it_is_left_early(self):
        rows = self.fill(1000)
        transaction = self.db.create_transaction()
        found = []
        for row in transaction.get_range(*self.everything()):
            found.append((row.key, row.value))
            if len(found) == 500:
                break
        self.assertEqual(found, rows[:500])

    def test_own_writes_and_clears_are_merged_in(self):
        rows = self.fill(6)
        transaction = self.db.create_transaction()
        transaction[rows[1][0]] = b"changed"
        transaction[rows[1][0] + b"+"] = b"new"
        del transaction[rows[3][0] : rows[5][0]]
        expected = [
            rows[0],
            (rows[1][0], b"changed"),
            (rows[1][0] + b"+", b"new"),
            rows[2],
            rows[5],
        ]
        self.assertEqual(pairs(transaction.get_range(*self.everything())), expected)
        self.assertEqual(
            pairs(transaction.get_range(*self.everything(), reverse=True)), expected[::-1]
        )
        transaction.commit().wait()
        self.assertEqual(pairs(self.db.get_range(*self.everything())), expected)

    def test_ranges_by_prefix_read_and_clear_what_starts_with_it(self):
        for name in (b"a", b"ab", b"abc", b"b"):
            self.db[self.key(name)] = name
        self.assertEqual(
            [row.value for row in self.db.get_range_startswith(self.key(b"ab"))], [b"ab", b"abc"]
        )
        self.db.clear_range_startswith(self.key(b"ab"))
        self.assertEqual([row.value for row in self.db.get_range(*self.everything())], [b"a", b"b"])

    def test_a_cleared_range_keeps_its_end(self):
        rows = self.fill(5)
        del self.db[rows[1][0] : rows[3][0]]
        self.assertEqual(pairs(self.db.get_range(*self.everything())), [rows[0], rows[3], rows[4]])

    def test_the_estimated_size_of_much_data_is_above_nothing(self):
        transaction = self.db.create_transaction()
        for index in range(1000):
            transaction[self.key(b"%06d" % index)] = b"v" * 1000
        transaction.commit().wait()
        size = self.transaction().get_estimated_range_size_bytes(*self.everything()).wait()
        self.assertGreater(size, 0)

    def test_split_points_begin_and_end_with_the_range(self):
        self.fill(100)
        begin, end = self.everything()
        points = self.transaction().get_range_split_points(begin, end, 10_000_000).wait()
        self.assertEqual((points[0], points[-1]), (begin, end))
        self.assertEqual(points, sorted(points))


class Selectors(Case):
    def setUp(self):
        super().setUp()
        self.rows = self.fill(5)
        self.keys = [key for key, _ in self.rows]

    def resolve(self, selector):
        return bytes(self.transaction().get_key(selector))

    def test_the_four_selectors_find_their_neighbours(self):
        self.assertEqual(self.resolve(KeySelector.last_less_than(self.keys[2])), self.keys[1])
        self.assertEqual(self.resolve(KeySelector.last_less_or_equal(self.keys[2])), self.keys[2])
        self.assertEqual(self.resolve(KeySelector.first_greater_than(self.keys[2])), self.keys[3])
        self.assertEqual(
            self.resolve(KeySelector.first_greater_or_equal(self.keys[2])), self.keys[2]
        )

    def test_and_so_they_do_around_a_key_that_is_not_there(self):
        between = self.keys[2] + b"+"
        self.assertEqual(self.resolve(KeySelector.last_less_than(between)), self.keys[2])
        self.assertEqual(self.resolve(KeySelector.last_less_or_equal(between)), self.keys[2])
        self.assertEqual(self.resolve(KeySelector.first_greater_than(between)), self.keys[3])
        self.assertEqual(self.resolve(KeySelector.first_greater_or_equal(between)), self.keys[3])

    def test_an_offset_walks_over_existing_keys(self):
        self.assertEqual(
            self.resolve(KeySelector.first_greater_or_equal(self.keys[0]) + 3), self.keys[3]
        )
        self.assertEqual(
            self.resolve(KeySelector.first_greater_or_equal(self.keys[4]) - 3), self.keys[1]
        )

    def test_before_the_first_key_is_the_empty_key_and_behind_the_last_is_ff(self):
        self.assertEqual(self.resolve(KeySelector.last_less_than(b"")), b"")
        self.assertEqual(self.resolve(KeySelector.first_greater_or_equal(b"\xff")), b"\xff")
        self.assertEqual(
            self.resolve(KeySelector.first_greater_or_equal(self.keys[0]) + 1_000_000), b"\xff"
        )

    def test_a_walk_sees_own_writes(self):
        transaction = self.db.create_transaction()
        del transaction[self.keys[1]]
        transaction[self.keys[2] + b"+"] = b"new"
        self.assertEqual(
            transaction.get_key(KeySelector.first_greater_than(self.keys[0])), self.keys[2]
        )
        self.assertEqual(
            transaction.get_key(KeySelector.first_greater_than(self.keys[2])), self.keys[2] + b"+"
        )

    def test_a_range_between_selectors_resolves_both(self):
        transaction = self.db.create_transaction()
        found = transaction.get_range(
            KeySelector.first_greater_than(self.keys[0]),
            KeySelector.last_less_or_equal(self.keys[4]),
        )
        self.assertEqual(pairs(found), self.rows[1:4])

    def test_a_selector_beyond_what_may_be_read_is_refused(self):
        with self.fails_with(2004):
            self.resolve(fdb.KeySelector.first_greater_or_equal(b"\xff/x"))
