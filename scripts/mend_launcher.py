"""Let a script of a virtual environment start although the path of its interpreter has blanks or is very long.

    python scripts/mend_launcher.py .venv/bin/leasehold

The kernel splits the first line of a script at blanks. pip writes the scripts of `project.scripts` so that `/bin/sh`
starts them in such a place, but not those that a wheel brings ready-made, as ours is. This does it for one of those.
"""

import sys
from pathlib import Path


def main(script: Path) -> None:
    """Have /bin/sh run the interpreter: to Python, its line is a text that nobody uses."""
    _, _, program = script.read_text().partition("\n")
    interpreter = str(script.absolute().with_name("python"))
    for special in '\\"$`':
        interpreter = interpreter.replace(special, f"\\{special}")
    script.write_text(f"#!/bin/sh\n'''exec' \"{interpreter}\" \"$0\" \"$@\"\n' '''\n{program}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
