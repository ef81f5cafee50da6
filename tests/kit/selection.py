"""Choose the test files that `make check` runs, and the order in which `make test` begins them. No tests in here.

`python -m tests.kit.selection` prints the files of `make check`; with `--left-out` it prints what was not run, and why.
A file belongs to `make check` unless it is in one of `FOLDERS`, is one of `LONG`, or imports what starts a server.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {
    "tests/acceptance": "whole stories in many processes",
    "tests/compiled": "the compiled wheel",
    "tests/faults": "kills and cut connections",
    "tests/mutants": "planted bugs",
    "tests/stores/git": "thousands of runs of git",
    "tests/whole": "a fresh clone",
}
"""Left out as a whole, and for what reason."""
STARTS = {
    "leasehold.testing.etcd": "etcd",
    "leasehold.testing.postgres": "PostgreSQL",
    "tests.kit.browsing": "a browser",
    "tests.kit.etcd": "etcd",
    "tests.kit.postgres": "PostgreSQL",
    "tests.kit.serving": "a server",
    "tests.kit.warm": "a server",
}
"""A file that imports one of these modules, itself or through another file of tests, needs what it starts."""
LONG = (
    "tests/whole/test_fresh_clone.py",
    "tests/whole/test_installing.py",
    "tests/compiled/test_compiled.py",
    "tests/domain/test_small_world.py",
    "tests/routing/test_conformance.py",
    "tests/stores/postgres/test_conformance.py",
    "tests/stores/etcd/test_conformance.py",
    "tests/acceptance/test_conformance_servers.py",
    "tests/stores/git/test_conformance.py",
    "tests/server/test_conformance.py",
    "tests/stores/sqlite/test_conformance.py",
    "tests/guard/effects/test_effects.py",
    "tests/guard/effects/test_between_steps.py",
    "tests/guard/test_git_hooks.py",
    "tests/domain/test_waitgraph.py",
    "tests/guard/test_install.py",
    "tests/stores/sqlite/test_file_modes.py",
    "tests/domain/test_machine.py",
    "tests/domain/test_pool_machine.py",
    "tests/stores/sqlite/test_kills.py",
    "tests/guard/effects/test_pairs.py",
    "tests/typed/test_typed.py",
    "tests/guard/effects/test_ways_round.py",
    "tests/guard/test_git_hooks_merging.py",
    "tests/cli/test_waiting.py",
    "tests/cli/test_streams.py",
    "tests/project/test_examples.py",
    "tests/project/test_published.py",
    "tests/project/test_site.py",
    "tests/stores/sqlite/test_journalled.py",
)
"""The files that take most of a processor's time, from a minute down to 5 s: `make check` leaves them out, and `make
test` begins with them, so that none of them ends alone."""
_IMPORTS = re.compile(r"^\s*from ((?:tests|leasehold\.testing)[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)


@cache
def _imports(file: Path) -> tuple[frozenset[str], frozenset[Path]]:
    """Return what of `STARTS` this file imports by name, and the files of tests that it imports."""
    text = file.read_text(encoding="utf-8")
    modules = {
        module
        for package, names in _IMPORTS.findall(text)
        for module in (package, *(f"{package}.{name}" for name in re.findall(r"\w+", names)))
    }
    within = {ROOT / f"{module.replace('.', '/')}.py" for module in modules - STARTS.keys()}
    return frozenset(STARTS[module] for module in modules & STARTS.keys()), frozenset(filter(Path.is_file, within))


def needs(file: Path) -> set[str]:
    """Return what the tests in this file start, directly or through what they import."""
    found, seen, left = set[str](), {file}, [file]
    while left:
        starts, imported = _imports(left.pop())
        found |= starts
        left += imported - seen
        seen |= imported
    return found


def why_left_out(file: Path) -> str | None:
    """Return why `make check` leaves this file out, or None if it runs it."""
    name = file.relative_to(ROOT).as_posix()
    for folder, reason in FOLDERS.items():
        if name.startswith(f"{folder}/"):
            return reason
    started = " and ".join(sorted(needs(file)))
    return started or ("more than 5 s each" if name in LONG else None)


def files() -> list[Path]:
    """Return all files of tests."""
    return sorted((ROOT / "tests").rglob("test_*.py"))


def rank(file: Path) -> int:
    """Return the place of a file in the order in which `make test` begins: the long ones first."""
    name = file.relative_to(ROOT).as_posix()
    return LONG.index(name) if name in LONG else len(LONG)


def main() -> None:
    """Print what `make check` runs, or what it does not."""
    reasons = {file: why_left_out(file) for file in files()}
    if "--left-out" in sys.argv:
        left_out = Counter(reason for reason in reasons.values() if reason is not None)
        print(f"NOT RUN: {left_out.total()} of {len(reasons)} files of tests. `make test` runs them; they need")
        for reason, count in left_out.most_common():
            print(f"  {count:3} {reason}")
    else:
        print(*(file.relative_to(ROOT) for file, reason in reasons.items() if reason is None))


if __name__ == "__main__":
    main()
