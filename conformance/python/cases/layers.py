"""The layers that come with the binding: tuples, subspaces, directories, locality. They are built
on the rest, so that a wrong answer below shows here in another way."""

import uuid

import fdb
import fdb.tuple

from . import Case


class Tuples(Case):
    VALUES = [
        None,
        b"",
        b"\x00\xff",
        "",
        "\u00e9\u2603\U0001f600",
        (None, b"nested", (1,)),
        -(2**70),
        -(2**63),
        -256,
        -1,
        0,
        1,
        255,
        2**63,
        2**70,
        fdb.tuple.SingleFloat(-1.5),
        fdb.tuple.SingleFloat(1.5),
        -2.5,
        2.5,
        False,
        True,
        uuid.UUID(int=0),
        uuid.UUID(int=2**128 - 1),
        fdb.tuple.Versionstamp(b"0123456789", 7),
    ]

    def test_every_value_comes_back_as_it_was(self):
        for value in self.VALUES:
            with self.subTest(value=value):
                (found,) = fdb.tuple.unpack(fdb.tuple.pack((value,)))
                self.assertEqual(found, value)

    def test_the_database_keeps_tuples_in_their_order(self):
        expected = [fdb.tuple.pack((value,), self.prefix) for value in self.VALUES]
        transaction = self.db.create_transaction()
        for key in reversed(expected):
            transaction[key] = b""
        transaction.commit().wait()
        self.assertEqual([row.key for row in self.db.get_range(*self.everything())], expected)

    def test_the_range_of_a_tuple_holds_what_begins_with_it_and_not_itself(self):
        space = fdb.Subspace((self.id(),))
        for name in [(), (1,), (1, 2), (1, "x"), (2,)]:
            self.db[space.pack(name)] = b""
        rows = self.db[space[1].range()]
        self.assertEqual([space.unpack(row.key) for row in rows], [(1, "x"), (1, 2)])


class Subspaces(Case):
    def test_a_subspace_packs_under_its_prefix_and_knows_its_own(self):
        space = fdb.Subspace((self.id(), "rows"), rawPrefix=b"raw")
        self.db[space.pack((1, "a"))] = b"v"
        self.assertEqual(self.db[space[1]["a"]], b"v")
        self.assertTrue(space.contains(space.pack((1, "a"))))
        self.assertFalse(space.contains(b"elsewhere"))
        self.assertEqual(space.unpack(space.pack((1, "a"))), (1, "a"))


class Directories(Case):
    def setUp(self):
        super().setUp()
        self.root = fdb.DirectoryLayer(
            node_subspace=fdb.Subspace(rawPrefix=self.key(b"nodes")),
            content_subspace=fdb.Subspace(rawPrefix=self.key(b"content")),
        )

    def test_a_directory_is_created_once_and_opened_again(self):
        created = self.root.create_or_open(self.db, ("a", "b"))
        opened = self.root.create_or_open(self.db, ("a", "b"))
        self.assertEqual(created.key(), opened.key())
        self.assertEqual(opened.get_path(), ("a", "b"))
        self.assertTrue(self.root.exists(self.db, ("a", "b")))
        self.assertFalse(self.root.exists(self.db, ("a", "c")))

    def test_what_exists_cannot_be_created_and_what_does_not_cannot_be_opened(self):
        self.root.create(self.db, ("a",))
        with self.assertRaises(ValueError):
            self.root.create(self.db, ("a",))
        with self.assertRaises(ValueError):
            self.root.open(self.db, ("b",))

    def test_directories_are_listed_by_name(self):
        for name in ("c", "a", "b"):
            self.root.create(self.db, (name,))
        self.root.create(self.db, ("a", "inner"))
        self.assertEqual(list(self.root.list(self.db)), ["a", "b", "c"])
        self.assertEqual(list(self.root.list(self.db, ("a",))), ["inner"])

    def test_a_moved_directory_keeps_its_contents(self):
        directory = self.root.create(self.db, ("a",))
        self.db[directory["row"]] = b"v"
        moved = self.root.move(self.db, ("a",), ("b",))
        self.assertEqual(self.db[moved["row"]], b"v")
        self.assertFalse(self.root.exists(self.db, ("a",)))

    def test_a_removed_directory_takes_its_contents_along(self):
        directory = self.root.create(self.db, ("a",))
        inner = directory.create(self.db, ("inner",))
        self.db[directory["row"]] = b"v"
        self.db[inner["row"]] = b"v"
        self.root.remove(self.db, ("a",))
        self.assertIsNone(self.db[directory["row"]])
        self.assertIsNone(self.db[inner["row"]])
        self.assertFalse(self.root.remove_if_exists(self.db, ("a",)))

    def test_a_directory_of_another_layer_is_not_opened(self):
        self.root.create(self.db, ("a",), layer=b"mine")
        self.assertEqual(self.root.open(self.db, ("a",), layer=b"mine").get_layer(), b"mine")
        with self.assertRaises(ValueError):
            self.root.open(self.db, ("a",), layer=b"yours")

    def test_a_partition_keeps_its_directories_to_itself(self):
        partition = self.root.create(self.db, ("p",), layer=b"partition")
        inner = partition.create(self.db, ("a",))
        self.db[inner["row"]] = b"v"
        self.assertEqual(self.db[self.root.open(self.db, ("p", "a"))["row"]], b"v")
        with self.assertRaises(Exception):
            partition.pack(("row",))

    def test_many_directories_have_prefixes_of_their_own(self):
        @fdb.transactional
        def create(tr):
            return [self.root.create(tr, (str(index),)).key() for index in range(50)]

        prefixes = create(self.db)
        self.assertEqual(len(set(prefixes)), 50)
        for one in prefixes:
            self.assertFalse(any(other != one and other.startswith(one) for other in prefixes))


class Locality(Case):
    def test_a_key_has_an_address_with_a_port(self):
        (address,) = fdb.locality.get_addresses_for_key(self.db, self.key(b"k")).wait()
        self.assertRegex(
            address.decode() if isinstance(address, bytes) else address, r"^[0-9.]+:\d+"
        )

    def test_the_whole_key_space_has_boundaries_that_begin_at_its_beginning(self):
        keys = list(fdb.locality.get_boundary_keys(self.db, b"", b"\xff"))
        self.assertEqual(keys[0], b"")
        self.assertEqual(keys, sorted(set(keys)))

    def test_a_range_that_ends_before_it_begins_has_none(self):
        self.assertEqual(list(fdb.locality.get_boundary_keys(self.db, b"b", b"a")), [])
