#!/usr/bin/env python3
"""Does every part of the workspace that is built by itself share what it depends on with the rest?

Another set of features is another crate to compile, and whatever uses it is compiled once more.
`conformance/alike` keeps them the same: this compares the features of other people's crates in each
part with those in what is built first, and says what is missing there.
"""

import functools
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "normal,build -p shaketable-alike -p shaketable-cli -p shaketable-example-*"
TESTS = "normal,build,dev"
# What is built first, and what is built beside it later.
PARTS = [
    (PROGRAM, "normal,build -p shaketable-alike --no-default-features -p fdb_c"),
    (PROGRAM, "normal,build -p shaketable-alike --no-default-features -p shaketable-service"),
    (PROGRAM, "normal,build -p shaketable-alike --no-default-features -p shaketable-test-probe --features fdb-7_4"),
    (TESTS, PROGRAM),
    (TESTS, "normal,build -p shaketable-alike -p shaketable-test-probe"),
    (TESTS, "normal,build,dev -p shaketable-alike -p shaketable --features shaketable/tokio"),
    (TESTS, "normal,build,dev -p shaketable-alike -p shaketable -p shaketable-fdbc"),
]
# Each has its own: a service asks for as much of tokio as it needs.
APART = {"tokio"}


def main():
    problems = []
    for first, part in PARTS:
        known = features(first)
        for name, sets in features(part).items():
            if name in known and name.split(" ")[0] not in APART and not sets <= known[name]:
                problems.append(f"{part}: {name} has {' or '.join(sets)}, and before {' or '.join(known[name])}")
    for problem in problems:
        print(f"error: {problem}: name what is missing in conformance/alike/Cargo.toml")
    print(f"{len(PARTS)} parts, {len(problems)} problems")
    sys.exit(1 if problems else 0)


@functools.cache
def features(part):
    """The sets of features that other people's crates have in a part: for each the ones it is built with."""
    edges, *selection = part.split()
    command = ["cargo", "tree", "--locked", "--prefix", "none", "--no-dedupe", "--format", "{p} [{f}]", "--edges", edges]
    found = {}
    for line in subprocess.check_output([*command, *selection], cwd=ROOT, text=True).splitlines():
        crate, _, listed = line.removesuffix(" (*)").removesuffix("]").partition(" [")
        if str(ROOT) not in crate:
            found.setdefault(" ".join(crate.split(" ")[:2]), set()).add(listed)
    return found


if __name__ == "__main__":
    main()
