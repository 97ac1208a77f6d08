#!/usr/bin/env python3
"""Are our declarations the ones that bindgen generates from FoundationDB's own headers?

The published crate `foundationdb-sys` 0.11.0 carries those headers. For each API version this
builds it (libclang comes from PyPI, into target/), takes the bindings it generated, and writes a
Rust file that compiles only if ours agree: each function has the very type of its twin, each struct
the size, alignment, offsets and field types, each constant the value and type. Functions, structs
and constants that only one side has are listed by the compiler as unknown names, and the other way
round by this script.

Prints one line per version; ends with 1 if any of them differs.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import libclang

ROOT = Path(__file__).resolve().parent.parent
SCRATCH = ROOT / "target" / "conformance" / "sys-bindgen"
VERSIONS = ["5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "7_0", "7_1", "7_3", "7_4"]

# The struct names of 5.1 and 5.2 for handles, which our crate leaves out.
LEFT_OUT = {"future", "cluster", "database", "transaction"}


def main():
    environment = libclang.environment()
    differing = [version for version in VERSIONS if not agrees(version, environment)]
    sys.exit(1 if differing else 0)


def agrees(version, environment):
    theirs = generate(version, environment)
    problems = compare(version, theirs)
    print(f"{'differs' if problems else 'ok':8}fdb-{version}", flush=True)
    for line in problems:
        print("        " + line)
    return not problems


def generate(version, environment):
    """The bindings of the published crate."""
    project = SCRATCH / "theirs"
    dependency = f'foundationdb-sys = {{ version = "=0.11.0", features = ["embedded-fdb-include", "fdb-{version}"] }}'
    write_project(project, dependency, "")
    messages = subprocess.check_output(
        ["cargo", "check", "--message-format=json", "--target-dir", "target"],
        cwd=project,
        env=environment,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    (output,) = (
        message["out_dir"]
        for message in map(json.loads, messages.splitlines())
        if message["reason"] == "build-script-executed"
        and "foundationdb-sys" in message["package_id"]
    )
    return Path(output, "bindings.rs").read_text()


def compare(version, theirs):
    """What is wrong with ours, as lines."""
    flat = re.sub(r"\s+", " ", re.sub(r'#\[doc = "(?:[^"\\]|\\.)*"\]', "", theirs))
    functions = re.findall(r'unsafe extern "C" \{ pub fn (\w+)\((.*?)\)((?: -> [^;]*)?); \}', flat)
    structs = re.findall(r"pub struct (\w+) \{ (.*?) \}", flat)
    constants = re.findall(r"pub const (FDB\w+): (\w+) =", flat)
    aliases = re.findall(r"pub type (FDB\w+|fdb_\w+) = ", flat)

    checks = [
        "#![allow(non_upper_case_globals, non_camel_case_types, non_snake_case, dead_code, unused_imports)]",
        "#[allow(unnecessary_transmutes, clippy::all)]",
        'mod theirs { include!("theirs.rs"); }',
        "use ours::*;",
    ]
    for name, parameters, result in functions:
        checks.append(f'const _: unsafe extern "C" fn({parameters}){result} = ours::{name};')
    for name, fields in structs:
        if name.startswith("__") or name in LEFT_OUT:
            continue
        checks.append(
            f"const _: () = assert!(size_of::<ours::{name}>() == size_of::<theirs::{name}>());"
        )
        checks.append(
            f"const _: () = assert!(align_of::<ours::{name}>() == align_of::<theirs::{name}>());"
        )
        for field, kind in split_fields(fields):
            checks.append(
                f"const _: () = assert!(std::mem::offset_of!(ours::{name}, {field})"
                f" == std::mem::offset_of!(theirs::{name}, {field}));"
            )
            checks.append(f"const _: fn(ours::{name}) -> {kind} = |it| it.{field};")
    for name, kind in constants:
        checks.append(
            f"const _: ours::{kind} = ours::{name};"
            if kind.startswith("FDB")
            else f"const _: {kind} = ours::{name};"
        )
        checks.append(f"const _: () = assert!(ours::{name} == theirs::{name});")
    for name in aliases:
        checks.append(f"const _: usize = align_of::<ours::{name}>();")

    project = SCRATCH / "ours"
    dependency = f'ours = {{ package = "foundationdb-sys", path = "{ROOT / "sys"}", features = ["fdb-{version}"] }}'
    write_project(project, dependency, "\n".join(checks) + "\n")
    (project / "src" / "theirs.rs").write_text(theirs)
    done = subprocess.run(
        ["cargo", "check", "--quiet", "--target-dir", "target"],
        cwd=project,
        capture_output=True,
        text=True,
    )
    problems = done.stderr.splitlines() if done.returncode else []
    if not functions or not constants:
        problems.append(
            "expected functions and constants in the generated bindings, found none: has bindgen changed?"
        )
    declared = len(functions)
    expected = sum(
        1
        for row in (ROOT / "sys" / "symbols.csv").read_text().splitlines()[1:]
        if within(row.split(",")[2], version)
    )
    if declared != expected:
        problems.append(
            f"expected {expected} functions, as symbols.csv says, found {declared} in the header"
        )
    return problems


def split_fields(fields):
    """The fields of a struct; a comma inside a function's parameters does not end one."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(fields):
        depth += character in "(<["
        depth -= character in ")]" or (character == ">" and fields[index - 1] != "-")
        if character == "," and depth == 0:
            parts.append(fields[start:index])
            start = index + 1
    found = (re.match(r"\s*pub (\w+): (.*)", part) for part in parts)
    return [match.groups() for match in found if match]


def within(versions, version):
    """Whether a range such as `510-600` or `730-` holds a version such as `6_1`."""
    if not versions:
        return False
    first, last = versions.split("-")
    number = int(version.replace("_", "")) * 10
    return int(first) <= number <= int(last or number)


def write_project(project, dependency, source):
    (project / "src").mkdir(parents=True, exist_ok=True)
    (project / "src" / "lib.rs").write_text(source)
    (project / "Cargo.toml").write_text(
        f'[package]\nname = "{project.name}-bindings"\nversion = "0.0.0"\nedition = "2024"\n\n[workspace]\n\n[dependencies]\n{dependency}\n'
    )


if __name__ == "__main__":
    main()
