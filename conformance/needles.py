#!/usr/bin/env python3
"""How many runs does a guided search need, and how many does chance alone?

Searches for each needle in examples/needles, and for some shallow bugs in examples/bugs, from several first
seeds, with `run --guided` and with a plain sweep, each until its first failure. Prints a table with means,
medians and ranges, and by how many times fewer runs guidance takes, with an interval that holds 95 times of 100.

Needles take thousands of runs by chance. So chance is one long sweep, and its mean is the number of runs of that
sweep, divided by the number of its failures. A guided search is run as it is. One that finds nothing within its
budget counts as the budget, marked with `≥`.

    cargo build --release -p shaketable-cli -p 'shaketable-example-*'
    conformance/needles.py --first 120000001 [--searches 15] [--jobs 2] [--check] [name…]

All of it takes about a quarter of an hour of processor time, so eight minutes on two idle cores. Give --first a
seed that no search was improved with. `--chance 0` leaves out the long sweeps, which do not depend on the search.

With --check the exit status is 1 if a needle takes more than a tenth of the runs of chance, or a shallow bug more
than 1.2 times as many.
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import resource
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "target/release/shaketable"
# How many clients, and how many runs chance gets: the rarer, the more. All are run as their files say: a swarm
# would only add faults that they do not need.
NEEDLES = {
    "three_doubts": (2, 40_000),
    "maze": (4, 20_000),
    "lock_order": (6, 60_000),
    "rebalance": (4, 20_000),
    "two_faults": (1, 100_000),
}
SHALLOW = ["double_increment", "write_skew", "ignored_more", "late_watch", "timed_out", "cleared_receipt", "oversold",
           "stale_cache", "swallowed_error", "flushed_twice"]
# Searches begin this many seeds apart.
STEP = 100_000
GUIDED_MAX = 10_000
SHALLOW_MAX = 1_000
# Where the long sweeps begin: far from all searches.
CHANCE_FIRST = 200_000_001
# How often an interval is drawn.
DRAWS = 4_000


class Searches:
    """The runs of several searches, and their processor seconds in the mean."""

    def __init__(self, runs, found, seconds):
        self.runs, self.found, self.seconds = runs, found, seconds

    def mean(self):
        return statistics.mean(self.runs)

    def draw(self, generator):
        """A mean that other searches might have had."""
        return statistics.mean(generator.choices(self.runs, k=len(self.runs)))

    def cells(self):
        mark = "" if all(self.found) else "≥ "
        low, high = min(self.runs), max(self.runs)
        return (f"{mark}{self.mean():,.0f} | {statistics.median(self.runs):,.0f} ({low:,} to {mark}{high:,}) "
                f"| {mark}{self.seconds:.1f}")


class Sweep:
    """One long sweep: its runs, its failures, and the processor seconds for each failure."""

    def __init__(self, count, failed, seconds):
        self.count, self.failed, self.seconds = count, failed, seconds / max(failed, 1)

    def mean(self):
        return self.count / max(self.failed, 1)

    def draw(self, generator):
        """A mean that could have led to as many failures."""
        return self.count / generator.gammavariate(self.failed + 0.5, 1)

    def cells(self):
        mark = "" if self.failed else "≥ "
        return f"{mark}{self.mean():,.0f} | | {mark}{self.seconds:.1f}"


def interval(chance, guided):
    """The ratio of two means: the 2.5th and the 97.5th of 100 that might have been. The same on every call."""
    generator = random.Random(1)
    ratios = sorted(chance.draw(generator) / guided.draw(generator) for _ in range(DRAWS))
    return ratios[DRAWS // 40], ratios[-DRAWS // 40]


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def sweep(path, arguments, first, count, jobs):
    """Whether each run passed, by its seed, in the order of their ends."""
    command = [PROGRAM, "run", f"examples/{path}.toml", "--seed", str(first), "--seeds", str(count)]
    command += ["--jobs", str(jobs), "--no-build", "--minimise=never", "--message-format", "json", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        messages = (json.loads(line) for line in program.stdout)
        runs = [(message["seed"], message["passed"]) for message in messages if message["type"] == "run"]
    if program.returncode not in (0, 100):
        sys.exit(f"{' '.join(map(str, command))}: exit status {program.returncode}")
    return runs


def by_chance(path, arguments, count, jobs):
    before = processor_seconds()
    runs = sweep(path, arguments, CHANCE_FIRST, count, jobs)
    return Sweep(count, sum(not passed for _, passed in runs), processor_seconds() - before)


def one_by_one(path, arguments, searches, count, jobs, first_of_all):
    """Searches that end with their first failure. Runs are counted in the order of seeds, not of their ends."""

    def search(number):
        first = first_of_all + number * STEP
        runs = sweep(path, [*arguments, "--fail-fast"], first, count, 1)
        failed = [seed - first + 1 for seed, passed in runs if not passed]
        if "--guided" in arguments:
            return len(runs), bool(failed)
        return min(failed, default=count), bool(failed)

    before = processor_seconds()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        ended = list(pool.map(search, range(searches)))
    seconds = processor_seconds() - before
    return Searches([runs for runs, _ in ended], [found for _, found in ended], seconds / searches)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--searches", type=int, default=15)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--chance", type=int, help="runs of each long sweep, instead of what the script says")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    unknown = set(options.names) - set(NEEDLES) - set(SHALLOW)
    if unknown:
        sys.exit(f"there is no {', '.join(sorted(unknown))}; there are {', '.join([*NEEDLES, *SHALLOW])}")
    missed = []
    print("| bug | failures by chance | runs, mean | median (range) | seconds, mean "
          "| guided: runs, mean | median (range) | seconds, mean | times fewer runs |\n"
          "|---|---:|---:|---:|---:|---:|---:|---:|---:|")

    def row(name, rate, chance, guided, least):
        if chance is None:
            print(f"| `{name}` | | | | | {guided.cells()} | |", flush=True)
            return
        ratio = chance.mean() / guided.mean()
        low, high = interval(chance, guided)
        missed.extend([name] if ratio < least else [])
        print(f"| `{name}` | {rate} | {chance.cells()} | {guided.cells()} | {ratio:.1f} ({low:.1f} to {high:.1f}) |",
              flush=True)

    for name, (clients, count) in NEEDLES.items():
        if options.names and name not in options.names:
            continue
        path = f"needles/{name}"
        arguments = ["--swarm", "off", "--clients", str(clients)]
        guided = one_by_one(path, [*arguments, "--guided"], options.searches, GUIDED_MAX, options.jobs, options.first)
        count = count if options.chance is None else options.chance
        chance = by_chance(path, arguments, count, options.jobs) if count else None
        row(name, f"{chance.failed} in {count:,}" if chance else "", chance, guided, 10)
    for name in SHALLOW:
        if options.names and name not in options.names:
            continue
        path = f"bugs/{name}"
        chance = one_by_one(path, [], options.searches, SHALLOW_MAX, options.jobs, options.first)
        guided = one_by_one(path, ["--guided"], options.searches, SHALLOW_MAX, options.jobs, options.first)
        row(name, "", chance, guided, 1 / 1.2)
    if missed and options.check:
        sys.exit(f"the goal is missed by {', '.join(missed)}")


if __name__ == "__main__":
    main()
