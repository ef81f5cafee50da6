"""Let a virtual environment work although its path has blanks, is very long or has letters beyond ASCII.

    .venv/bin/python scripts/mend_environment.py

`make` runs this after each installation; where the path is an ordinary one, it changes nothing.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

LAUNCHER = "leasehold"
EDITABLE = "_editable_impl_leasehold.pth"


def mend_launcher(script: Path) -> None:
    """Have /bin/sh start the script's interpreter if the kernel cannot: it splits the first line at blanks.

    pip does so for the scripts of `project.scripts`, but not for one that a wheel brings ready-made, as ours is. To
    Python, the second and third line are a text that nobody uses.
    """
    try:
        started = subprocess.run([script, "--version"], stdout=subprocess.DEVNULL, check=False)
    except OSError:
        pass
    else:
        if started.returncode == 0:
            return
    _, _, program = script.read_text(encoding="utf-8").partition("\n")
    interpreter = sys.executable
    for special in '\\"$`':
        interpreter = interpreter.replace(special, f"\\{special}")
    opening = f"#!/bin/sh\n'''exec' \"{interpreter}\" \"$0\" \"$@\"\n' '''\n"
    script.write_text(opening + program, encoding="utf-8")


def mend_path(file: Path) -> None:
    """Name the sources relative to where this file is: Python before 3.13 reads it as the locale says.

    With `LC_ALL=C`, as in cron, no Python of this environment would start.
    """
    if file.exists() and not file.read_bytes().isascii():
        sources = file.read_text(encoding="utf-8").strip()
        file.write_text(os.path.relpath(sources, file.parent.resolve()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    mend_path(Path(sysconfig.get_path("purelib")) / EDITABLE)
    mend_launcher(Path(sys.executable).with_name(LAUNCHER))
