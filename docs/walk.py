#!/usr/bin/env python3
"""Follows the documents as a stranger would: from a folder outside the repository, word for word.

A comment before a block says what a reader does with it:

    <!-- write: tickets/src/lib.rs -->       the block is that file
    <!-- append: tickets/Cargo.toml -->      the block is added to the end of that file
    <!-- run -->                             the block is typed into a shell; every line must succeed
    <!-- run: fails -->                      the same, but its last line must fail
    <!-- shown: from TEXT | until TEXT -->   the block is what that printed, from the first line that
                                             begins with TEXT to the line before another such line

A page begins in a folder that is empty but for a clone of this repository under the name
`shaketable` (a link to this one). The shell stays where it was between two blocks. A page that begins
where the one before ends says so with `<!-- after: 1-first-workload.md -->`.

    docs/walk.py                     all pages
    docs/walk.py README.md           one of them
    docs/walk.py --write [PAGE…]     writes what was printed into the pages
    docs/walk.py --program DIR       takes the program from there and leaves out `cargo install`

The folder is always the same one and the compiler's results are kept below target/conformance/pages,
so that one walk after another is quick: to cargo, a crate in another place is another crate. The suites
conformance/new and conformance/workload-api have the clone in the same place.
"""

import argparse
import difflib
import fcntl
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRATCH = ROOT / "target/conformance/pages"
COLUMNS = 100
STEP = re.compile(
    r"<!-- (?P<verb>write|append|run|shown)(?:: (?P<what>.*?))? -->\n\n```(?P<kind>\w*)\n(?P<text>.*?)```", re.S
)
AFTER = re.compile(r"<!-- after: (?P<page>.*?) -->")


class Walk:
    """A reader: a folder, a place in it, and what was printed last."""

    def __init__(self, folder, program):
        self.folder = folder
        self.program = program
        self.begin()

    def begin(self):
        """Forgets all that was done."""
        if self.folder.exists():
            if not (self.folder / "shaketable").is_symlink():
                raise SystemExit(f"walk: {self.folder} is not a folder of mine")
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        (self.folder / "shaketable").symlink_to(ROOT)
        self.here = self.folder
        self.printed = []

    def path(self, name):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def environment(self):
        programs = self.program or SCRATCH / "installed/bin"
        return os.environ | {
            "CARGO_TARGET_DIR": str(SCRATCH),
            "CARGO_INSTALL_ROOT": str(SCRATCH / "installed"),
            "CARGO_TERM_COLOR": "never",
            "NO_COLOR": "1",
            "PATH": f"{programs}:{os.environ['PATH']}",
        }

    def run(self, script, must_fail):
        """Types lines into a shell, with a terminal of 100 columns as its standard output."""
        if self.program:
            script = "".join(line for line in script.splitlines(True) if not line.startswith("cargo install"))
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
        # The versions that everything else here is tested with.
        lock = 'cargo() { [ -f Cargo.toml ] && [ ! -f Cargo.lock ] && cp "$LOCK" .; command cargo "$@"; }'
        place = self.folder / ".place"
        with tempfile.TemporaryFile() as complaints:
            process = subprocess.Popen(
                ["bash", "-ec", f"{lock}\ntrap 'pwd >{place}' EXIT\n{script}"],
                cwd=self.here,
                env=self.environment() | {"LOCK": str(ROOT / "Cargo.lock")},
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=complaints,
            )
            os.close(theirs)
            text = b""
            while True:
                try:
                    read = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                if not read:
                    break
                text += read
            failed = process.wait() != 0
            complaints.seek(0)
            complaint = complaints.read().decode()
        self.here = pathlib.Path(place.read_text().strip())
        text = text.decode().replace("\r\n", "\n").replace(str(SCRATCH), "target")
        # A reader has folders of other names.
        self.printed = text.replace(f"{self.here}/", "").replace(f"{self.folder}/", "").splitlines()
        if failed != must_fail:
            wanted = "fail" if must_fail else "succeed"
            sys.stdout.write(f"{text}\n{complaint}\n")
            raise SystemExit(f"walk: this was expected to {wanted}:\n{script}")

    def shown(self, cuts):
        lines = [line.rstrip() for line in self.printed]
        for cut in filter(None, (cuts or "").split(" | ")):
            kind, text = cut.split(" ", 1)
            found = next((at for at, line in enumerate(lines) if line.startswith(text)), None)
            if found is None:
                print("\n".join(lines))
                raise SystemExit(f"walk: no line that was printed begins with {text!r}")
            lines = lines[found:] if kind == "from" else lines[:found]
        while lines and not lines[-1]:
            lines.pop()
        return "".join(f"{line}\n" for line in lines)


def follow(page, walk, write):
    """Follows a page; returns how many of its blocks show what was not printed."""
    wrong = 0

    def step(found):
        nonlocal wrong
        verb, what, text = found["verb"], found["what"], found["text"]
        if verb == "write":
            walk.path(what).write_text(text)
        elif verb == "append":
            with walk.path(what).open("a") as file:
                file.write("\n" + text)
        elif verb == "run":
            print(f"{page.relative_to(ROOT)}: {'; '.join(text.splitlines())[:100]}", flush=True)
            walk.run(text, must_fail=what == "fails")
        else:
            now = walk.shown(what)
            if now != text and not write:
                wrong += 1
                print(f"{page.relative_to(ROOT)}: something else is printed")
                diff = difflib.unified_diff(text.splitlines(True), now.splitlines(True), "shown", "printed")
                sys.stdout.writelines(diff)
            start, end = (at - found.start() for at in found.span("text"))
            return found[0][:start] + now + found[0][end:]
        return found[0]

    document = page.read_text()
    renewed = STEP.sub(step, document)
    if write and renewed != document:
        page.write_text(renewed)
        print(f"{page.relative_to(ROOT)}: written")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pages", nargs="*", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--program", type=pathlib.Path)
    folder = pathlib.Path(tempfile.gettempdir()) / "shaketable-walk"
    parser.add_argument("--folder", type=pathlib.Path, default=folder)
    arguments = parser.parse_args()
    # Chapter 10 comes after chapter 9.
    in_order = sorted(ROOT.glob("docs/**/*.md"), key=lambda page: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(page))])
    pages = arguments.pages or [ROOT / "README.md", *in_order]
    pages = [page.resolve() for page in pages if STEP.search(page.read_text())]
    program = arguments.program and arguments.program.resolve()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    wrong, before = 0, None
    walk = Walk(arguments.folder.resolve(), program)
    for page in pages:
        after = AFTER.search(page.read_text())
        if after and before != page.parent / after["page"]:
            parser.error(f"{page} goes on where {after['page']} ends: name both, in this order")
        if not after:
            walk.begin()
        wrong += follow(page, walk, arguments.write)
        before = page
    shutil.rmtree(walk.folder)
    print(f"walk: {len(pages)} pages, {wrong} blocks differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
