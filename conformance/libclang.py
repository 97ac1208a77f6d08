"""Gets libclang for other people's bindgen: from PyPI, into target/, where it harms nobody. Nothing
of ours needs it."""

import os
import subprocess
import venv

from library import SCRATCH


def environment():
    """The environment in which bindgen finds libclang."""
    home = SCRATCH / "libclang"
    if not (home / "bin" / "pip").exists():
        venv.create(home, with_pip=True)
    if not list(libraries(home)):
        subprocess.run([home / "bin" / "pip", "install", "--quiet", "libclang==18.1.1"], check=True)
    (library,) = libraries(home)
    # libclang from PyPI comes without the compiler's own headers.
    headers = subprocess.check_output(["cc", "-print-file-name=include"], text=True).strip()
    return os.environ | {
        "LIBCLANG_PATH": str(library.parent),
        "BINDGEN_EXTRA_CLANG_ARGS": f"-I{headers}",
    }


def libraries(home):
    return home.glob("lib/python*/site-packages/clang/native/libclang.so")
