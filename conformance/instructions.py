#!/usr/bin/env python3
"""Counts the instructions of seeds, each in its own process, with callgrind.

    conformance/instructions.py examples/atomic/atomic.toml --seed 3 --seeds 10 --buggify on

The program starts its workers through /proc/self/exe, which under valgrind is valgrind itself. So
this script starts one worker under callgrind (`worker.py`). Only the simulation counts, not the
preparation of the worker. Build first:

    cargo build --release -p shaketable-cli -p shaketable-example-atomic

It prints a line for each seed (instructions, simulated seconds, the unseed) and the means. The
profile of each seed stays in the folder, for callgrind_annotate.
"""

import argparse
import pathlib

from worker import Worker


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("file", help="a test file")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--buggify", choices=["on", "off"], help="as of `shaketable run`")
    parser.add_argument("--stress", action="store_true", help="as of `shaketable run`")
    parser.add_argument("--coverage", action="store_true", help="count what lines meet, as `run` does")
    parser.add_argument("--measure", action="store_true", help="the library counts its own calls, as for `compare`")
    parser.add_argument("--record", action="store_true", help="with a record, as `replay` makes it")
    parser.add_argument("--program", default="target/release/shaketable")
    parser.add_argument("--folder", default="target/instructions", help="for the profiles")
    args = parser.parse_args()

    folder = pathlib.Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("callgrind.*"):
        old.unlink()
    worker = Worker(
        args.program,
        args.file,
        under=[
            "valgrind",
            "--quiet",
            "--tool=callgrind",
            "--collect-atstart=no",
            "--toggle-collect=*tester*simulate*",
            f"--callgrind-out-file={folder}/callgrind.%p",
        ],
        buggify={"on": True, "off": False, None: None}[args.buggify],
        stress=args.stress,
        coverage=args.coverage,
        measure=args.measure,
    )
    counts, seconds = [], []
    known = set(folder.glob("callgrind.*"))
    for seed in range(args.seed, args.seed + args.seeds):
        recording = "nothing"
        if args.record:
            record = {"path": f"{folder}/record.jsonl.gz", "values": "short", "reproduce": None}
            trace = {"path": f"{folder}/trace.json", "format": "json", "record": record}
            recording = {"trace": trace}
        outcome = worker.run(seed, recording)
        new = set(folder.glob("callgrind.*")) - known
        known |= new
        counts.append(sum(total(profile) for profile in new))
        seconds.append(outcome["simulated_seconds"])
        names = " ".join(profile.name for profile in new)
        failed = " failed" if outcome["failures"] else ""
        print(
            f"seed {seed}: {counts[-1]:,} instructions, {seconds[-1]:.1f} simulated seconds, "
            f"unseed {outcome['unseed']}, {names}{failed}",
            flush=True,
        )
    mean = sum(counts) / len(counts)
    print(
        f"mean: {mean / 1e6:.2f} million a seed, "
        f"{sum(counts) / sum(seconds) / 1e3:.0f} thousand a simulated second"
    )
    worker.end()


def total(profile):
    """The instructions that a profile counts."""
    for line in profile.read_text().splitlines():
        if line.startswith("totals:"):
            return int(line.split()[1])
    return 0


if __name__ == "__main__":
    main()
