#!/usr/bin/env python3
"""How many runs does a guided search need, and how many does chance alone?

Searches for each needle in examples/needles, and for some shallow bugs in examples/bugs, from several first
seeds, with `run --guided` and with a plain sweep, each until its first failure. Prints means, medians and ranges
as a table.

Needles take thousands of runs by chance. So chance is one long sweep, and what a search from a given seed would
have needed is read from it: the distance to the next seed that fails. Its mean is the number of runs of that
sweep, divided by the number of its failures; seconds are those of the sweep, in proportion. A guided search is
run as it is. One that finds nothing within its budget counts as the budget, marked with `≥`.

    cargo build --release -p shaketable-cli -p 'shaketable-example-*'
    conformance/needles.py [--searches 9] [--first 1] [--jobs 2] [--check] [name…]

Give --first a seed that no search was improved with.

With --check the exit status is 1 if a needle takes more than a tenth of the runs of chance, or a shallow bug more
than 1.2 times as many.
"""

import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "target/release/shaketable"
# How many clients, and how many runs chance gets. All are run as their files say: a swarm would only
# add faults that they do not need.
NEEDLES = {
    "three_doubts": (2, 20_000),
    "maze": (4, 20_000),
    "lock_order": (6, 20_000),
    "rebalance": (4, 20_000),
    "two_faults": (1, 20_000),
}
SHALLOW = ["double_increment", "write_skew", "ignored_more", "late_watch", "timed_out", "cleared_receipt", "oversold",
           "stale_cache", "swallowed_error", "flushed_twice"]
# Searches begin this many seeds apart.
STEP = 100_000
GUIDED_MAX = 5_000


class Searches:
    """The runs and seconds of several searches."""

    def __init__(self):
        self.runs, self.seconds, self.found = [], [], []
        self.mean_runs = self.mean_seconds = None

    def add(self, runs, seconds, found):
        self.runs.append(runs)
        self.seconds.append(seconds)
        self.found.append(found)

    def mean(self):
        return self.mean_runs if self.mean_runs is not None else statistics.mean(self.runs)

    def cells(self):
        mark = "" if all(self.found) else "≥ "
        seconds = self.mean_seconds if self.mean_seconds is not None else statistics.mean(self.seconds)
        low, high = min(self.runs), max(self.runs)
        return (f"{mark}{self.mean():,.0f} | {statistics.median(self.runs):,.0f} ({low:,} to {mark}{high:,}) "
                f"| {mark}{seconds:.1f}")


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def sweep(path, arguments, first, count, jobs):
    """The runs, the seconds, and the summary."""
    command = [PROGRAM, "run", f"examples/{path}.toml", "--seed", str(first), "--seeds", str(count)]
    command += ["--jobs", str(jobs), "--no-build", "--minimise=never", "--message-format", "json", *arguments]
    before = processor_seconds()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    seconds = processor_seconds() - before
    if done.returncode not in (0, 100):
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}")
    return [message for line in done.stdout.splitlines() if (message := json.loads(line))["type"] == "run"], seconds


def by_chance(path, arguments, searches, count, jobs):
    """What searches would have needed, from one long sweep."""
    runs, seconds = sweep(path, arguments, 1, count, jobs)
    failed = sorted(run["seed"] for run in runs if not run["passed"])
    result = Searches()
    for number in range(searches):
        first = 1 + number * (count // searches)
        after = [seed for seed in failed if seed >= first]
        needed = after[0] - first + 1 if after else count - first + 1
        result.add(needed, needed * seconds / count, bool(after))
    if failed:
        result.found = [True]
        result.mean_runs, result.mean_seconds = count / len(failed), seconds / len(failed)
    else:
        result.mean_runs, result.mean_seconds = count, seconds
    return result, len(failed)


def one_by_one(path, arguments, searches, count, jobs, first_of_all):
    """Searches that end with their first failure. Runs are counted in the order of seeds, not of their ends."""
    result = Searches()
    for number in range(searches):
        first = first_of_all + number * STEP
        runs, seconds = sweep(path, [*arguments, "--fail-fast"], first, count, jobs)
        if "--guided" in arguments:
            result.add(len(runs), seconds, any(not run["passed"] for run in runs))
        else:
            failed = [run["seed"] - first + 1 for run in runs if not run["passed"]]
            result.add(min(failed, default=count), seconds, bool(failed))
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--searches", type=int, default=9)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    missed = []
    print("| bug | failures by chance | runs, mean | median (range) | seconds, mean "
          "| guided: runs, mean | median (range) | seconds, mean | times fewer runs |\n"
          "|---|---:|---:|---:|---:|---:|---:|---:|---:|")

    def row(name, rate, chance, guided, least):
        ratio = chance.mean() / guided.mean()
        missed.extend([name] if ratio < least else [])
        print(f"| `{name}` | {rate} | {chance.cells()} | {guided.cells()} | {ratio:.1f} |", flush=True)

    for name, (clients, count) in NEEDLES.items():
        if options.names and name not in options.names:
            continue
        path = f"needles/{name}"
        arguments = ["--swarm", "off", "--clients", str(clients)]
        guided = one_by_one(path, [*arguments, "--guided"], options.searches, GUIDED_MAX, options.jobs, options.first)
        chance, failed = by_chance(path, arguments, options.searches, count, options.jobs)
        row(name, f"{failed} in {count:,}", chance, guided, 10)
    for name in SHALLOW:
        if options.names and name not in options.names:
            continue
        path = f"bugs/{name}"
        chance = one_by_one(path, [], options.searches, 1_000, options.jobs, options.first)
        guided = one_by_one(path, ["--guided"], options.searches, 1_000, options.jobs, options.first)
        row(name, "", chance, guided, 1 / 1.2)
    if missed and options.check:
        sys.exit(f"the goal is missed by {', '.join(missed)}")


if __name__ == "__main__":
    main()
