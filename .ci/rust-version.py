#!/usr/bin/env python3
"""Do our dependencies compile with the Rust we declare?

A crate says in its manifest which Rust it needs. `cargo metadata` lists them; none may be newer
than `rust-version` in Cargo.toml. That is half of the proof that our declaration is true on a
machine which has a newer Rust alone. The other half is clippy's `incompatible_msrv`, which knows
since when each function of the standard library exists. Neither sees the syntax of a newer Rust:
a build with the declared one does, in .github/workflows/ci.yml.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = "x86_64-unknown-linux-gnu"


def main():
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
    declared = manifest["workspace"]["package"]["rust-version"]
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    command += ["--filter-platform", TARGET]
    metadata = json.loads(subprocess.check_output(command, cwd=ROOT))
    compiled = {node["id"] for node in metadata["resolve"]["nodes"]}
    packages = [package for package in metadata["packages"] if package["id"] in compiled]
    too_new = [
        package
        for package in packages
        if package["rust_version"] and numbers(package["rust_version"]) > numbers(declared)
    ]
    for package in too_new:
        wanted = package["rust_version"]
        print(f"error: {package['name']} {package['version']} needs Rust {wanted}; we declare {declared}")
    print(f"{len(packages)} crates, {len(too_new)} of them need a newer Rust than {declared}")
    sys.exit(1 if too_new else 0)


def numbers(version):
    return tuple(int(number) for number in version.split("."))[:2]


if __name__ == "__main__":
    main()
