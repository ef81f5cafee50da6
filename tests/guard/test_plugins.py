"""The plugins in the repository are those of the table, each in the format of its agent, and its hooks refuse."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

import leasehold
from leasehold.guard.editors.adapters import ADAPTERS, BEFORE
from leasehold.guard.install import skill
from leasehold.guard.install.probing import payload
from tests.guard.plugin_schemas import SCHEMAS, SKILL
from tests.guard.test_install import Project
from tests.kit.shell import ROOT

if TYPE_CHECKING:
    from types import ModuleType

AGENTS = ("claude", "codex", "cursor", "gemini")


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("plugins", ROOT / "scripts" / "plugins.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FILES: dict[str, str] = generator().files()
BROKEN: dict[str, tuple[str, object]] = {
    ".claude-plugin/marketplace.json": ("owner", None),
    ".cursor-plugin/marketplace.json": ("plugins", []),
    ".agents/plugins/marketplace.json": ("name", "Not Kebab"),
    "server.json": ("version", ">=0.1"),
    "plugins/claude/.claude-plugin/plugin.json": ("hooks", "../hooks.json"),
    "plugins/codex/.codex-plugin/plugin.json": ("interface", {}),
    "plugins/codex/hooks/hooks.json": ("description", "Codex refuses this field"),
    "plugins/cursor/.cursor-plugin/plugin.json": ("name", "Leasehold"),
    "plugins/cursor/hooks/hooks.json": ("version", 2),
    "plugins/gemini/gemini-extension.json": ("version", None),
}
"""In some files, a field with a value that the schema must refuse; None: it is absent."""


def test_the_files_in_the_repository_are_those_that_the_table_makes() -> None:
    kept = {path.relative_to(ROOT).as_posix() for path in (ROOT / "plugins").rglob("*") if path.is_file()}
    assert kept == {name for name in FILES if name.startswith("plugins/")}
    for name, content in FILES.items():
        assert (ROOT / name).read_text() == content, f"{name} is stale: run python scripts/plugins.py"


def test_every_file_has_a_schema() -> None:
    assert {name for name in FILES if name.endswith(".json")} == set(SCHEMAS)
    assert {name.split("/")[1] for name in FILES if name.startswith("plugins/")} == set(AGENTS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_file_is_in_the_format_of_its_agent(name: str) -> None:
    document = json.loads(FILES[name])
    jsonschema.validate(document, SCHEMAS[name])
    if name in BROKEN:
        field, value = BROKEN[name]
        broken = {key: each for key, each in document.items() if key != field}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken if value is None else {**broken, field: value}, SCHEMAS[name])


@pytest.mark.parametrize("name", FILES)
def test_a_file_names_no_place_of_a_machine(name: str) -> None:
    assert not re.search(r'["\s(](/|~|[A-Z]:\\)[\w.-]*/|/home/|/Users/', FILES[name])
    assert sys.executable not in FILES[name]
    assert str(Path.home()) not in FILES[name]


@pytest.mark.parametrize("agent", AGENTS)
def test_what_a_manifest_or_a_marketplace_names_is_there(agent: str) -> None:
    parts = {
        name.removeprefix(f"plugins/{agent}/"): FILES[name] for name in FILES if name.startswith(f"plugins/{agent}/")
    }
    (manifest,) = [json.loads(parts[name]) for name in parts if name.endswith(("plugin.json", "extension.json"))]
    assert manifest["name"] == "leasehold"
    assert manifest["version"] == leasehold.__version__
    for field in ("skills", "hooks", "mcpServers"):
        path = manifest.get(field)
        if isinstance(path, str):
            assert any(name.startswith(path.removeprefix("./")) for name in parts), path
    for name in (name for name in FILES if name.endswith("marketplace.json")):
        (entry,) = json.loads(FILES[name])["plugins"]
        source = entry["source"] if isinstance(entry["source"], str) else entry["source"]["path"]
        assert any(each.startswith(source.removeprefix("./") + "/") for each in FILES), source


def test_the_registry_finds_its_name_in_the_readme() -> None:
    entry = json.loads(FILES["server.json"])
    assert f"mcp-name: {entry['name']}" in (ROOT / "README.md").read_text()
    assert entry["packages"][0]["version"] == entry["version"] == leasehold.__version__


def _commands(document: Any) -> set[str]:  # noqa: ANN401 (any JSON)
    if isinstance(document, dict):
        own = {document["command"]} if isinstance(document.get("command"), str) else set()
        return own.union(*(_commands(each) for each in document.values()))
    return set().union(*(_commands(each) for each in document)) if isinstance(document, list) else set()


@pytest.mark.parametrize("agent", AGENTS)
def test_the_hooks_of_a_plugin_refuse_a_second_session(tmp_path: Path, agent: str) -> None:
    project = Project(tmp_path)
    hooks = json.loads(FILES[f"plugins/{agent}/hooks/hooks.json"])["hooks"]
    (command,) = _commands(hooks)
    assert {moment for event, moment in ADAPTERS[agent].moments.items() if event in hooks} >= {BEFORE, "after", "end"}
    program, *words = command.split()
    assert program == "leasehold"
    for session, is_refused in (("one", False), ("two", True)):
        told = project.run(*words, feed=json.dumps(payload(agent, session, project.root)))
        assert ("deny" in told) == is_refused, told


@pytest.mark.parametrize("target", skill.TARGETS)
def test_the_skill_is_where_the_agent_looks(tmp_path: Path, target: str) -> None:
    project = Project(tmp_path)
    for user, top in ((False, project.root), (True, project.home)):
        path = top / skill.TARGETS[target].of(user=user) / "leasehold" / "SKILL.md"
        words = ("skill", "--target", target, *(["--user"] if user else []))
        project.run("install", *words)
        front = path.read_text().split("---\n")[1]
        fields = dict(re.findall(r"^(\w+): (?:>-\n)?((?:  .*\n|.*)+?)$", front, flags=re.MULTILINE))
        jsonschema.validate(fields, SKILL)
        assert fields["name"] == path.parent.name
        project.run("uninstall", *words)
        assert not path.exists()
