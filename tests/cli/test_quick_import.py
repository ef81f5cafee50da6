"""The finder of one-shot commands gives every module what importlib gives it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import leasehold
from tests.kit.shell import PATIENCE

COMPARE = """
import importlib.util, sys
from leasehold.cli import quick_import
names = ["leasehold.cli.commands", "leasehold.cli.commands.acquire", "leasehold.domain.rules", "leasehold.errors"]
for name in names:
    importlib.util.find_spec(name).loader.get_code(name)  # writes the .pyc
seen = {name: importlib.util.find_spec(name) for name in names}
for name in names:
    for known in [known for known in sys.modules if known.startswith(name)]:
        del sys.modules[known]
quick_import.install()
for name, spec in seen.items():
    module = importlib.import_module(name)
    own = module.__spec__
    assert type(own.loader).__name__ == "_QuickLoader", name
    for field in ("name", "origin", "cached", "parent", "has_location", "submodule_search_locations"):
        assert getattr(own, field) == getattr(spec, field), (name, field)
    assert module.__file__ == spec.origin
    assert own.loader.get_code(name) == spec.loader.get_code(name)
    assert own.loader.get_source(name) == spec.loader.get_source(name)
"""
USE = """
import sys
from leasehold.cli import quick_import
quick_import.install()
import leasehold.extra
print(leasehold.extra.VALUE, type(leasehold.extra.__spec__.loader).__name__)
"""

pytestmark = pytest.mark.skipif(not leasehold.__file__.endswith(".py"), reason="compiled modules are left to importlib")


def run(script: str, source: Path) -> str:
    env = {**os.environ, "PYTHONPATH": str(source)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of the package with one module more."""
    shutil.copytree(
        Path(leasehold.__file__).parent, tmp_path / "leasehold", ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    (tmp_path / "leasehold/extra.py").write_text("VALUE = 1\n")
    return tmp_path


def test_modules_are_as_importlib_makes_them(source: Path) -> None:
    run(COMPARE, source)


def test_a_changed_source_counts_at_once(source: Path) -> None:
    assert run(USE, source) == "1 SourceFileLoader\n"
    assert run(USE, source) == "1 _QuickLoader\n"
    (source / "leasehold/extra.py").write_text("VALUE = 23\n")
    assert run(USE, source) == "23 SourceFileLoader\n"
    assert run(USE, source) == "23 _QuickLoader\n"


def test_a_damaged_pyc_is_left_to_importlib(source: Path) -> None:
    run(USE, source)
    (cached,) = (source / "leasehold/__pycache__").glob("extra.*.pyc")
    cached.write_bytes(b"")
    assert run(USE, source) == "1 SourceFileLoader\n"


def test_a_compiled_module_comes_before_its_source(source: Path) -> None:
    from _imp import extension_suffixes

    run(USE, source)
    (source / f"leasehold/extra{extension_suffixes()[0]}").write_bytes(b"no extension")
    with pytest.raises(AssertionError, match="ImportError"):
        run(USE, source)
