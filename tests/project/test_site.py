"""The documentation builds as a site, and every table of the program has its page of reference there."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold import errors
from leasehold.cli.entry.table import VERBS
from leasehold.requests.lookups import EVENT_KINDS
from leasehold.server.api.problems import STATUS
from leasehold.server.ops.metrics import COUNTED
from leasehold.wire import table, vocabulary
from tests.kit.browsing import PATIENCE_MS, Watch, chromium
from tests.kit.shell import PATIENCE, ROOT, SOURCE
from tests.project.test_docs import error_codes

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(made)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return made


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_tables", ROOT / "scripts" / "docs_site" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_on_the_site(site: Path) -> None:
    pages = [path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")]
    assert [str(page) for page in pages if not (site / page).exists() and page.name != "README.html"] == []


def test_the_search_works_without_a_network(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text().removeprefix("var __index = "))
    assert any("fence" in each["text"] for each in index["docs"])
    assert (site / "search" / "search_index.js").exists(), "a page opened as a file may not fetch JSON"
    assert "fonts.googleapis.com" not in (site / "index.html").read_text()


def test_a_page_that_is_opened_as_a_file_finds_words_and_fetches_nothing(site: Path) -> None:
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        watch = Watch(page, "file://")
        page.goto((site / "explanation" / "reliability.html").as_uri())
        page.locator(".md-search__input").first.click()
        page.keyboard.type("paused")
        page.locator(".md-search-result__item").first.wait_for(timeout=PATIENCE_MS)
        assert watch.elsewhere == []
        assert watch.errors == []


def test_language_models_get_the_guides_before_the_decisions(site: Path) -> None:
    index = (site / "llms.txt").read_text()
    sections = [line[3:] for line in index.splitlines() if line.startswith("## ")]
    assert sections == ["Start", "Tutorials", "How-to", "Reference", "Explanation", "Project", "Optional"]
    assert "(adr/0001-pure-rules.md)" in index.partition("## Optional")[2]
    assert [line for line in index.splitlines() if "Status:" in line or "| ---" in line] == []


def test_language_models_find_every_page(site: Path) -> None:
    index, whole = (site / "llms.txt").read_text(), (site / "llms-full.txt").read_text()
    for path in DOCS.rglob("*.md"):
        place = path.relative_to(DOCS).as_posix()
        assert f"({place})" in index
        assert f"<!-- {place} -->" in whole
        assert (site / place).read_text() == path.read_text()


def test_every_command_and_option_has_an_entry(tables: ModuleType) -> None:
    page = tables.commands()
    for name, verb in VERBS.items():
        section = page.partition(f"\n## `{name}`\n")[2].partition("\n## ")[0]
        assert [option.flag for option in verb.options if f"| `{option.flag}" not in section] == [], name


def test_every_route_has_an_entry(tables: ModuleType) -> None:
    page = tables.routes()
    described = tables.document()["paths"]
    routes = [f"{method.upper()} {path}" for path, methods in described.items() for method in methods]
    assert [route for route in routes if f"\n## `{route}`\n" not in page] == []


def test_every_error_has_an_entry(tables: ModuleType) -> None:
    assert sorted(error_codes() - set(tables.ERRORS)) == []
    assert sorted((set(errors.BY_CODE) | set(STATUS)) - set(tables.ERRORS)) == []


def test_every_kind_of_event_has_an_entry(tables: ModuleType) -> None:
    assert sorted(set(EVENT_KINDS) ^ set(tables.EVENTS)) == []


def test_every_metric_has_an_entry(tables: ModuleType) -> None:
    assert [name for name in COUNTED.values() if f"| `{name}` |" not in tables.metrics()] == []


def test_every_setting_has_an_entry(tables: ModuleType) -> None:
    assert [key for key in tables.settings.KEYS if f"| `{key}` |" not in tables.setting_names()] == []


def test_every_field_of_an_object_is_described(tables: ModuleType) -> None:
    page = tables.objects()
    assert [name for name in table.NAMES if f"\n## {name}\n" not in page] == []
    fields = {f"{name}.{each.name}" for name in table.NAMES for each in table.shape(name).fields}
    known = vocabulary.FIELDS
    assert sorted(each for each in fields if each not in known and each.partition(".")[2] not in known) == []


def test_every_public_name_is_documented(tables: ModuleType) -> None:
    page = tables.python_api()
    for name in leasehold.__all__:
        said = page.partition(f"\n## `{name}`\n")[2].partition("\n## ")[0].strip()
        assert said, f"{name} has no docstring"
    headings = [line for line in page.splitlines() if line.startswith("### ")]
    for heading in headings:
        assert page.partition(f"{heading}\n")[2].partition("\n#")[0].strip(), f"{heading} has no docstring"
