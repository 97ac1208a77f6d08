#!/usr/bin/env python3
"""Every fate of every operation, in every example.

Explores each test file in examples/ from seed 1, and checks that

  * every bug that one event can trigger is found, and so is the one that takes two; the bugs for
    which neither is enough are listed here, with the reason in docs/explore.md;
  * every other file passes: the examples, and the fixed form of each bug;
  * the two whose workloads never call the database are refused, with the exit status for that;
  * every outcome of every operation was tried, and every death, within the budget.

Prints what was tried and how long it took: in seconds, and in those of two idle cores, by processor
time.

    cargo build --release -p shaketable-cli -p 'shaketable-example-*'
    conformance/explore.py [--jobs 2] [--budget 30] [name…]     all of it, about a quarter of an hour
    conformance/explore.py --short                              one bug of each kind, with two clients

The exit status is 1 on any surprise. A machine that is busy needs a larger budget.
"""

import argparse
import json
import pathlib
import resource
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "target/release/shaketable"
# Bugs that no event of an operation triggers.
NOT_FOUND = {"neighbour"}
# Files whose workloads never call the database, and how `explore` says that there is nothing to try.
NOTHING_TO_EXPLORE = {"noop", "shared"}
NOTHING_STATUS = 4
# One bug for each kind of event, the one that is not found, and an example.
SHORT = ["double_increment", "swallowed_error", "ignored_more", "late_watch", "orphan_record", "forgotten_doubt",
         "neighbour", "atomic"]


def files(names):
    """The test files, and whether each is a bug. Without workloads of a library there is nothing to explore."""
    for path in sorted(ROOT.glob("examples/*/*.toml")):
        is_library = "libraryName" in path.read_text()
        if path.name == "Cargo.toml" or path.parent.name == "needles" or not is_library:
            continue
        name = path.stem.removesuffix("-fixed")
        if not names or name in names:
            yield path.relative_to(ROOT), path.with_name(f"{path.stem}-fixed.toml").exists()


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def found_by(report):
    """What triggers the bug, in a few words."""
    if "fails_as_it_is" in report:
        return "nothing forced"
    if report["failures"]:
        first = report["failures"][0]["decisions"]
        return "; then ".join(decision.split(": ", 1)[-1] for decision in first)
    return "a death" if report["fatal"] else ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", type=int, default=30, help="seconds for each file")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    names = options.names or (SHORT if options.short else [])
    surprises = []
    runs = 0
    for path, is_bug in files(names):
        command = [PROGRAM, "explore", path, "--seed", "1", "--jobs", str(options.jobs), "--no-build"]
        command += ["--budget", f"{options.budget}s", "--message-format", "json"]
        command += ["--clients", "2"] if options.short else []
        before = processor_seconds()
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        idle = (processor_seconds() - before) / 2
        if path.stem in NOTHING_TO_EXPLORE:
            print(f"{path!s:45} nothing to explore: exit status {done.returncode}", flush=True)
            if done.returncode != NOTHING_STATUS or done.stdout:
                surprises.append(f"{path}: exit status {done.returncode} where there is nothing to explore, "
                                 f"expected {NOTHING_STATUS} and no report")
            continue
        if done.returncode not in (0, 100):
            surprises.append(f"{path}: exit status {done.returncode}")
            continue
        report = json.loads(done.stdout)
        runs += report["tried"] + report["pairs_tried"] + report["deaths_tried"]
        found = found_by(report)
        print(f"{path!s:45} {report['tried']:6} outcomes {report['deaths_tried']:5} deaths "
              f"{report['seconds']:6.1f} s {idle:6.1f} s idle  {found}", flush=True)
        is_expected = is_bug and path.stem not in NOT_FOUND
        if bool(found) != is_expected:
            surprises.append(f"{path}: {found or 'not found'}")
        if "fails_as_it_is" not in report and (report["tried"] < report["possible"] or not report["all_died"]):
            surprises.append(f"{path}: {report['tried']} of {report['possible']} outcomes, "
                             f"{report['deaths_tried']} deaths: time was up")
    print(f"{runs:,} runs, {len(surprises)} surprises")
    sys.exit("\n".join(surprises) if surprises else 0)


if __name__ == "__main__":
    main()
