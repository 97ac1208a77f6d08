#!/usr/bin/env python3
"""What a libfdb_c costs an ordinary Python program besides the transactions that follow one another (`sequential.py`): how soon after loading it the first
transaction is done, how much memory an empty database adds to the process, and how many transactions a second many threads make together.

    ordinary.py target/release/libfdb_c.so [THREADS] [TRANSACTIONS]
"""

import ctypes
import sys
import threading
import time

sys.dont_write_bytecode = True
from client import P, check, load  # noqa: E402

path = sys.argv[1]
threads = int(sys.argv[2]) if len(sys.argv) > 2 else 64
transactions = int(sys.argv[3]) if len(sys.argv) > 3 else 20_000


def resident():
    """The memory of this process that is there, in MiB: all of it, and what belongs to no file."""
    fields = dict(line.split(":", 1) for line in open("/proc/self/status") if line.startswith("Rss") or line.startswith("VmRSS"))
    return [int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "RssAnon")]


def finish(future):
    check(library.fdb_future_block_until_ready(future))
    check(library.fdb_future_get_error(future))
    library.fdb_future_destroy(future)


def transact(key):
    transaction = P()
    check(library.fdb_database_create_transaction(database, ctypes.byref(transaction)))
    finish(library.fdb_transaction_get(transaction, key, len(key), 0))
    library.fdb_transaction_set(transaction, key, len(key), b"value", 5)
    finish(library.fdb_transaction_commit(transaction))
    library.fdb_transaction_destroy(transaction)


before = resident()
wall, cpu = time.perf_counter(), time.process_time()
library = load(path)
check(library.fdb_select_api_version_impl(740, 740))
check(library.fdb_setup_network())
network = threading.Thread(target=library.fdb_run_network)
network.start()
database = P()
check(library.fdb_create_database(None, ctypes.byref(database)))
transact(b"first")
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(f"{1000 * wall:.2f} ms to the first transaction, {1000 * cpu:.2f} ms of CPU time")
after = resident()
print(f"{after[0] - before[0]:.1f} MiB for an empty database, {after[1] - before[1]:.1f} MiB of them its own")


def work(name):
    for number in range(transactions // threads):
        transact(b"%d/%04d" % (name, number % 1000))


workers = [threading.Thread(target=work, args=(name,)) for name in range(threads)]
wall, cpu = time.perf_counter(), time.process_time()
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
done = transactions // threads * threads
print(f"{done / wall:.0f} transactions a second of {threads} threads, {done / cpu:.0f} of CPU time")
check(library.fdb_stop_network())
network.join()
