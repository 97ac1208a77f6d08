#!/usr/bin/env python3
"""How many runs does a guided search need, and how many does chance alone?

Searches for each needle in examples/needles, and for some shallow bugs in examples/bugs, from several first
seeds, with `run --guided` and with a plain sweep, both until the first failure. Prints the means as a table. A
search that finds nothing within its budget counts as the budget, marked with `≥`. The program and the examples
must have been built:

    cargo build --release && conformance/needles.py [--repeat 5] [--budget 5000] [name…]
"""

import argparse
import json
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "target/release/shaketable"
# Those whose difficulty lies in the schedule alone run without faults, and faster.
NEEDLES = {
    "needles/three_doubts": [],
    "needles/maze": ["--swarm", "off", "--clients", "4"],
    "needles/lock_order": ["--swarm", "off", "--clients", "4"],
    "needles/rebalance": ["--swarm", "off", "--clients", "4"],
    "needles/two_faults": [],
}
SHALLOW = ["double_increment", "write_skew", "ignored_more", "late_watch", "timed_out", "cleared_receipt"]


def search(path, arguments, first, budget):
    """Runs until the first failure, and seconds. Runs are counted in the order of seeds, not of their ends."""
    command = [PROGRAM, "run", f"examples/{path}.toml", "--seed", str(first), "--seeds", str(budget)]
    command += ["--fail-fast", "--no-build", "--minimise=never", "--message-format", "json", *arguments]
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    seconds = time.monotonic() - began
    runs = [message for line in done.stdout.splitlines() if (message := json.loads(line))["type"] == "run"]
    if "--guided" in arguments:
        return len(runs), seconds, any(not run["passed"] for run in runs)
    failed = [run["seed"] - first + 1 for run in runs if not run["passed"]]
    return min(failed, default=budget), seconds, bool(failed)


def mean(results):
    runs, seconds, found = zip(*results)
    mark = "" if all(found) else "≥ "
    return sum(runs) / len(runs), f"{mark}{sum(runs) / len(runs):.0f}", f"{mark}{sum(seconds) / len(seconds):.0f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--budget", type=int, default=5000)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    searched = {**NEEDLES, **{f"bugs/{name}": [] for name in SHALLOW}}
    print("| bug | runs by chance | seconds | runs guided | seconds | ratio |\n|---|---:|---:|---:|---:|---:|")
    for path, arguments in searched.items():
        name = path.split("/")[1]
        if options.names and name not in options.names:
            continue
        seeds = [1 + 100_000 * number for number in range(options.repeat)]
        chance = mean([search(path, arguments, seed, options.budget) for seed in seeds])
        guided = mean([search(path, [*arguments, "--guided"], seed, options.budget) for seed in seeds])
        ratio = f"{chance[0] / guided[0]:.1f}"
        print(f"| `{name}` | {chance[1]} | {chance[2]} | {guided[1]} | {guided[2]} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
