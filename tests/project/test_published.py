"""The wheel and the source distribution are as they will be published: checked, complete, and without our tools."""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.kit.shell import PATIENCE, ROOT, SOURCE

if TYPE_CHECKING:
    from email.message import Message
    from pathlib import Path

    from tests.kit.shell import Shell

REPOSITORY = "https://example.com/team/leasehold"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SHARED = "leasehold-{}.data/data/share/{}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", str(folder))
    assert sorted(path.suffix for path in folder.iterdir()) == [".gz", ".whl"]
    return folder


def run(*words: str) -> str:
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, "LEASEHOLD_REPOSITORY": REPOSITORY, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(built.glob("*.whl")))


def metadata(built: Path) -> Message:
    with wheel(built) as files:
        return email.message_from_bytes(files.read(f"leasehold-{PROJECT['version']}.dist-info/METADATA"))


def shared(built: Path, place: str) -> str:
    with wheel(built) as files:
        return files.read(SHARED.format(PROJECT["version"], place)).decode()


def test_both_pass_the_checks_of_the_index(built: Path) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *(str(path) for path in built.iterdir()))
    run(sys.executable, "-m", "check_wheel_contents", str(next(built.glob("*.whl"))))


def test_our_tools_are_not_published_as_extras(built: Path) -> None:
    extras = metadata(built).get_all("Provides-Extra")
    assert extras is not None
    assert sorted(extras) == sorted(PROJECT["optional-dependencies"])
    assert {"dev", "bench", "docs"} & set(extras) == set()


def test_every_link_of_the_published_readme_leads_somewhere_from_an_index(built: Path) -> None:
    text = str(metadata(built).get_payload())
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(links) > 20
    assert [link for link in links if "://" not in link and not link.startswith("#")] == []
    ours = [link.removeprefix(REPOSITORY) for link in links if link.startswith(REPOSITORY)]
    for link in ours:
        path = re.sub(r"^/(?:blob|raw)/v[^/]+/", "", link).partition("#")[0]
        assert (ROOT / path).exists(), link
    urls = metadata(built).get_all("Project-URL")
    assert urls is not None
    assert all(REPOSITORY in url for url in urls)


def test_the_wheel_lists_its_parts(built: Path) -> None:
    with wheel(built) as files:
        bill = json.loads(files.read(f"leasehold-{PROJECT['version']}.dist-info/sboms/leasehold.cdx.json"))
    needs = {each.partition(">")[0].partition("[")[0] for each in PROJECT["dependencies"]}
    assert needs == {part["name"] for part in bill["components"] if part["scope"] == "required"}
    assert bill["metadata"]["component"]["version"] == PROJECT["version"]


def test_the_wheel_says_that_it_is_typed(built: Path) -> None:
    with wheel(built) as files:
        assert "leasehold/py.typed" in files.namelist()


@pytest.mark.skipif(shutil.which("man") is None, reason="there is no man to read the page with")
def test_the_man_page_is_read_without_complaint(built: Path, tmp_path: Path) -> None:
    page = tmp_path / "leasehold.1"
    page.write_text(shared(built, "man/man1/leasehold.1"))
    done = subprocess.run(
        ["man", "--warnings", "--encoding=UTF-8", "--local-file", str(page)],
        env={**os.environ, "MANWIDTH": "200", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "leasehold acquire" in done.stdout
    assert "wait timed out" in done.stdout.lower()


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("bash", "bash-completion/completions/leasehold"),
        ("zsh", "zsh/site-functions/_leasehold"),
        ("fish", "fish/vendor_completions.d/leasehold.fish"),
    ],
)
def test_the_completions_are_those_of_the_command(built: Path, shell: Shell, name: str, place: str) -> None:
    assert shared(built, place) == shell.run("completion", name).out.rstrip("\n")


def test_windows_is_refused_with_the_ways_out() -> None:
    program = "import sys; sys.platform = 'win32'; import leasehold"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: Leasehold runs on Linux, macOS")
    assert "WSL" in done.stderr
