#!/usr/bin/env python3
"""Can every crate that is meant to be published be packaged?

A crate is meant to be published unless its manifest says `publish = false`. Each of those must
say what a registry shows of it, must depend on its neighbours by version too, and must not depend
on what is never published. Then cargo packs them all, against each other, as `cargo publish
--workspace` would; what it packs is under target/package. With `--verify` cargo also builds each
one from its package (minutes).

`shaketable` itself is packed but not built: from its package it uses the published
`foundationdb-sys`, which wants libclang.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHOWN = ["description", "license", "readme", "keywords", "categories"]


def main():
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    packages = json.loads(subprocess.check_output(command, cwd=ROOT))["packages"]
    published = [package for package in packages if package["publish"] != []]
    problems = [problem for package in published for problem in look(package, published)]
    for problem in problems:
        print(f"error: {problem}")
    if problems:
        sys.exit(1)
    names = [package["name"] for package in published]
    pack(names, verify=False)
    if "--verify" in sys.argv[1:]:
        pack([name for name in names if name != "shaketable"], verify=True)
    print(f"{len(names)} crates can be published: {', '.join(names)}")
    if not all(package["repository"] for package in published):
        print("note: `repository` in Cargo.toml is empty; fill it in before publishing")


def look(package, published):
    name = package["name"]
    for field in SHOWN:
        if not package[field]:
            yield f"{name} has no `{field}`"
    for dependency in package["dependencies"]:
        if "path" not in dependency or dependency["kind"] == "dev":
            continue
        if dependency["req"] == "*":
            yield f"{name} depends on {dependency['name']} without a version"
        if dependency["name"] not in [other["name"] for other in published]:
            yield f"{name} depends on {dependency['name']}, which is not published"


def pack(names, verify):
    command = ["cargo", "package", "--quiet", "--allow-dirty", *([] if verify else ["--no-verify"])]
    for name in names:
        command += ["-p", name]
    done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)


if __name__ == "__main__":
    main()
