"""The release lacks nothing but accounts: its workflows name what exists, and all versions agree."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import leasehold
from tests.kit.shell import PATIENCE, ROOT

if TYPE_CHECKING:
    from pathlib import Path

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
INSTALLED_FROM = [
    path
    for place in ("README.md", "docs/**/*.md", "deploy/**/*.y*ml", "examples/**/*.*", "clients/typescript/README.md")
    for path in sorted(ROOT.glob(place))
    if path.suffix in (".md", ".yml", ".yaml") and "adr" not in path.parts
]
"""Pages and files that tell how to install Leasehold."""
PUBLISHING = {"pypi", "npm", "container", "registry", "docs", "notes"}


def jobs(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())["jobs"]
    return found


def steps() -> list[dict[str, Any]]:
    return [step for path in WORKFLOWS for job in jobs(path.name).values() for step in job.get("steps", ())]


@pytest.mark.parametrize("path", WORKFLOWS, ids=[path.name for path in WORKFLOWS])
def test_a_workflow_may_only_read_unless_a_job_says_more(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


def test_workflows_run_targets_and_files_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for step in steps():
        for target in re.findall(r"\bmake (\w+)", step.get("run", "")):
            assert f"\n{target}:" in makefile, target
        for script in re.findall(r"\bscripts/\w+\.py", step.get("run", "")):
            assert (ROOT / script).exists(), script
        file = step.get("with", {}).get("file")
        assert file is None or (ROOT / file).exists(), file


def test_every_action_is_of_a_stated_version() -> None:
    used = [step["uses"] for step in steps() if "uses" in step]
    assert [each for each in used if not re.search(r"@(v\d|release/v\d)", each)] == []


def test_everything_is_published_after_the_tests_and_by_identity() -> None:
    described = jobs("release.yml")
    assert set(described) >= PUBLISHING
    for name in PUBLISHING:
        assert {"tests", "version"} <= before(name, described), name
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "secrets." not in text
    for name in ("pypi", "npm", "container", "registry", "docs"):
        assert described[name]["permissions"]["id-token"] == "write", name


def before(name: str, described: dict[str, Any]) -> set[str]:
    """Every job that has to succeed before this one."""
    needs = described[name].get("needs", [])
    first = [needs] if isinstance(needs, str) else needs
    return set(first).union(*(before(each, described) for each in first))


def release(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "release_version.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_a_tag_that_a_file_contradicts_is_refused() -> None:
    done = release("v99.0.0")
    assert done.returncode == 1
    files = ("pyproject.toml", "__init__.py", "CITATION.cff", "package.json", "server.json")
    assert all(file in done.stderr for file in files)


def test_all_files_state_the_same_version() -> None:
    done = release(f"v{leasehold.__version__}")
    assert " says " not in done.stderr, done.stderr


@pytest.mark.parametrize("path", INSTALLED_FROM, ids=[path.relative_to(ROOT).as_posix() for path in INSTALLED_FROM])
def test_a_page_installs_from_a_clone_or_the_version_that_it_belongs_to(path: Path) -> None:
    """By its bare name, an index may have nothing, or something that a stranger put there."""
    for line in path.read_text().splitlines():
        if re.search(r"\b(?:pip|pipx|uv tool) install\b(?!.*(?:\.whl|git\+)).*\bleasehold\b", line):
            assert f"leasehold=={leasehold.__version__}" in line, line
            assert "once it is published" in line, line


def test_the_registry_finds_its_name_in_the_published_readme() -> None:
    name = json.loads((ROOT / "server.json").read_text())["name"]
    assert f"<!-- mcp-name: {name} -->" in (ROOT / "README.md").read_text()


def test_the_files_that_a_repository_shows_are_there() -> None:
    for name in ("SECURITY.md", "CODE_OF_CONDUCT.md", "CITATION.cff", "LICENSE", "CONTRIBUTING.md"):
        assert (ROOT / name).read_text().strip()
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors", "version"} <= set(citation)
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text())
        assert path.name == "config.yml" or {"name", "description", "body"} <= set(form)
