"""Builds and runs the tests and examples of a published Rust crate."""

import json
import re
import subprocess
import sys
import tempfile

from judge import environment


def build(copy, target, arguments, environment=None):
    """Builds the test programs and the examples and returns them by name."""
    programs = {}
    for command in (
        ["cargo", "test", "--no-run", "--lib", "--tests"],
        ["cargo", "build", "--examples"],
    ):
        messages = subprocess.run(
            [*command, *arguments, "--target-dir", str(target), "--message-format=json", "--quiet"],
            cwd=copy,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for message in map(json.loads, messages.stdout.splitlines()):
            if message["reason"] == "compiler-message" and message["message"]["level"] == "error":
                print(message["message"]["rendered"], file=sys.stderr)
            if message["reason"] == "compiler-artifact" and message["executable"]:
                programs[program_name(message["target"])] = message["executable"]
        if messages.returncode:
            sys.exit(
                f"expected `{' '.join(command)}` to build the published crate, found the errors above"
            )
    return programs


def program_name(target):
    (kind,) = target["kind"]
    return {"lib": "lib", "test": target["name"], "example": f"example/{target['name']}"}[kind]


def run(name, program, directory, timeout, arguments=(), **more):
    """Runs one test program, with a filter for instance, or one example; yields (test, outcome,
    what it printed)."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [program, *arguments],
                cwd=folder,
                env=environment(directory, **more),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout,
            )
            output, ending = done.stdout.decode(errors="replace"), describe(done.returncode)
        except subprocess.TimeoutExpired as error:
            output, ending = (
                (error.stdout or b"").decode(errors="replace"),
                f"no end after {timeout} s",
            )
    if name.startswith("example/"):
        yield name, ending or "ok", output
        return
    outcomes = re.findall(
        r"^test (\S+)(?: - should panic)? \.\.\. (?:.*\b)?(ok|FAILED|ignored)\b",
        output,
        re.MULTILINE,
    )
    for test, outcome in outcomes:
        yield f"{name}::{test}", outcome, output
    # A program that crashes takes its tests with it; one whose tests all passed must also end well.
    failures = any(outcome == "FAILED" for _, outcome in outcomes)
    announced = re.search(r"^running (\d+) test", output, re.MULTILINE)
    if not ending and (not announced or int(announced[1]) != len(outcomes)):
        ending = (
            f"{announced[0] if announced else 'no tests announced'}, {len(outcomes)} outcomes found"
        )
    if ending and not (failures and ending == "exit code 101"):
        yield f"{name}::(program)", ending, output


def describe(code):
    if code == 0:
        return ""
    return f"exit code {code}" if code > 0 else f"killed by signal {-code}"
