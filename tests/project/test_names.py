"""A class name has one meaning in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "leasehold"
TOPICS = "testing/conformance/"
"""The classes of the published conformance suite are named for their topics, as `Waiting` and `Sessions` are."""
EXCEPTIONS: dict[str, str] = {}
"""Names with two meanings, each with the reason."""


def classes() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        names = {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)}
        for name in names if not file.startswith(TOPICS) else ():
            found[name].append(file)
    return found


def test_a_class_name_has_one_meaning() -> None:
    several = {name: files for name, files in classes().items() if len(files) > 1}
    assert several.keys() == EXCEPTIONS.keys(), {name: several.get(name) for name in several.keys() ^ EXCEPTIONS.keys()}
