#!/usr/bin/env python3
"""Makes the failures of every bug in examples/bugs small, and checks how small they become.

For the first failing seeds of each bug:

  * a bug that needs no fault ends with none, any other one with at most 8 decisions;
  * no more than two clients are left, unless the bug needs more;
  * every piece that is left is known to be needed: the run without it was made;
  * the case fails each time it is replayed, in a run that is the same to the last message.

Over all of them: at most 3 decisions in the median of those that need any, and at most 10 seconds
on two cores in the median. Seconds are processor time divided by two, so that a busy machine does
not count.

With --when, `shaketable when` is asked about the same failures instead:

  * at most 20 seconds on two cores for each;
  * the largest step, if it is no chance, is narrowed down to one moment at which something happened;
  * the answer is the same if it is asked again.

The seeds are fixed, so the answer is the same on every machine. Exit code 1 on any surprise.

    conformance/minimise.py                            two seeds of each bug, 3 replays
    conformance/minimise.py --seeds-per-bug 3 --replays 100
    conformance/minimise.py --only cleared_receipt
    conformance/minimise.py --when --seeds-per-bug 1
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "target/release/shaketable"

# The bugs that need more than clients that meet.
NEED_A_FAULT = {
    # A commit whose fate is unknown.
    *("cleared_receipt", "double_append", "double_increment", "false_failure", "flushed_twice"),
    *("forgotten_doubt", "lost_pop", "maybe_done", "new_id", "own_entry"),
    # The death of a client, or a commit of unknown fate in its place.
    *("abandoned_job", "orphan_record", "unreturned_lease"),
    # A commit that takes longer than two commits of another client, and than the end of a lease.
    "clock_lease",
}

# How many clients a bug needs, if two are not enough.
CLIENTS = {
    # A reader, and two writers of which the one that begins first commits last.
    "assumed_order": 3,
    # Clients are owners 8, 9, 10 and so on, and only 10 begins like 1.
    "neighbour": 3,
}

DECISIONS_MEDIAN, DECISIONS_MAX, SECONDS_MEDIAN = 3, 8, 10
WHEN_SECONDS_MAX = 20


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def shaketable(*arguments):
    """The JSON messages of a run of the program."""
    command = [PROGRAM, *arguments, "--message-format", "json"]
    output = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    return [json.loads(line) for line in output.stdout.splitlines()]


def failing_seeds(file, options):
    """The first failing seeds of a test file."""
    seeds = ["--seed", str(options.seed), "--seeds", str(options.seeds)]
    runs = shaketable("run", file, "--no-build", *seeds, "--minimise=never")
    failing = [
        run["seed"] for run in runs if run["type"] == "run" and not run["passed"]
    ]
    return sorted(failing)[: options.seeds_per_bug]


def replay(case, times):
    """How a case fails, each time it is run, with the fingerprint of the whole run."""
    messages = shaketable("stats", *[case] * times, "--no-build")
    outcomes = [one["outcome"] for one in messages if one["type"] == "failure"]
    return [(one["failures"], one["fingerprint"]) for one in outcomes]


def surprises_of(bug, small, replays, times):
    """What is wrong with a case."""
    needs, clients = len(small["needs"]), small["clients"]
    enough = DECISIONS_MAX if bug in NEED_A_FAULT else 0
    if needs > enough:
        yield f"{needs} decisions are left, {enough} are enough"
    if clients > CLIENTS.get(bug, 2):
        yield f"{clients} clients are left, {CLIENTS.get(bug, 2)} are enough"
    if not small["is_minimal"]:
        yield "time was up before each piece was known to be needed"
    failure = small["failure"]
    same = [one for one in replays if one == replays[0] and failure in one[0]]
    if len(same) < times:
        yield f"{times - len(same)} of {times} replays fail in another way, or not at all"


def ask_when(path, seed):
    """When a failure became inevitable, and the seconds that it took to find out."""
    before = processor_seconds()
    messages = shaketable("when", path, "--no-build", "--seed", str(seed), "--budget", "1h")
    seconds = (processor_seconds() - before) / 2
    return next((one for one in messages if one["type"] == "when"), None), seconds


def surprises_of_when(found, again, seconds):
    """What is wrong with an answer of `when`."""
    if seconds > WHEN_SECONDS_MAX:
        yield f"{seconds:.1f} s, {WHEN_SECONDS_MAX} are enough"
    times = {one["time"] for one in found["decisive"]}
    by_time = {one["time"]: one for one in found["moments"]}
    before, after = by_time[found["jump_from"]], by_time[found["jump_to"]]
    # Intervals of 95 % that do not overlap.
    is_certain = before["high"] < after["low"]
    if len(times) > 1 or is_certain and not times:
        yield f"the largest step is narrowed down to {len(times)} moments"
    for answer in (found, again):
        answer.pop("seconds", None)
    if found != again:
        yield "another answer to the same question"


def check_when(files, options, surprise):
    """Asks `when` about the first failing seeds of each file."""
    print("bug                seed  moments  largest step   seconds")
    all_seconds, counts = [], []
    for file in files:
        bug, path = file.stem, os.path.relpath(file, ROOT)
        for seed in failing_seeds(path, options):
            found, seconds = ask_when(path, seed)
            again, _ = ask_when(path, seed)
            if not found or not again:
                surprise(f"{bug} seed {seed}: no answer")
                continue
            moments = {one["time"]: one["probability"] for one in found["moments"]}
            step = [round(100 * moments[found[end]]) for end in ("jump_from", "jump_to")]
            all_seconds.append(seconds)
            counts.append(len(moments))
            print(
                f"{bug:18} {seed:4}  {len(moments):7}  {step[0]:3} to {step[1]:3} %  {seconds:8.1f}",
                flush=True,
            )
            for wrong in surprises_of_when(found, again, seconds):
                surprise(f"{bug} seed {seed}: {wrong}")
    if all_seconds:
        print(
            f"\n{len(all_seconds)} failures, {min(counts)} to {max(counts)} moments\n"
            f"seconds    {min(all_seconds):.1f} to {max(all_seconds):.1f},"
            f" median {statistics.median(all_seconds):.1f}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument(
        "--seeds", type=int, default=60, help="among how many seeds failures are sought"
    )
    parser.add_argument("--seeds-per-bug", type=int, default=2)
    parser.add_argument("--replays", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="the bugs whose name contains one of these")
    parser.add_argument("--when", action="store_true", help="ask `when` instead")
    parser.add_argument("--no-build", action="store_true")
    options = parser.parse_args()
    if not options.no_build:
        packages = ["-p", "shaketable-cli", "-p", "shaketable-example-bugs"]
        subprocess.run(
            ["cargo", "build", "--quiet", "--release", *packages], cwd=ROOT, check=True
        )
    files = sorted((ROOT / "examples/bugs").glob("*.toml"))
    files = [file for file in files if file.stem != "Cargo"]
    files = [file for file in files if not file.stem.endswith("-fixed")]
    if options.only:
        files = [file for file in files if any(only in file.stem for only in options.only)]

    surprises, found = [], []

    def surprise(text):
        # At once: a run that is interrupted must not look as if all had been well.
        surprises.append(text)
        print(f"SURPRISE {text}", flush=True)

    if options.when:
        check_when(files, options, surprise)
        files = []

    folder = tempfile.TemporaryDirectory(prefix="shaketable-minimise-")
    if files:
        print("bug                seed  decisions     clients  simulated s  runs  seconds")
    for file in files:
        bug, path = file.stem, os.path.relpath(file, ROOT)
        seeds = failing_seeds(path, options)
        if not seeds:
            surprise(f"{bug}: no failing seed among {options.seeds}")
        for seed in seeds:
            case = f"{folder.name}/{bug}-{seed}.toml"
            before = processor_seconds()
            small = shaketable(
                *["minimise", path, "--no-build", "--seed", str(seed)],
                *["-o", case, "--budget", "1h"],
            )
            seconds = (processor_seconds() - before) / 2
            if not small:
                surprise(f"{bug} seed {seed}: nothing was found")
                continue
            small = small[0]
            replays = replay(case, options.replays)
            found.append((bug, len(small["needs"]), small["clients"], seconds))
            print(
                f"{bug:18} {seed:4} {small['decisions_before']:5} → {len(small['needs'])}"
                f"     {small['clients_before']:2} → {small['clients']}"
                f"  {small['simulated_seconds_before']:5.1f} → {small['simulated_seconds']:5.1f}"
                f"  {small['runs']:4}  {seconds:7.1f}",
                flush=True,
            )
            for need in small["needs"]:
                print(f"                        {need['words']}", flush=True)
            for wrong in surprises_of(bug, small, replays, options.replays):
                surprise(f"{bug} seed {seed}: {wrong}")

    if found:
        decisions = [needs for _, needs, _, _ in found]
        some = [needs for needs in decisions if needs] or [0]
        clients = [count for _, _, count, _ in found]
        seconds = [used for _, _, _, used in found]
        print(
            f"\n{len(found)} failures of {len({bug for bug, *_ in found})} bugs\n"
            f"decisions  none in {decisions.count(0)}; of the others median"
            f" {statistics.median(some):g}, at most {max(some)}\n"
            f"clients    median {statistics.median(clients):g}, more than two in"
            f" {sum(count > 2 for count in clients)}\n"
            f"seconds    median {statistics.median(seconds):.1f}, at most {max(seconds):.1f}\n"
            f"replays    {options.replays} of each case"
        )
        for what, is_wrong in (
            ("the median of decisions", statistics.median(some) > DECISIONS_MEDIAN),
            ("the median of seconds", statistics.median(seconds) > SECONDS_MEDIAN),
        ):
            if is_wrong:
                surprise(f"{what} is too large")
    print(f"{len(surprises)} surprises")
    sys.exit(1 if surprises else 0)


if __name__ == "__main__":
    main()
