#!/usr/bin/env python3
"""Checks that what the documents show is what the program prints, and that it knows their commands.

A block of output in a document stands behind a comment with the command that printed it:

    <!-- sample: explain examples/bugs/cleared_receipt.toml --seed 3 -->

The program runs on a terminal of 100 columns, without colour. `| until TEXT` after the command ends the
sample before the first line that begins with TEXT, `| from TEXT` begins it there, and `| file PATH`
shows a file that the command wrote instead of what it printed. Paths are those of the clone.

Other blocks have commands to be typed there:

    <!-- clone -->              every line must succeed; `clone: fails`: every line must end with 100
    <!-- usage: REASON -->      the program must understand every line that calls it; nothing is run

A picture of a terminal is made in the same way, with colours (terminal.py draws it):

    <!-- picture: explain examples/bugs/cleared_receipt.toml --seed 3 | until The story of -->

    ![what is to be seen](docs/guide/pictures/terminal.svg)

The program and the examples must have been built:

    cargo build --release && docs/samples.py

    docs/samples.py             runs the commands and compares
    docs/samples.py --write     writes what they print into the documents
"""

import difflib
import fcntl
import functools
import os
import pathlib
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios

import terminal

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "target/release/shaketable"
COLUMNS = 100
SAMPLE = re.compile(r"<!-- sample: (?P<command>.*?) -->\n\n```(?P<kind>\w*)\n(?P<text>.*?)```", re.S)
COMMANDS = re.compile(r"<!-- (?P<verb>clone|usage)(?:: (?P<what>.*?))? -->\n\n```(?P<kind>\w*)\n(?P<text>.*?)```", re.S)
CALL = re.compile(r"^(?:cargo run --release -- |(?:cargo )?shaketable )(?P<arguments>.*)$", re.M)
# What CI itself does before it comes here.
DONE = {"cargo test"}
PICTURE = re.compile(r"<!-- picture: (?P<command>.*?) -->\n\n!\[[^\]]*\]\((?P<path>[^)]*)\)")


@functools.cache
def printed(arguments, colours=False):
    """What the program prints on a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= {"TERM": "xterm"} if colours else {"NO_COLOR": "1"}
    process = subprocess.Popen(
        [PROGRAM, *arguments, "--no-build"],
        cwd=ROOT,
        env=environment,
        stdout=theirs,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
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
    complaint = process.stderr.read().decode()
    if process.wait() not in (0, 100):
        raise SystemExit(f"samples: shaketable {shlex.join(arguments)} failed:\n{complaint}")
    lines = text.decode().replace("\r\n", "\n").splitlines()
    # The documents call the program by its name, and let it build what it needs.
    by_name = [line.replace(str(PROGRAM), "shaketable") for line in lines]
    return [line.replace(" --no-build", "").rstrip() for line in by_name]


def sample(command, colours=False):
    """The lines of a command, cut as it asks."""
    command, *cuts = [part.strip() for part in command.split("|")]
    lines = printed(tuple(shlex.split(command)), colours)
    for cut in cuts:
        kind, text = cut.split(" ", 1)
        if kind == "file":
            lines = (ROOT / text).read_text().splitlines()
            continue
        plain = [terminal.CODE.sub("", line) for line in lines]
        found = next((at for at, line in enumerate(plain) if line.startswith(text)), None)
        if found is None:
            raise SystemExit(f"samples: no line of `shaketable {command}` begins with {text!r}")
        lines = lines[found:] if kind == "from" else lines[:found]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def calls(block):
    """The arguments of every call of the program in a block, without what follows them."""
    for found in CALL.finditer(block.replace("\\\n", " ")):
        line = os.path.expandvars(found["arguments"])
        # In a list of commands, an explanation stands apart; in a shell, the output goes elsewhere.
        yield shlex.split(re.split(r" {2,}|\s[|>&#]", line)[0])


def complaint_about(verb, what, block):
    """What is wrong with a block of commands."""
    if verb == "usage":
        for arguments in (every := list(calls(block))):
            done = subprocess.run([PROGRAM, *arguments, "--help"], capture_output=True, text=True)
            if done.returncode != 0:
                return f"`shaketable {shlex.join(arguments)}`:\n{done.stderr}"
        return None if every else f"nothing here calls the program:\n{block}"
    for line in block.splitlines():
        if line in DONE:
            continue
        (arguments,) = calls(line)
        wanted = 100 if what == "fails" else 0
        done = subprocess.run([PROGRAM, *arguments, "--no-build"], cwd=ROOT, capture_output=True, text=True)
        if done.returncode != wanted:
            return f"`{line}` ends with {done.returncode}:\n{done.stdout}{done.stderr}"
    return None


def main():
    write = sys.argv[1:] == ["--write"]
    wrong = count = 0
    os.environ |= {"COMMIT": "0123456789abcdef0123456789abcdef01234567"}
    for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]:
        document = path.read_text()

        def renewed(found):
            nonlocal wrong, count
            count += 1
            now = "".join(f"{line}\n" for line in sample(found["command"]))
            if now != found["text"] and not write:
                wrong += 1
                print(f"{path.relative_to(ROOT)}: `shaketable {found['command']}` prints something else")
                sys.stdout.writelines(
                    difflib.unified_diff(
                        found["text"].splitlines(True), now.splitlines(True), "shown", "printed"
                    )
                )
            return found[0].replace(found["text"], now)

        for found in PICTURE.finditer(document):
            count += 1
            command = "shaketable " + found["command"].split("|")[0].strip()
            lines = [f"\x1b[2m$\x1b[0m {command}", *sample(found["command"], colours=True)]
            now = terminal.picture(command, lines, COLUMNS)
            file = path.parent / found["path"]
            if not file.exists() or file.read_text() != now:
                if write:
                    file.write_text(now)
                    print(f"{file.relative_to(ROOT)}: written")
                else:
                    wrong += 1
                    print(f"{file.relative_to(ROOT)} is not what `{command}` prints")

        for found in COMMANDS.finditer(document):
            count += 1
            if complaint := complaint_about(found["verb"], found["what"], found["text"]):
                wrong += 1
                print(f"{path.relative_to(ROOT)}: {complaint}")

        new = SAMPLE.sub(renewed, document)
        if write and new != document:
            path.write_text(new)
            print(f"{path.relative_to(ROOT)}: written")
    print(f"samples: {count}, {wrong} differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
