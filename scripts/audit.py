"""Ask pip-audit for known vulnerabilities of what the package depends on, at most once a day. Part of `make lint`.

It fails for a vulnerability in a dependency of the published package; one in a tool of development is told only. Where
the data cannot be reached, it says so loudly and does not fail: a lint must work offline.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

STAMP = Path(sys.prefix, ".audited")
HOUR, DAY = 3_600, 86_400
PATIENCE = 60
NOT_DONE = "*** NOT AUDITED: {} ***\n    So nobody has looked for known vulnerabilities in what Leasehold depends on.\n"


def main() -> int:
    """Audit what is installed here; 1 if a dependency of the package is vulnerable."""
    said = STAMP.read_text() if STAMP.exists() else ""
    if STAMP.exists() and STAMP.stat().st_mtime > time.time() - (HOUR if said else DAY):
        sys.stderr.write(said)
        return 0
    try:
        found, unknown = audited()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return not_done(f"pip-audit did not answer ({type(error).__name__})")
    ours = dependencies("leasehold")
    for name, ids in sorted(found.items()):
        print(f"{name}: {', '.join(ids)}" + ("" if name in ours else " (a tool of development)"), file=sys.stderr)
    if ours & found.keys():
        return 1
    if ours & unknown:
        return not_done("the data about packages cannot be reached from here")
    STAMP.write_text("")
    return 0


def not_done(why: str) -> int:
    """Say loudly that nothing was audited, and again at each lint; try anew after an hour."""
    STAMP.write_text(NOT_DONE.format(why))
    sys.stderr.write(STAMP.read_text())
    return 0


def audited() -> tuple[dict[str, list[str]], set[str]]:
    """Return the vulnerabilities of each package that has some, and the packages that nothing is known of."""
    words = [sys.executable, "-m", "pip_audit", "--local", "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    told: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    found = {normal(each["name"]): [bug["id"] for bug in each["vulns"]] for each in told if each.get("vulns")}
    return found, {normal(each["name"]) for each in told if "skip_reason" in each}


def dependencies(package: str) -> set[str]:
    """Return what is installed here because of this package and its extras."""
    seen: set[str] = set()
    todo = {package}
    while todo:
        name = todo.pop()
        try:
            needed = requires(name) or []
        except PackageNotFoundError:
            continue  # for another system or another Python
        seen.add(name)
        needed = [each for each in needed if name == package or "extra ==" not in each]
        todo |= {normal(re.split(r"[^\w.-]", each, maxsplit=1)[0]) for each in needed} - seen
    return seen - {package}


def normal(name: str) -> str:
    """Return the one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
