#!/usr/bin/env python3
"""How many get + set + commit transactions a second one Python thread makes, one after another, through a libfdb_c; and how long a unit test waits for it.

Each transaction crosses to the network's thread and back twice, so this measures how fast the two threads wake each other. The unit tests, of the module
`unittest`, clear, write and read a little each, as those of a layer do: what counts is the part of their time in which the suite's own thread waits.

    sequential.py target/release/libfdb_c.so [TRANSACTIONS]
"""

import ctypes
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
from client import P, check, load  # noqa: E402

library = load(sys.argv[1])
transactions = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
waited = 0.0


def finish(future):
    global waited
    begin = time.perf_counter()
    check(library.fdb_future_block_until_ready(future))
    waited += time.perf_counter() - begin
    check(library.fdb_future_get_error(future))
    library.fdb_future_destroy(future)


check(library.fdb_select_api_version_impl(740, 740))
check(library.fdb_setup_network())
network = threading.Thread(target=library.fdb_run_network)
network.start()
database = P()
check(library.fdb_create_database(None, ctypes.byref(database)))


def transact(number):
    transaction = P()
    check(library.fdb_database_create_transaction(database, ctypes.byref(transaction)))
    key = b"key%04d" % (number % 1000)
    finish(library.fdb_transaction_get(transaction, key, len(key), 0))
    library.fdb_transaction_set(transaction, key, len(key), b"value", 5)
    finish(library.fdb_transaction_commit(transaction))
    library.fdb_transaction_destroy(transaction)


for number in range(1000):
    transact(number)
wall, cpu = time.perf_counter(), time.process_time()
for number in range(transactions):
    transact(number)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(f"{transactions / wall:.0f} transactions a second of time on the wall, {transactions / cpu:.0f} of CPU time")


class Layer(unittest.TestCase):
    def setUp(self):
        transaction = P()
        check(library.fdb_database_create_transaction(database, ctypes.byref(transaction)))
        library.fdb_transaction_clear_range(transaction, b"key", 3, b"kez", 3)
        finish(library.fdb_transaction_commit(transaction))
        library.fdb_transaction_destroy(transaction)

    def test(self):
        for number in range(3):
            transact(number)


suite = unittest.TestSuite(Layer("test") for _ in range(transactions // 10))
wall, waited = time.perf_counter(), 0.0
result = suite.run(unittest.TestResult())
wall = time.perf_counter() - wall
check(not result.wasSuccessful())
print(f"{result.testsRun / wall:.0f} unit tests a second, which wait for {100 * waited / wall:.0f} % of their time")
check(library.fdb_stop_network())
network.join()
