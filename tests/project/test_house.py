"""The house rules that a program can check: sizes, names, and no looking for what may be there."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PACKAGE = TESTS.parent / "src" / "leasehold"
FILES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
LINES_MOST = 400
FUNCTION_MOST = 45
"""Lines of a function without its docstring."""
OTHER_TESTS = {"acceptance", "compiled", "faults", "fuzzing", "mutants", "project", "typed", "whole"}
"""Folders of tests that concern no single room."""
REFUSED_NAMES = {"manager", "utils", "helpers", "base", "common"}


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}


def calls_of(tree: ast.AST, function: str) -> list[ast.Call]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == function]


def test_no_file_is_long() -> None:
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in FILES.items()}
    assert {name: count for name, count in lines.items() if count > LINES_MOST} == {}


def test_no_function_is_long() -> None:
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                length = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
                assert length <= FUNCTION_MOST, f"{name}:{node.lineno} {node.name} has {length} lines"


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [name for name in FILES if REFUSED_NAMES & set(name.removesuffix(".py").split("/"))] == []


def test_no_attribute_is_looked_for() -> None:
    for name, tree in trees().items():
        assert not calls_of(tree, "hasattr"), name
        assert all(len(call.args) == 2 for call in calls_of(tree, "getattr")), name


def test_only_the_engine_extends_its_requests() -> None:
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not name.startswith("engine/"):
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                assert not bases & {"Pending", "Engine", "Inbox"}, f"{name}: {node.name}"


def test_every_room_has_its_tests() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    tested = {path.name for path in TESTS.iterdir() if any(path.glob("**/test_*.py"))}
    assert rooms - tested == set()
    assert tested - rooms == OTHER_TESTS
