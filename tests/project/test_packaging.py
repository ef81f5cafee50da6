"""The names that users' files and programs use, and the list of what is compiled, stay true when modules move."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib

import pytest

from tests.compiled.test_compiled import PARTS
from tests.kit import selection
from tests.kit.shell import PATIENCE, ROOT

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COMPILED = SETTINGS["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]


@pytest.mark.parametrize(
    "module",
    ["errors", "fencing", "flow", "tracing", "locks.aio", "locks.sync", "testing.checker", "testing.conformance"],
)
def test_a_module_that_users_import_keeps_its_name(module: str) -> None:
    importlib.import_module(f"leasehold.{module}")


@pytest.mark.parametrize("module", ["leasehold", "leasehold.cli", "leasehold.demo"])
def test_a_module_that_users_run_keeps_its_name(module: str) -> None:
    subprocess.run([sys.executable, "-m", module, "--help"], check=True, capture_output=True, timeout=PATIENCE)


@pytest.mark.parametrize("script", SETTINGS["project"]["scripts"].values())
def test_a_command_that_is_installed_leads_to_a_function(script: str) -> None:
    module, _, function = script.partition(":")
    assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize("pattern", [*COMPILED["include"], *COMPILED["exclude"]])
def test_a_path_on_the_list_of_what_is_compiled_is_there(pattern: str) -> None:
    assert list(ROOT.glob(pattern)), "it was moved or removed: without this test it would just not be compiled any more"


def test_no_compiled_module_declares_a_noun() -> None:
    """mypyc would have each one-shot command import `typing`, which takes longer than its transaction."""
    compiled = {path for pattern in COMPILED["include"] for path in ROOT.glob(pattern)}
    compiled -= {path for pattern in COMPILED["exclude"] for path in ROOT.glob(pattern)}
    assert [path.name for path in compiled if "(Noun)" in path.read_text("utf-8")] == []


@pytest.mark.parametrize("part", PARTS)
def test_a_file_that_is_run_against_the_compiled_package_is_there(part: str) -> None:
    paths = [word.removeprefix("--ignore=") for word in PARTS[part] if "tests/" in word]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_make_check_runs_nothing_that_starts_a_server() -> None:
    reasons = {file.relative_to(ROOT).as_posix(): selection.why_left_out(file) for file in selection.files()}
    assert reasons["tests/server/test_routes.py"] == "a server"
    assert reasons["tests/stores/postgres/test_conformance.py"] == "PostgreSQL"
    assert reasons["tests/domain/test_promises.py"] is None
    assert [name for name in selection.LONG if name not in reasons] == [], "moved or removed"
    assert [name for name in selection.FOLDERS if not (ROOT / name).is_dir()] == [], "moved or removed"
