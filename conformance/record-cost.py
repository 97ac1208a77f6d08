#!/usr/bin/env python3
"""What a seed costs with a record, beside what it costs without one.

    conformance/record-cost.py examples/atomic/atomic.toml examples/bank/bank.toml --seeds 3 7

For each seed `run --seed` and `replay --seed` take turns, and the least processor time of either
counts, of the program and its workers, user and system: on a busy machine everything that disturbs
adds to it. `replay` writes the record, the trace and the page, and explains them. The exit status is
1 if a seed with a record costs more than `--most` times one without. Build first:

    cargo build --release -p shaketable-cli -p 'shaketable-example-*'
"""

import argparse
import resource
import subprocess
import tempfile


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("files", nargs="+", help="test files")
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 7])
    parser.add_argument("--turns", type=int, default=7, help="how often each is measured")
    parser.add_argument("--most", type=float, default=2.0, help="the ratio that is promised")
    parser.add_argument("--program", default="target/release/shaketable")
    args = parser.parse_args()
    is_kept = True
    with tempfile.TemporaryDirectory() as folder:
        for file in args.files:
            for seed in args.seeds:
                common = [file, "--seed", str(seed), "--buggify", "on", "--no-build"]
                commands = {
                    "run": [args.program, "run", *common],
                    "replay": [args.program, "replay", *common, "--trace-dir", folder],
                }
                least = {}
                for _ in range(args.turns):
                    for name, command in commands.items():
                        least[name] = min(milliseconds(command), least.get(name, float("inf")))
                ratio = least["replay"] / least["run"]
                is_kept &= ratio <= args.most
                print(
                    f"{file} seed {seed}: {least['run']:.1f} ms, "
                    f"with a record {least['replay']:.1f} ms, {ratio:.2f} times",
                    flush=True,
                )
    raise SystemExit(0 if is_kept else 1)


def milliseconds(command):
    """The processor time of a command and everything that it starts."""

    def spent():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = spent()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (spent() - before) * 1000


if __name__ == "__main__":
    main()
