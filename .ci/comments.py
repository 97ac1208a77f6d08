#!/usr/bin/env python3
"""Keeps the comments of Rust sources within a hundred columns.

    .ci/comments.py            lists the lines that are longer, and fails if there are any
    .ci/comments.py --write    moves the words that do not fit to the next line

rustfmt does neither on its stable channel. Tables and code inside of comments are left alone.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = 100
COMMENT = re.compile(r"( *//[/!]?) ?(.*)")
ITEM = re.compile(r"(?:[*-]|\d+\.) +")
# What continues no paragraph.
APART = re.compile(r"$|[*#|>-]|\d+\. |```|\[[^\]]+\]:")


def main():
    listed = subprocess.run(["git", "ls-files", "*.rs"], cwd=ROOT, capture_output=True, text=True, check=True)
    long = 0
    for name in listed.stdout.splitlines():
        path = ROOT / name
        lines = path.read_text().split("\n")
        if "--write" in sys.argv:
            wrapped = wrap(lines)
            if wrapped != lines:
                path.write_text("\n".join(wrapped))
                lines = wrapped
        for number in too_long(lines):
            print(f"{name}:{number + 1}: {len(lines[number])} columns", file=sys.stderr)
            long += 1
    if long:
        sys.exit(f"{long} comments are longer than {COLUMNS} columns: .ci/comments.py --write wraps them")


def too_long(lines):
    """The numbers of the lines that are too long and could be broken."""
    in_code = False
    for number, line in enumerate(lines):
        comment = COMMENT.fullmatch(line)
        text = comment[2] if comment else ""
        if text.lstrip().startswith("```"):
            in_code = not in_code
        in_code = in_code and comment is not None
        if comment and len(line) > COLUMNS and not in_code and not text.startswith("|") and " " in text.strip():
            yield number


def wrap(lines):
    lines = list(lines)
    while (number := next(breakable(lines), None)) is not None:
        prefix, text = COMMENT.fullmatch(lines[number]).groups()
        text = text.rstrip()
        indent = re.match(" *", text)[0]
        item = ITEM.match(text.lstrip())
        hanging = indent + " " * (len(item[0]) if item else 0)
        room = COLUMNS - len(prefix) - 1
        at = text.rfind(" ", len(hanging), room + 1)
        lines[number] = f"{prefix} {text[:at].rstrip()}"
        rest = text[at:].strip()
        following = COMMENT.fullmatch(lines[number + 1]) if number + 1 < len(lines) else None
        goes_on = (
            following is not None
            and following[1] == prefix
            and re.match(" *", following[2])[0] == hanging
            and not APART.match(following[2].lstrip())
        )
        if goes_on:
            lines[number + 1] = f"{prefix} {hanging}{rest} {following[2].lstrip()}"
        else:
            lines.insert(number + 1, f"{prefix} {hanging}{rest}")
    return lines


def breakable(lines):
    """Those lines that are too long and have a place to be broken at."""
    for number in too_long(lines):
        prefix, text = COMMENT.fullmatch(lines[number]).groups()
        item = ITEM.match(text.lstrip())
        start = len(text) - len(text.lstrip()) + (len(item[0]) if item else 0)
        if text.rfind(" ", start, COLUMNS - len(prefix)) > start:
            yield number


if __name__ == "__main__":
    main()
