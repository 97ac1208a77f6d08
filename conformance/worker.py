#!/usr/bin/env python3
"""One worker of the program, without the program around it.

    conformance/worker.py PROGRAM FILE… --seeds 60     runs seeds of test files, each file in a worker

The program ends its workers by killing them, and starts them through /proc/self/exe. What counts
something in a process and tells at its end (a profiler, valgrind) misses both. Here a worker is asked
as crates/shaketable-cli/src/protocol.rs describes, and ends by itself.
"""

import argparse
import json
import socket
import subprocess


class Worker:
    """A worker that is ready for the seeds of one test file."""

    def __init__(self, program, file, under=(), **settings):
        ours, theirs = socket.socketpair()
        self.process = subprocess.Popen([*under, program, "__worker"], stdin=theirs)
        theirs.close()
        self.socket = ours
        self.lines = ours.makefile("rw")
        ready = self.ask(
            {
                "files": [{"path": file, "built": {}}],
                "settings": {
                    "buggify": None,
                    "fault_injection": None,
                    # What a seed costs must not depend on how it chooses to be run.
                    "swarm": False,
                    "stress": False,
                    "coverage": False,
                    "measure": False,
                    "knobs": [],
                    "clients": None,
                    **settings,
                },
                "hang_limit_seconds": 3600,
                "capture": True,
            }
        )
        if ready["error"]:
            raise SystemExit(ready["error"])

    def ask(self, message):
        """The first line of the answer."""
        self.lines.write(json.dumps(message) + "\n")
        self.lines.flush()
        return json.loads(self.lines.readline())

    def run(self, seed, recording="nothing"):
        """The outcome of a seed."""
        self.ask({"file": 0, "seed": seed, "recording": recording})
        return json.loads(self.lines.readline())

    def end(self):
        self.lines.close()
        self.socket.close()
        return self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program")
    parser.add_argument("files", nargs="+", help="test files")
    parser.add_argument("--seeds", type=int, default=1, help="how many, from 1")
    args = parser.parse_args()
    for file in args.files:
        worker = Worker(args.program, file, buggify=True, coverage=True)
        for seed in range(1, args.seeds + 1):
            worker.run(seed)
        if code := worker.end():
            raise SystemExit(f"the worker for {file} ended with {code}")


if __name__ == "__main__":
    main()
