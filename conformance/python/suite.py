#!/usr/bin/env python3
"""Exercises the Python binding `foundationdb` on whatever libfdb_c it finds, and prints one line
per test.

`run` beside this file installs the binding and puts a library before the loader. The cases are
under `cases/`, by subject; each expects what FoundationDB 7.4 does, or what 8.0 does otherwise. A
test that hangs ends the program with the stacks of all threads.

Ends with 1 if any test fails.
"""

import argparse
import faulthandler
import importlib.metadata
import sys
import unittest
from pathlib import Path

import fdb

SUBJECTS = ["transactions", "ranges", "atomics", "waiting", "limits", "layers", "special"]
SUBJECTS_OF_8_0 = ["release"]
SECONDS_PER_TEST = 60


class Table(unittest.TestResult):
    """Prints each test as it ends, and the reasons of a failure below it."""

    def startTest(self, test):
        super().startTest(test)
        self.known = len(self.failures), len(self.errors)
        faulthandler.dump_traceback_later(SECONDS_PER_TEST, exit=True)
        print(f"  {test.id():120} ", end="", flush=True)

    def stopTest(self, test):
        faulthandler.cancel_dump_traceback_later()
        reasons = self.failures[self.known[0] :] + self.errors[self.known[1] :]
        print("FAILED" if reasons else "ok", flush=True)
        for _, reason in reasons:
            print("".join(f"        {line}\n" for line in reason.splitlines()), end="", flush=True)
        super().stopTest(test)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--api", type=int, default=fdb.LATEST_API_VERSION, help="the API version to select"
    )
    parser.add_argument(
        "names", nargs="*", help="subjects, or tests as the table names them"
    )
    arguments = parser.parse_args()

    # The binding has no functions before a version is selected, so the cases can only be imported
    # after it.
    fdb.api_version(arguments.api)
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    subjects = SUBJECTS + (SUBJECTS_OF_8_0 if arguments.api >= 800 else [])
    names = arguments.names or subjects
    names = [name if name.startswith("cases.") else f"cases.{name}" for name in names]
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = Table()
    suite.run(result)
    failed = len({test.id().split(" ")[0] for test, _ in result.failures + result.errors})
    print(
        f"binding {importlib.metadata.version('foundationdb')}, API version {arguments.api}: {result.testsRun} tests, {failed} failed"
    )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
