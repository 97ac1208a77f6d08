"""Atomic operations, and versionstamps."""

import struct

import fdb

from . import Case


def number(value):
    return struct.pack("<q", value)


class Atomics(Case):
    def outcome(self, operation, existing, operand):
        """What an operation leaves, after a commit and, before it, in the eyes of the transaction
        itself."""
        key = self.key(b"k")
        transaction = self.db.create_transaction()
        if existing is None:
            del transaction[key]
        else:
            transaction[key] = existing
        transaction.commit().wait()
        transaction.reset()
        getattr(transaction, operation)(key, operand)
        seen = transaction[key]
        before = bytes(seen) if seen.present() else None
        transaction.commit().wait()
        after = self.db[key]
        self.assertEqual(before, after, "the transaction saw something else than it committed")
        return after

    def expect(self, operation, rows):
        for existing, operand, expected in rows:
            with self.subTest(operation=operation, existing=existing, operand=operand):
                self.assertEqual(self.outcome(operation, existing, operand), expected)

    def test_add_sums_little_endian_numbers_and_wraps(self):
        self.expect(
            "add",
            [
                (None, number(5), number(5)),
                (number(7), number(5), number(12)),
                (number(7), number(-9), number(-2)),
                (b"\xff", b"\x01", b"\x00"),
                (b"\xff\xff\xff", b"\x01", b"\x00"),
                (b"\x01", b"\x01\x01", b"\x02\x01"),
                (b"", b"\x05", b"\x05"),
                (b"\x05", b"", b""),
            ],
        )

    def test_bit_operations_work_on_the_length_of_their_operand(self):
        self.expect(
            "bit_and",
            [
                (None, b"\x0f", b"\x0f"),
                (b"\x3c", b"\x0f", b"\x0c"),
                (b"\x3c\xff", b"\x0f", b"\x0c"),
                (b"", b"\x0f", b"\x00"),
            ],
        )
        self.expect(
            "bit_or",
            [
                (None, b"\x0f", b"\x0f"),
                (b"\x30", b"\x0f", b"\x3f"),
                (b"\x30", b"\x0f\x01", b"\x3f\x01"),
            ],
        )
        self.expect("bit_xor", [(None, b"\x0f", b"\x0f"), (b"\x3c", b"\x0f", b"\x33")])

    def test_max_and_min_compare_little_endian_numbers(self):
        self.expect(
            "max",
            [
                (None, number(3), number(3)),
                (number(7), number(3), number(7)),
                (number(3), number(7), number(7)),
                (b"\x00\x01", b"\x01\x00", b"\x00\x01"),
            ],
        )
        self.expect(
            "min",
            [
                (None, number(3), number(3)),
                (number(7), number(3), number(3)),
                (number(3), number(7), number(3)),
                (b"", b"\x05", b"\x00"),
            ],
        )

    def test_byte_max_and_byte_min_compare_strings(self):
        self.expect(
            "byte_max",
            [(None, b"b", b"b"), (b"a", b"b", b"b"), (b"b", b"a", b"b"), (b"aa", b"a", b"aa")],
        )
        self.expect(
            "byte_min",
            [(None, b"b", b"b"), (b"a", b"b", b"a"), (b"b", b"a", b"a"), (b"aa", b"a", b"a")],
        )

    def test_append_if_fits_appends_what_fits(self):
        self.expect(
            "append_if_fits",
            [(None, b"a", b"a"), (b"a", b"b", b"ab"), (b"a" * 99999, b"bc", b"a" * 99999)],
        )

    def test_compare_and_clear_clears_what_is_equal(self):
        self.expect(
            "compare_and_clear", [(None, b"a", None), (b"a", b"a", None), (b"a", b"b", b"a")]
        )

    def test_additions_of_concurrent_transactions_do_not_conflict(self):
        first, second = self.db.create_transaction(), self.db.create_transaction()
        second.set_read_version(first.get_read_version().wait())
        first.add(self.key(b"k"), number(1))
        second.add(self.key(b"k"), number(1))
        first.commit().wait()
        second.commit().wait()
        self.assertEqual(self.db[self.key(b"k")], number(2))

    def test_operations_pile_up_in_one_transaction(self):
        transaction = self.db.create_transaction()
        for _ in range(10):
            transaction.add(self.key(b"k"), number(1))
        self.assertEqual(transaction[self.key(b"k")], number(10))
        transaction.commit().wait()
        self.assertEqual(self.db[self.key(b"k")], number(10))


class Versionstamps(Case):
    def stamped_value(self, name):
        """Commits a versionstamped value and returns it with the transaction's own versionstamp."""
        transaction = self.db.create_transaction()
        transaction.set_versionstamped_value(
            self.key(name), b"<" + bytes(10) + b">" + struct.pack("<I", 1)
        )
        stamp = transaction.get_versionstamp()
        transaction.commit().wait()
        return (
            bytes(self.db[self.key(name)]),
            bytes(stamp.wait().value),
            transaction.get_committed_version(),
        )

    def test_a_value_receives_the_stamp_of_its_commit(self):
        value, stamp, version = self.stamped_value(b"k")
        self.assertEqual(value, b"<" + stamp + b">")
        self.assertEqual(struct.unpack(">q", stamp[:8])[0], version)

    def test_a_key_receives_the_stamp_of_its_commit(self):
        transaction = self.db.create_transaction()
        transaction.set_versionstamped_key(
            self.prefix + bytes(10) + struct.pack("<I", len(self.prefix)), b"v"
        )
        stamp = transaction.get_versionstamp()
        transaction.commit().wait()
        (row,) = self.db.get_range(*self.everything())
        self.assertEqual((row.key, row.value), (self.prefix + stamp.wait().value, b"v"))

    def test_later_commits_have_later_stamps(self):
        stamps = [self.stamped_value(b"%d" % index)[1] for index in range(5)]
        self.assertEqual(stamps, sorted(set(stamps)))

    def test_a_tuple_with_an_incomplete_stamp_is_completed(self):
        transaction = self.db.create_transaction()
        incomplete = fdb.tuple.pack_with_versionstamp(
            (b"row", fdb.tuple.Versionstamp(user_version=7)), prefix=self.prefix
        )
        transaction.set_versionstamped_key(incomplete, b"v")
        stamp = transaction.get_versionstamp()
        transaction.commit().wait()
        (row,) = self.db.get_range(*self.everything())
        name, found = fdb.tuple.unpack(row.key, len(self.prefix))
        self.assertEqual(
            (name, found.user_version, found.tr_version), (b"row", 7, stamp.wait().value)
        )

    def test_a_transaction_that_wrote_nothing_has_no_stamp(self):
        transaction = self.db.create_transaction()
        stamp = transaction.get_versionstamp()
        transaction.commit().wait()
        with self.fails_with(2021):
            stamp.wait().value

    def test_a_stamped_value_cannot_be_read_before_it_is_committed(self):
        transaction = self.db.create_transaction()
        transaction.set_versionstamped_value(self.key(b"k"), bytes(14))
        with self.fails_with(1036):
            transaction[self.key(b"k")].wait()

    def test_an_offset_outside_the_key_is_refused(self):
        transaction = self.db.create_transaction()
        transaction.set_versionstamped_key(self.prefix + bytes(10) + struct.pack("<I", 1000), b"v")
        with self.fails_with(2000):
            transaction.commit().wait()
