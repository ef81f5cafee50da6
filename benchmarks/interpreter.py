"""Which Python to measure on: one that was built as distributions and images have it, if there is one here.

A plain `./configure`, as of pyenv, leaves out the optimisation by profile and has every call from an extension into a
shared libpython take a detour; a compiled server then does a fifth less. `python -m benchmarks.interpreter` prints the
path of the one to take: its own, unless that is a plain one and another is not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PATIENCE = 20.0
ROOT = Path(__file__).resolve().parents[1]
# Run by the Python that is asked about. What it needs: to make a virtual environment, and to compile an extension.
_PROBE = """
import ensurepip, json, pathlib, sys, sysconfig, venv
from tests.compiled.building import hindrance
mapped = pathlib.Path("/proc/self/maps")
is_shared = "libpython" in mapped.read_text() if mapped.exists() else bool(sysconfig.get_config_var("Py_ENABLE_SHARED"))
is_tuned = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
print(json.dumps([sys.version_info[:2], is_shared and not is_tuned, hindrance() is None]))
"""
OLDEST = (3, 11)


class Python(NamedTuple):
    """One of them."""

    path: str
    version: tuple[int, ...]
    is_plain: bool
    """Whether it was built without optimisation."""


def ask(path: str) -> Python | None:
    """Return its description, or None if the package could not be compiled with it."""
    try:
        told = subprocess.run(
            [path, "-c", _PROBE], cwd=ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    version, is_plain, can_compile = json.loads(told)
    return Python(path, tuple(version), is_plain) if tuple(version) >= OLDEST and can_compile else None


def choose(own: str, others: Iterable[str], ask: Callable[[str], Python | None] = ask) -> str:
    """Our own, or the first that is better; those of the same version before newer ones."""
    ours = ask(own)
    if ours is None or not ours.is_plain:
        return own
    better = [found for found in map(ask, others) if found is not None and not found.is_plain]
    better.sort(key=lambda found: (found.version != ours.version, found.version))
    return better[0].path if better else own


def others() -> list[str]:
    """Every other Python on the PATH."""
    found = []
    for folder in os.get_exec_path():
        names = ("python3", *(f"python3.{minor}" for minor in range(OLDEST[1], OLDEST[1] + 10)))
        found += [path for path in (shutil.which(name, path=folder) for name in names) if path is not None]
    return list(dict.fromkeys(str(Path(path).resolve()) for path in found))


def base() -> str:
    """The Python behind this virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def main() -> None:
    """Print the interpreter for `make bench`."""
    ours = base()
    chosen = choose(ours, others())
    if chosen != ours:
        print(f"On {chosen}, as {ours} was built without optimisation.", file=sys.stderr)
    print(chosen)


if __name__ == "__main__":
    main()
