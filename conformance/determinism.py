#!/usr/bin/env python3
"""Proves that a seed decides a run and nothing else does.

Every test file under examples/ is run as its seed draws, as it is with buggify off and on, under
stress, without faults, and with each fault workload alone (those of examples/bugs with two of them, in turn). Each
such run leaves a record: the full trace, the unseed, the verdict, the metrics. The same seed must
leave the same bytes

  * in another process;
  * in another place: other variables in the environment, other folder, home, language, time zone,
    stack limit, allocator;
  * with its memory laid out at random, and at the same addresses each time;
  * on one core that two busy loops want as well;
  * from a program and libraries that were built for debugging.

A run is compared with that in one other place, every fourth also with that of a debugging build;
an example as it is with those in all places. The many bugs and fixes share their library and are
to it what one example is: each is in a debugging build once, and in other places in turn.

Usage: conformance/determinism.py [--seeds N] [--only TEXT]. Builds what it needs. Exit code 1 at
any difference.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(?m)^\s*\[\[test\.workload\]\]\n")

# Each fault workload with options under which it does something within a short run.
FAULTS = {
    "Attrition": {"machinesToKill": 6, "testDuration": 20.0},
    "ChangeConfig": {
        "maxDelayBeforeChange": 10.0,
        "coordinators": "'auto'",
        "configMode": "'double logs=3'",
    },
    "ClogSingleConnection": {"maxDelay": 10.0, "clogDuration": 10.0},
    "ClogTlog": {"testDuration": 40.0},
    "DiskFailureInjection": {
        "testDuration": 20.0,
        "throttleDisk": "true",
        "stallInterval": 1.0,
        "stallPeriod": 3.0,
    },
    "RandomClogging": {"testDuration": 20.0},
    "RandomMoveKeys": {"testDuration": 20.0, "meanDelay": 0.5},
    "RandomRangeLock": {"maxStartDelay": 10.0, "maxLockDuration": 5.0},
    "Rollback": {"testDuration": 20.0, "meanDelay": 3.0},
    "TargetedKill": {"killAt": 5.0, "machineToKill": "'tlog'"},
    "TriggerRecoveryLoop": {"numRecoveries": 5, "delayBetweenRecoveries": 2.0},
}


class Case:
    """One run to be repeated: a test file, with or without buggify and stress, and a seed."""

    def __init__(self, name, text, buggify, seed, is_bug):
        self.name, self.text, self.buggify, self.seed = name, text, buggify, seed
        self.is_bug = is_bug
        self.options = ["--seed", str(seed)]
        if not name.endswith("as drawn"):
            self.options += ["--swarm", "off", "--buggify", buggify]
        if name.endswith("under stress"):
            self.options.append("--stress")

    def __str__(self):
        return f"{self.name}, buggify {self.buggify}, seed {self.seed}"


def cases(seeds):
    """Every example and fault combination."""
    number = 0
    for path in sorted(ROOT.glob("examples/*/*.toml")):
        if path.name == "Cargo.toml":
            continue
        text = re.sub(r"(?m)^(\s*libraryPath = ).*$", r"\1'lib'", path.read_text())
        head, *blocks = BLOCK.split(text)
        kept = [block for block in blocks if not any(f"'{fault}'" in block for fault in FAULTS)]
        said = re.search(r"(?m)^runFailureWorkloads", head)
        quiet = head if said else head.rstrip() + "\nrunFailureWorkloads = false\n"

        def file(head, blocks):
            return head + "".join("\n  [[test.workload]]\n" + block for block in blocks)

        variants = [("as drawn", text), ("as it is", text), ("under stress", text)]
        variants.append(("no faults", file(quiet, kept)))
        # The many bugs and fixes share their library: each is run with two of the fault workloads.
        turn = number % len(FAULTS)
        is_bug = path.parent.name == "bugs"
        alone = [*FAULTS, *FAULTS][turn : turn + 2] if is_bug else FAULTS
        for fault in alone:
            options = FAULTS[fault]
            lines = [f"testName = '{fault}'"] + [
                f"{key} = {value}" for key, value in options.items()
            ]
            block = "".join(f"    {line}\n" for line in lines)
            variants.append((f"only {fault}", file(quiet, kept + [block])))
        for variant, content in variants:
            # Ranges are only ever locked with buggify; where there is no choice to make they take
            # turns.
            both = variant == "as it is"
            for buggify in ["off", "on"] if both else [["off", "on"][number % 2]]:
                for _ in range(seeds):
                    number += 1
                    yield Case(f"{path.stem}, {variant}", content, buggify, number, is_bug)


class Place:
    """A way to run a case: which build, from where, in what surroundings."""

    def __init__(self, name, build="release", scrambled=False, addresses=None, one_core=False):
        self.name, self.build, self.scrambled = name, build, scrambled
        self.addresses, self.one_core = addresses, one_core

    def run(self, case, scratch):
        """The record of a case: a dictionary of byte strings."""
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            home = (
                pathlib.Path(folder, "an", "other", "place")
                if self.scrambled
                else pathlib.Path(folder)
            )
            home.mkdir(parents=True, exist_ok=True)
            (home / "lib").symlink_to(ROOT / "target" / self.build)
            (home / "case.toml").write_text(case.text)
            command = [
                ROOT / "target" / self.build / "shaketable",
                "replay",
                "case.toml",
                "--no-build",
            ]
            command += case.options
            command += ["--trace-dir", "traces", "--message-format", "json"]
            if self.addresses == "fixed":
                command = ["setarch", os.uname().machine, "-R"] + command
            done = subprocess.run(
                command,
                cwd=home,
                env=self.environment(),
                preexec_fn=self.prepare,
                capture_output=True,
                timeout=300,
            )
            record = {"exit code": str(done.returncode).encode()}
            for trace in sorted((home / "traces").glob("*")) if (home / "traces").is_dir() else []:
                record[f"trace {trace.name}"] = trace.read_bytes()
            lines = []
            for line in done.stdout.splitlines():
                message = json.loads(line)
                for clock in ["real_seconds", "elapsed_seconds", "started"]:
                    message.pop(clock, None)
                lines.append(json.dumps(message))
            record["standard output"] = "\n".join(lines).encode()
            if not any(name.startswith("trace") for name in record):
                raise SystemExit(f"{case}, {self.name}: no trace, {done.stderr.decode()}")
            return record

    def environment(self):
        environment = {"PATH": os.environ["PATH"], "HOME": "/root", "LANG": "C", "TZ": "UTC"}
        if self.scrambled:
            environment |= {f"NOISE_{number}": "x" * (97 * number % 512) for number in range(200)}
            environment |= {
                "HOME": "/nonexistent",
                "LANG": "tr_TR.UTF-8",
                "LC_ALL": "de_DE.UTF-8",
                "TZ": "Pacific/Chatham",
            }
            environment |= {
                "MALLOC_PERTURB_": "165",
                "MALLOC_ARENA_MAX": "1",
                "RUST_MIN_STACK": "4194304",
                "RUST_BACKTRACE": "full",
            }
        return environment

    def prepare(self):
        if self.scrambled:
            _, most = resource.getrlimit(resource.RLIMIT_STACK)
            resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, most))
        if self.one_core:
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


BASE = Place("release build")
PLACES = [
    Place("another process"),
    Place("another environment", scrambled=True),
    Place("fixed addresses", addresses="fixed"),
]
LOADED = Place("under load", scrambled=True, one_core=True)
DEBUG = Place("debug build", build="debug", scrambled=True)
BUSY_LOOP = [sys.executable, "-c", "while True: pass"]


def places_of(number, case):
    """Where this case, the so-manyth, is run again on an idle machine."""
    one = PLACES[number % len(PLACES)]
    if "as it is" not in case.name:
        return [one, DEBUG] if number % 4 == 0 else [one]
    if case.is_bug:
        return [one, DEBUG] if case.buggify == "on" else [one]
    return PLACES + [DEBUG]


def difference(expected, found):
    """Where two records part, in words; nothing if they do not."""
    for name in sorted(set(expected) | set(found)):
        one, other = expected.get(name), found.get(name)
        if one == other:
            continue
        if one is None or other is None:
            return f"{name} is in only one of them"
        for number, (left, right) in enumerate(zip(one.splitlines(), other.splitlines()), 1):
            if left != right:
                return f"{name}, line {number}:\n    {left.decode()}\n    {right.decode()}"
        return f"{name}: one goes on after the other has ended"
    return None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds of each case")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    arguments = parser.parse_args()
    for profile in [["--release"], []]:
        subprocess.run([ROOT / "conformance/build", *profile], check=True)
    chosen = [case for case in cases(arguments.seeds) if arguments.only in case.name]
    scratch = tempfile.mkdtemp(prefix="shaketable-determinism-")
    compared, differences = collections.Counter(), []

    def check(place, case, base):
        found = difference(base, place.run(case, scratch))
        compared[place.name] += 1
        if found:
            differences.append(f"{case}: {place.name} is different\n  {found}")

    try:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            bases = list(pool.map(lambda case: BASE.run(case, scratch), chosen))
            jobs = []
            for number, (case, base) in enumerate(zip(chosen, bases)):
                places = places_of(number, case)
                jobs += [pool.submit(check, place, case, base) for place in places]
            for job in jobs:
                job.result()
            busy = [subprocess.Popen(BUSY_LOOP) for _ in range(2)]
            try:
                for process in busy:
                    os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
                every_fifth = list(zip(chosen, bases))[::5]
                list(pool.map(lambda pair: check(LOADED, *pair), every_fifth))
            finally:
                for process in busy:
                    process.kill()
    finally:
        shutil.rmtree(scratch)
    for text in differences[:10]:
        print(text)
    for name, count in compared.items():
        print(f"{name:20} {count} records compared")
    events = sum(
        record.count(b"\n")
        for base in bases
        for name, record in base.items()
        if name.startswith("trace")
    )
    failed = sum(base["exit code"] != b"0" for base in bases)
    print(
        f"{len(chosen)} runs ({failed} of them failed), {events} events, {len(differences)} differences"
    )
    return 1 if differences or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
