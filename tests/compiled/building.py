"""The compiled wheel, built as `make wheel` does it, with what the group `dev` has installed. No tests in here.

`python -m tests.compiled.building FOLDER` builds one into that folder; `… FOLDER PYTHON` builds it for that Python, for
which pip fetches what it takes if it is another one; `--can` only says whether that is possible here. It is built from
the source distribution, in a temporary folder: the build hook leaves what it has compiled beside the sources, where
Python would go on to prefer it to whatever is edited later.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENABLE = {"HATCH_BUILD_HOOKS_ENABLE": "1"}
BUILDING = 600
"""How long it may take, in seconds."""


def hindrance() -> str | None:
    """Why nothing can be compiled here; None: it can be."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler here ({compiler}; on Debian or Ubuntu: apt install gcc, or name one in CC)"
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists():
        return f"the headers of this Python are not installed ({header}; on Debian or Ubuntu: apt install python3-dev)"
    return None


def build(folder: Path, python: str = sys.executable) -> Path:
    """The compiled wheel of these sources for this Python, in that folder."""
    with tempfile.TemporaryDirectory() as made:
        _run(made, sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", made)
        (archive,) = Path(made).glob("*.tar.gz")
        how = ["--no-deps", "--quiet", "--disable-pip-version-check", "--wheel-dir", made]
        if os.path.realpath(python) == os.path.realpath(sys.executable):  # all that it takes is here
            python = sys.executable
            how += ["--no-build-isolation", "--no-index"]
        _run(made, python, "-m", "pip", "wheel", *how, str(archive))
        (wheel,) = Path(made).glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(wheel, folder))


def _run(temporary: str, *words: str) -> None:
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, **ENABLE, "TMPDIR": temporary},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILDING,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"could not build the compiled wheel:\n{done.stdout}")


def main() -> int:
    """What `make wheel` and `make bench` ask for."""
    why_not = hindrance()
    if why_not is not None:
        print(f"Leasehold cannot be compiled: {why_not}.", file=sys.stderr)
        return 1
    if sys.argv[1] != "--can":
        print("Compiling; this takes about a minute ...", file=sys.stderr)
        print(build(Path(sys.argv[1]), *sys.argv[2:]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
