#!/usr/bin/env python3
"""Sees that what the pages show is tried by something, and that they take Shaketable from one place.

A comment before every block of every page says what becomes of it. A block without one is an error.

    <!-- write: …, append: …, run, shown -->    docs/walk.py follows it, outside of the repository
    <!-- sample: …, clone, usage -->            docs/samples.py runs it in the clone, or parses it
    <!-- tried by PATH as NAME -->              that program takes the block by this name and runs it
    <!-- in PATH -->                            that file has the same lines, and is tested
    <!-- drawing -->                            nothing to run
    <!-- not run: REASON -->                    cannot be run here

The place from which Shaketable is taken is the key `repository` of the workspace's Cargo.toml. As
long as it is empty the pages assume a clone beside the reader's crate; once it is filled in, they name
the address. (`cargo shaketable new` and `init` write their lines by the same key.)

    docs/pages.py             says what is wrong
    docs/pages.py --write     rewrites the lines that name another place
"""

import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "sys/README.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
]
BLOCK = re.compile(r"^```[^\n]*\n(?P<text>.*?)^```$", re.M | re.S)
MARK = re.compile(r"<!-- (?P<mark>(?:(?!-->).)*?) -->\n\n\Z")
FOLLOWED = re.compile(r"((write|append|sample): .+|(run|clone)(: fails)?|shown(: .+)?|usage(: .+)?|drawing|not run: .+)\Z")
TRIED = re.compile(r"tried by (?P<program>\S+) as (?P<name>\S+)\Z")
IN_FILE = re.compile(r"in (?P<file>\S+)\Z")
CLONE = "../shaketable"
# A dependency in a manifest, `cargo add` or `cargo install`, each in both forms.
IN_MANIFEST = re.compile(r'^(?P<crate>shaketable[\w-]*|foundationdb-sys) = \{ (?:path|git) = "[^"]*"', re.M)
IN_COMMAND = re.compile(
    r"^cargo (?P<verb>add|install)(?P<options>(?: --(?:dev|locked))*) "
    r"(?:--path \.\./shaketable/crates/(?P<crate>[\w-]+)|--git \S+ (?P<package>[\w-]+))",
    re.M,
)


def manifest_line(found, address):
    crate = found["crate"]
    folder = "sys" if crate == "foundationdb-sys" else f"crates/{crate}"
    place = f'git = "{address}"' if address else f'path = "{CLONE}/{folder}"'
    return f"{crate} = {{ {place}"


def command_line(found, address):
    crate = found["crate"] or found["package"]
    place = f"--git {address} {crate}" if address else f"--path {CLONE}/crates/{crate}"
    return f"cargo {found['verb']}{found['options']} {place}"


def blocks(page):
    """The blocks of a page: the number of the line, the mark before it or nothing, and the text."""
    document = page.read_text()
    for found in BLOCK.finditer(document):
        mark = MARK.search(document, 0, found.start())
        yield document.count("\n", 0, found.start()) + 1, mark and mark["mark"], found["text"]


def snippet(page, name):
    """The block that a program tries by this name."""
    for _, mark, text in blocks(ROOT / page):
        tried = TRIED.match(mark or "")
        if tried and tried["name"] == name:
            return text
    raise SystemExit(f"{page}: no block is to be tried as {name}")


def plain(text):
    return " ".join(text.split())


def untried(page, mark, text):
    """Why a block is not tried by what its mark names."""
    if mark is None:
        return "nothing says what becomes of this block: docs/pages.py lists the marks"
    if tried := TRIED.match(mark):
        program = ROOT / tried["program"]
        source = program.read_text() if program.is_file() else ""
        if str(page.relative_to(ROOT)) not in source or f'"{tried["name"]}"' not in source:
            return f"{tried['program']} does not try {tried['name']} of this page"
    elif there := IN_FILE.match(mark):
        file = ROOT / there["file"]
        if not file.is_file() or plain(text) not in plain(file.read_text()):
            return f"{there['file']} does not have these lines"
    elif not FOLLOWED.match(mark):
        return f"the mark {mark!r} means nothing"
    return None


def main():
    write = sys.argv[1:] == ["--write"]
    address = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["repository"]
    wrong = counted = 0
    for page in PAGES:
        before = page.read_text()
        after = IN_MANIFEST.sub(lambda found: manifest_line(found, address), before)
        after = IN_COMMAND.sub(lambda found: command_line(found, address), after)
        pairs = zip(before.splitlines(), after.splitlines(), strict=True)
        for number, (old, new) in enumerate(pairs, 1):
            if old != new and not write:
                wrong += 1
                print(f"{page.relative_to(ROOT)}:{number}: {old}\n    should be: {new}")
        if "{ …" in before or "<this repository>" in before:
            wrong += 1
            print(f"{page.relative_to(ROOT)}: a dependency that cannot be pasted")
        if write:
            page.write_text(after)
        for number, mark, text in blocks(page):
            counted += 1
            if because := untried(page, mark, text):
                wrong += 1
                print(f"{page.relative_to(ROOT)}:{number}: {because}")
    listed = set(re.findall(r"\]\((.*?)\)", (ROOT / "docs/SUMMARY.md").read_text()))
    there = {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")} - {"SUMMARY.md"}
    for page in sorted(listed ^ there):
        wrong += 1
        print(f"docs/SUMMARY.md: {page} is {'not there' if page in listed else 'not in the book'}")
    print(f"pages: {len(PAGES)}, with {counted} blocks; {wrong} problems")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
