"""The compiled wheel is the same package: what is listed for it is compiled, and it keeps the same promises."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.compiled.building import ROOT, build, hindrance

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

PATIENCE = 600.0
pytestmark = pytest.mark.timeout(2 * PATIENCE)
"""Building takes more than a minute of a processor's time, however many others want it."""
AT_ONCE = 2
"""So many parts run at a time."""
LONG = ("deadlock", "waitgraph", "machine", "small_world")
PARTS = {
    "http": (
        *(f"tests/server/test_{each}.py" for each in ("quick", "batches", "waiting")),
        "tests/client/test_client.py",
    ),
    "rules": ("tests/domain", "tests/requests", *(f"--ignore=tests/domain/test_{each}.py" for each in LONG)),
    "sqlite": ("tests/stores/sqlite/test_conformance.py", "-k", "TestInOneProcess"),
    "postgres": tuple(f"tests/stores/postgres/test_{each}.py" for each in ("journal", "round_trip", "transactions")),
    "imports": ("tests/project/test_imports.py",),
}
"""What is run against it; each of them runs against the sources as well, and whole."""
WHERE = """
import importlib, sys
for name in sys.argv[1:]:
    print(importlib.import_module(name).__file__)
assert "mypy_extensions" not in sys.modules, "nobody has it who only runs Leasehold"
"""

HEIRS = """
import importlib, inspect, pkgutil, sys
import leasehold
compiled = set(sys.argv[1:])
for found in pkgutil.walk_packages(leasehold.__path__, "leasehold."):
    if found.name not in compiled and not found.name.endswith("__main__"):
        for name, each in inspect.getmembers(importlib.import_module(found.name), inspect.isclass):
            if each.__module__ == found.name and compiled & {base.__module__ for base in each.__mro__}:
                print(f"{found.name}.{name}")
"""


class Ended(NamedTuple):
    """How a part ended, and what it said."""

    code: int
    told: str


class Package(NamedTuple):
    """Where it was installed, and what becomes of the parts that run against it."""

    folder: Path
    parts: dict[str, Future[Ended]]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Package]:
    why_not = hindrance()
    if why_not is not None:
        pytest.skip(f"NOT RUN: the compiled package was not tested, because {why_not}.")
    wheel = build(tmp_path_factory.mktemp("wheel"))
    folder = tmp_path_factory.mktemp("compiled")
    how = ("--no-deps", "--no-index", "--no-compile", "--quiet", "--disable-pip-version-check")
    subprocess.run([sys.executable, "-m", "pip", "install", *how, "--target", folder, wheel], check=True)
    running: list[subprocess.Popen[str]] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        parts = {part: pool.submit(run, folder, part, running) for part in PARTS}
        try:
            yield Package(folder, parts)
        finally:
            for ended in parts.values():
                ended.cancel()
            for process in running:
                process.kill()


def run(folder: Path, part: str, running: list[subprocess.Popen[str]]) -> Ended:
    """One part, to its end."""
    with start(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PARTS[part]) as process:
        running.append(process)
        told, _ = process.communicate()
    return Ended(process.returncode, told)


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Python with the compiled package in front."""
    env = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.Popen(
        [sys.executable, *words], cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def listed() -> set[str]:
    """The modules that are to be compiled."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    hook = told["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]
    files = {path for pattern in hook["include"] for path in ROOT.glob(pattern)}
    files -= {path for pattern in hook.get("exclude", ()) for path in ROOT.glob(pattern)}
    dotted = (".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in files)
    return {name.removesuffix(".__init__") for name in dotted}


def test_each_listed_module_is_an_extension_and_no_other_module_is(package: Package) -> None:
    modules = sorted(listed())
    with start(package.folder, "-c", WHERE, *modules) as process:
        told, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, told
    places = told.split()
    assert [place for place in places if not place.endswith(".so")] == []
    assert all(Path(place).is_relative_to(package.folder) for place in places)
    assert {Path(place) for place in places} == set(package.folder.glob("leasehold/**/*.so"))


def test_no_other_class_inherits_from_a_compiled_one() -> None:
    """It could not be instantiated."""
    with start(ROOT / "src", "-W", "ignore", "-c", HEIRS, *sorted(listed())) as process:
        told, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, told
    assert told.split() == []


@pytest.mark.parametrize("part", PARTS)
def test_it_keeps_the_same_promises(part: str, package: Package) -> None:
    ended = package.parts[part].result(PATIENCE)
    assert ended.code == 0, ended.told
    assert " passed" in ended.told


def test_nothing_compiled_lies_among_the_sources() -> None:
    """Python prefers it to what is edited beside it: `make clean` removes it, `make wheel` leaves none."""
    assert [*(ROOT / "src").rglob("*.so"), *(ROOT / "src").rglob("*.pyd")] == []
