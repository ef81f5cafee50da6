"""What users write is checked as they check it: strictly, by mypy and by pyright."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.documents import DOCUMENTS, blocks

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 240.0
PROGRAMS = [ROOT / "tests" / "typed" / f"{name}.py" for name in ("truth",)]


def run(folder: Path, *words: str) -> str:
    """What a checker says, or nothing if it has no complaint."""
    env = {**os.environ, "MYPYPATH": f"{ROOT / 'src'}:{folder}"}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    return done.stdout + done.stderr if done.returncode else ""


def mypy(*files: Path) -> str:
    """As `mypy --strict` on a project that has Leasehold installed."""
    return run(files[0].parent, "mypy", "--strict", "--explicit-package-bases", "--config-file=", *map(str, files))


def pyright(folder: Path, *files: Path) -> str:
    """As pyright with `typeCheckingMode: strict`; a `type: ignore` that ignores nothing is an error for it as well."""
    settings = folder / "pyrightconfig.json"
    told = {
        "include": list(map(str, files)),
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "extraPaths": [str(ROOT / "src"), str(ROOT), str(files[0].parent)],
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    settings.write_text(json.dumps(told), encoding="utf-8")
    return run(folder, "basedpyright", "-p", str(settings))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_mypy_has_no_complaint(program: Path) -> None:
    assert mypy(program) == ""


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_pyright_has_no_complaint(program: Path, tmp_path: Path) -> None:
    assert pyright(tmp_path, program) == ""


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Each example program of the documents, as a module of its own."""
    folder = tmp_path_factory.mktemp("documented")
    shutil.copy(ROOT / "tests" / "stores" / "file_store.py", folder)  # a page has its text, and imports it
    programs: list[Path] = []
    for path in DOCUMENTS:
        for block in blocks(path):
            if block.language == "python":
                programs.append(folder / f"{path.stem.lower()}_{block.line}.py")
                programs[-1].write_text(block.text, encoding="utf-8")
    assert len(programs) > 10
    return programs


def test_mypy_has_no_complaint_about_the_examples_of_the_documents(documented: list[Path]) -> None:
    assert mypy(*documented) == ""


def test_pyright_has_no_complaint_about_them(documented: list[Path], tmp_path: Path) -> None:
    assert pyright(tmp_path, *documented) == ""


def test_both_complain_about_a_branch_that_is_not_narrowed(tmp_path: Path) -> None:
    """They really looked."""
    program = tmp_path / "program.py"
    program.write_text(
        "import leasehold\n"
        "def fence(locks: leasehold.Locks) -> int:\n"
        "    return locks.acquire('job', ttl=60).lease.fence\n",
        encoding="utf-8",
    )
    assert 'Item "Held" of' in mypy(program)
    assert 'Cannot access attribute "lease" for class "Held"' in pyright(tmp_path, program)
