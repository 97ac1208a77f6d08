"""Judges the outcomes of other people's tests: what fails must be on the list of exceptions, and
what is there must fail.

A suite is told how many tests it should have, so that tests that vanish do not go unnoticed.
"""

import os
import sys


class Judge:
    def __init__(self, exceptions):
        self.exceptions = exceptions
        self.seen = {}
        self.unexpected = 0

    def note(self, test, outcome, output=""):
        """Prints an outcome; anything but `ok` counts as a failure."""
        self.seen[test] = outcome
        reason = self.exceptions.get(test)
        expected = (outcome == "ok") == (reason is None)
        verdict = outcome if reason is None else f"{outcome} (exception: {reason})"
        print(f"{'  ' if expected else '! '}{test:70} {verdict}", flush=True)
        if not expected:
            self.unexpected += 1
            print(excerpt(output), end="", flush=True)

    def end(self, count=None):
        """Prints the summary and ends the program: with 1 on anything unexpected."""
        for test in sorted(set(self.exceptions) - set(self.seen)):
            self.unexpected += 1
            print(f"! {test:70} is in the list of exceptions and not in the suite")
        if count is not None and len(self.seen) != count:
            self.unexpected += 1
            print(f"! expected {count} tests, found {len(self.seen)}")
        passed = sum(outcome == "ok" for outcome in self.seen.values())
        summary = f"{passed} of {len(self.seen)} passed"
        print(
            f"\n{summary}, {'everything as expected' if not self.unexpected else f'{self.unexpected} unexpected'}"
        )
        sys.exit(1 if self.unexpected else 0)


def excerpt(output):
    """What a program printed, without the middle if it is long: the first lines say what broke, the
    last how it ended."""
    lines = output.splitlines()
    if len(lines) > 40:
        lines[20:-20] = [f"... {len(lines) - 40} lines ..."]
    return "".join(f"        {line}\n" for line in lines)


def cluster_file():
    """The cluster that the caller names, for a real library. Ours reads no file."""
    return os.environ.get("FDB_CLUSTER_FILE", "fdb.cluster")


def environment(directory, **more):
    """An environment in which the loader finds the library, and nothing names a cluster but what is
    passed."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FDB_")}
    return kept | {"LD_LIBRARY_PATH": str(directory), "RUST_BACKTRACE": "0"} | more
