#!/usr/bin/env python3
"""May everything that is compiled become part of this product?

Holds the dependencies to deny.toml: each has a licence that is allowed there, there is one version
of each (or the other one is listed, with its reason), none takes whatever version is newest, and
all of them come from crates.io. What only tests need is left out, as it is not part of the
product; what only other targets need is, too.

`cargo deny check licenses bans sources` asks the same, and .github/workflows/ci.yml runs it, with
the known vulnerabilities besides. Building that program takes longer than anything else that CI
would have to install, for questions that `cargo metadata` answers. This is stricter in two things:
a licence that is found in a file alone is none, and what deny.toml lists in vain is an error.
"""

import collections
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
KNOWN = {
    "graph": {"targets", "all-features"},
    "advisories": {"unmaintained", "yanked"},
    "licenses": {"allow"},
    "bans": {"multiple-versions", "wildcards", "allow-wildcard-paths", "skip"},
    "sources": {"unknown-registry", "unknown-git"},
}


def main():
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    packages = {}
    for target in rules["graph"]["targets"]:
        packages |= compiled(target)
    packages = sorted(packages.values(), key=lambda package: (package["name"], package["version"]))
    problems = [
        *unknown(rules),
        *licences(packages, rules["licenses"]["allow"]),
        *versions(packages, rules["bans"]["skip"]),
        *wildcards(packages),
        *sources(packages),
    ]
    for problem in problems:
        print(f"error: {problem}")
    print(f"{len(packages)} crates, {len(problems)} problems")
    sys.exit(1 if problems else 0)


def compiled(target):
    """The packages that are compiled for a target with all features, but for tests alone, by id."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    command += ["--filter-platform", target]
    metadata = json.loads(subprocess.check_output(command, cwd=ROOT))
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting, found = list(metadata["workspace_members"]), set()
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        for dependency in nodes[one]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    return {package["id"]: package for package in metadata["packages"] if package["id"] in found}


def unknown(rules):
    """What is written in deny.toml and not looked at here."""
    for table, keys in rules.items():
        for key in keys:
            if key not in KNOWN.get(table, ()):
                yield f"deny.toml has `{table}.{key}`, which only cargo-deny knows"
    for table, key in ("bans", "multiple-versions"), ("bans", "wildcards"), ("sources", "unknown-registry"), ("sources", "unknown-git"):
        if rules[table][key] != "deny":
            yield f"deny.toml has another `{table}.{key}` than `deny`, which only cargo-deny knows"


def licences(packages, allowed):
    used = set()
    for package in packages:
        name = f"{package['name']} {package['version']}"
        expression = package["license"]
        if not expression:
            yield f"{name} says no licence in its manifest"
        elif not permits(expression, allowed, used):
            yield f"{name} has the licence {expression}; deny.toml allows {', '.join(allowed)}"
    for licence in sorted(set(allowed) - used):
        yield f"deny.toml allows {licence}, which no crate wants"


def permits(expression, allowed, used):
    """Whether the licences that are allowed satisfy an SPDX expression; `used` gets those of them
    that it names."""
    # Old manifests have a slash for `OR`.
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def any_of():
        good = all_of()
        while words and words[0] == "OR":
            words.pop(0)
            good = all_of() or good
        return good

    def all_of():
        good = one()
        while words and words[0] == "AND":
            words.pop(0)
            good = one() and good
        return good

    def one():
        word = words.pop(0)
        if word == "(":
            good = any_of()
            words.pop(0)
            return good
        # With an exception it is another licence, to be allowed by its whole name.
        if words and words[0] == "WITH":
            word = f"{word} WITH {words[1]}"
            del words[:2]
        if word in allowed:
            used.add(word)
        return word in allowed

    return any_of() and not words


def versions(packages, skipped):
    """Crates of which two versions are compiled."""
    found = collections.defaultdict(list)
    unused = [skip["crate"] for skip in skipped]
    for package in packages:
        name, version = package["name"], package["version"]
        listed = [skip["crate"] for skip in skipped if covers(skip["crate"], name, version)]
        unused = [skip for skip in unused if skip not in listed]
        found[name] += [] if listed else [version]
    for name, several in found.items():
        if len(several) > 1:
            yield f"{name} is compiled in {len(several)} versions: {', '.join(several)}"
    for skip in unused:
        yield f"deny.toml lists {skip}, which is not compiled"


def covers(crate, name, version):
    """Whether `name@0.6` or `name` means a version."""
    listed, _, wanted = crate.partition("@")
    return listed == name and (not wanted or version == wanted or version.startswith(f"{wanted}."))


def wildcards(packages):
    """Dependencies that take whatever version is newest. A crate that is never published may have
    them in this workspace, and so may the tests of any other."""
    for package in packages:
        for dependency in package["dependencies"]:
            is_here = "path" in dependency and (package["publish"] == [] or dependency["kind"] == "dev")
            if dependency["req"] == "*" and not is_here:
                yield f"{package['name']} depends on any version of {dependency['name']}"


def sources(packages):
    for package in packages:
        if package["source"] not in (None, CRATES_IO):
            yield f"{package['name']} {package['version']} comes from {package['source']}"


if __name__ == "__main__":
    main()
