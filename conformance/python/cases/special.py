"""The special key space, and what the client says of itself."""

import json

from . import Case


class SpecialKeys(Case):
    def test_the_status_is_json_and_says_that_the_database_is_available(self):
        status = json.loads(bytes(self.db[b"\xff\xff/status/json"]))
        self.assertTrue(status["client"]["database_status"]["available"])
        self.assertIn("cluster", status)

    def test_the_connection_string_has_a_description_an_id_and_coordinators(self):
        self.assertRegex(bytes(self.db[b"\xff\xff/connection_string"]).decode(), r"^\w+:\w+@.+:\d+")

    def test_a_key_of_no_module_cannot_be_read(self):
        transaction = self.db.create_transaction()
        with self.fails_with(2113):
            transaction[b"\xff\xff/no such module/"].wait()

    def test_a_range_over_several_modules_cannot_be_read(self):
        transaction = self.db.create_transaction()
        with self.fails_with(2112):
            list(transaction[b"\xff\xff/transaction/":b"\xff\xff/worker_interfaces0"])

    def test_special_keys_cannot_be_written_without_permission(self):
        transaction = self.db.create_transaction()
        transaction[b"\xff\xff/management/excluded/1.2.3.4"] = b""
        with self.fails_with(2114):
            transaction.commit().wait()

    def test_read_conflict_ranges_can_be_looked_at(self):
        transaction = self.db.create_transaction()
        transaction[self.key(b"k")].wait()
        space = b"\xff\xff/transaction/read_conflict_range/"
        rows = [(row.key, row.value) for row in transaction[space : space + b"\xff\xff"]]
        self.assertEqual(
            rows, [(space + self.key(b"k"), b"1"), (space + self.key(b"k") + b"\0", b"0")]
        )

    def test_the_metadata_version_is_readable_and_changes_with_a_commit(self):
        before = self.db[b"\xff/metadataVersion"]
        transaction = self.db.create_transaction()
        transaction.set_versionstamped_value(b"\xff/metadataVersion", bytes(14))
        transaction.commit().wait()
        self.assertNotEqual(self.db[b"\xff/metadataVersion"], before)

    def test_the_client_says_that_it_is_healthy(self):
        status = json.loads(bytes(self.db.get_client_status().wait().value))
        self.assertIs(status["Healthy"], True)
