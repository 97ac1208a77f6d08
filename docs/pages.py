#!/usr/bin/env python3
"""Makes every page take Shaketable from the same place, and sees that every page is in the book.

That place is the key `repository` of the workspace's Cargo.toml. As long as it is empty the pages
assume a clone beside the reader's crate; once it is filled in, they name the address. (`cargo
shaketable new` and `init` write their lines by the same key.)

    docs/pages.py             says which lines name another place
    docs/pages.py --write     rewrites them
"""

import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
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


def main():
    write = sys.argv[1:] == ["--write"]
    address = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["repository"]
    wrong = 0
    for page in [ROOT / "README.md", ROOT / "sys/README.md", *sorted(ROOT.glob("docs/**/*.md"))]:
        before = page.read_text()
        after = IN_MANIFEST.sub(lambda found: manifest_line(found, address), before)
        after = IN_COMMAND.sub(lambda found: command_line(found, address), after)
        pairs = zip(before.splitlines(), after.splitlines(), strict=True)
        for number, (old, new) in enumerate(pairs, 1):
            if old != new:
                wrong += 1
                print(f"{page.relative_to(ROOT)}:{number}: {old}\n    should be: {new}")
        if "{ …" in before or "<this repository>" in before:
            wrong += 1
            print(f"{page.relative_to(ROOT)}: a dependency that cannot be pasted")
        if write:
            page.write_text(after)
    listed = set(re.findall(r"\]\((.*?)\)", (ROOT / "docs/SUMMARY.md").read_text()))
    there = {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")} - {"SUMMARY.md"}
    for page in sorted(listed ^ there):
        print(f"docs/SUMMARY.md: {page} is {'not there' if page in listed else 'not in the book'}")
    sys.exit(1 if listed != there or (wrong and not write) else 0)


if __name__ == "__main__":
    main()
