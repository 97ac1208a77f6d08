#!/usr/bin/env python3
"""Is what programs read as docs/schema says?

Runs one command for each kind of message of `--message-format json` on the examples, and checks every
line that it prints against messages.json; the case that one of them writes against case.json; and the
lines of a log against log.json.
The program and the examples must have been built:

    cargo build --release && conformance/messages.py

Installs the package jsonschema below target/conformance/messages if Python has none.
"""

import collections
import json
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / "target/conformance/messages/venv"
# Fails with every seed.
BUG = "examples/bugs/claimed_twice.toml"
CASE = "target/conformance/messages/case.toml"
COMMANDS = [
    f"run {BUG} --seed 1 --seeds 10",
    # The last seeds of all, which JSON has as texts.
    f"run {BUG} --seed 18446744073709551606 --seeds 10",
    f"decisions {BUG} --seed 18446744073709551615",
    f"run {BUG} --guided --seed 1 --seeds 160",
    f"check-determinism {BUG} --seed 1 --seeds 2",
    f"minimise {BUG} --seed 1 -o {CASE}",
    f"decisions {BUG} --seed 1",
    f"when {BUG} --seed 1 --futures 5",
    "explore examples/bugs/ignored_more.toml --clients 2",
    f"lint {BUG} --seed 1 --seeds 2",
    f"explain {BUG} --seed 1",
    "list examples/bugs",
    "doctor",
]

try:
    import jsonschema
except ImportError:
    if sys.prefix == str(VENV):
        raise
    subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    subprocess.run([VENV / "bin/pip", "install", "--quiet", "jsonschema==4.26.0"], check=True)
    sys.exit(subprocess.run([VENV / "bin/python", *sys.argv]).returncode)


def main():
    schema = json.loads((ROOT / "docs/schema/messages.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    kinds = {each["properties"]["type"]["const"]: each for each in schema["oneOf"]}
    seen, wrong = collections.Counter(), 0
    (ROOT / CASE).parent.mkdir(parents=True, exist_ok=True)
    program = ROOT / "target/release/shaketable"
    for command in COMMANDS:
        build = [] if command.startswith(("list", "doctor")) else ["--no-build"]
        arguments = [program, *command.split(), *build, "--message-format", "json"]
        done = subprocess.run(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        if not done.stdout:
            raise SystemExit(f"messages: `shaketable {command}` printed nothing")
        for line in done.stdout.splitlines():
            message = json.loads(line)
            seen[message["type"]] += 1
            # Only what is said about its own kind: a better complaint than that none of all fits.
            kind = kinds.get(message["type"], False)
            own = {**kind, "$defs": schema["$defs"]} if kind else kind
            for error in jsonschema.Draft202012Validator(own).iter_errors(message):
                wrong += 1
                print(f"`shaketable {command}`, {message['type']}: {error.json_path}: {error.message}")
    schema = json.loads((ROOT / "docs/schema/case.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    case = tomllib.loads((ROOT / CASE).read_text())
    for error in jsonschema.Draft202012Validator(schema).iter_errors(case):
        wrong += 1
        print(f"{CASE}: {error.json_path}: {error.message}")
    schema = json.loads((ROOT / "docs/schema/log.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    log = [program, "log", BUG, "--seed", "1", "--no-build", "--format", "json"]
    lines = subprocess.run(log, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    for line in lines:
        for error in jsonschema.Draft202012Validator(schema).iter_errors(json.loads(line)):
            wrong += 1
            print(f"`shaketable log`: {error.json_path}: {error.message}")
    if not lines:
        raise SystemExit("messages: `shaketable log` printed nothing")
    print(f"messages: {dict(seen)}, a case, {len(lines)} lines of a log, {wrong} problems")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
