"""Gets the sources of a published crate, as crates.io gives them to its users, into target/.
Nothing of them is kept here."""

import json
import shutil
import subprocess
from pathlib import Path


def sources(name, version, folder, manifest_end="\n[workspace]\n", features=("fdb-7_4",)):
    """A copy of the crate in `folder`, the same but for what is added at the end of its
    manifest."""
    wanted = ", ".join(f'"{feature}"' for feature in features)
    fetcher = folder / "fetch"
    (fetcher / "src").mkdir(parents=True, exist_ok=True)
    (fetcher / "src" / "lib.rs").write_text("")
    (fetcher / "Cargo.toml").write_text(
        '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2024"\n\n[workspace]\n\n[dependencies]\n'
        f'{name} = {{ version = "={version}", features = [{wanted}] }}\n'
    )
    metadata = subprocess.run(
        ["cargo", "metadata", "--format-version=1", "--quiet"],
        cwd=fetcher,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    ).stdout
    (package,) = (each for each in json.loads(metadata)["packages"] if each["name"] == name)
    copy = folder / f"{name}-{version}"
    if not copy.exists():
        # Modification times are kept, so that a second run finds everything built.
        shutil.copytree(
            Path(package["manifest_path"]).parent, copy, ignore=shutil.ignore_patterns("Cargo.lock")
        )
        with open(copy / "Cargo.toml", "a") as manifest:
            manifest.write(manifest_end)
    return copy
