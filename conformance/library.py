"""Finds the libfdb_c that a suite is to run against: the one named by `--library`, or ours, built
for the occasion."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRATCH = ROOT / "target" / "conformance"


def add_argument(parser):
    parser.add_argument(
        "--library",
        type=Path,
        help="the libfdb_c.so to run against, under whatever name;"
        " without it, the crate fdb_c is built",
    )


def directory(argument):
    """A directory in which the loader finds the library as `libfdb_c.so`."""
    if argument is not None:
        if not argument.is_file():
            sys.exit(f"expected a library at {argument}, found none")
        source = argument.resolve()
    else:
        source = build()
    target = SCRATCH / "library"
    target.mkdir(parents=True, exist_ok=True)
    # Another program may be using the copy that is there.
    copy = target / f"libfdb_c.so.{os.getpid()}"
    shutil.copy(source, copy)
    copy.replace(target / "libfdb_c.so")
    return target


def build():
    """The crate that is our libfdb_c.so."""
    command = ["cargo", "build", "--release", "--package", "fdb_c", "--message-format=json"]
    # With the features that other parts of the workspace have, so that little is compiled twice.
    command += ["--package", "shaketable-alike", "--no-default-features"]
    messages = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    libraries = [
        name
        for message in map(json.loads, messages.splitlines())
        if message["reason"] == "compiler-artifact" and message["target"]["name"] == "fdb_c"
        for name in message["filenames"]
        if name.endswith(".so")
    ]
    if len(libraries) != 1:
        sys.exit(f"expected `{' '.join(command)}` to make one shared library, found {libraries}")
    return Path(libraries[0])
