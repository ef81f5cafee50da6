"""What is documented works, and what works is documented."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from leasehold import errors
from leasehold.cli.entry.quick import COMMON
from leasehold.cli.entry.table import VERBS
from leasehold.cli.output import MEANINGS
from leasehold.config import settings as config
from leasehold.server.api.problems import STATUS
from leasehold.stores.git import refs
from tests.kit.documents import DOCUMENTS, Block, Example, blocks, examples, pattern, run, sections
from tests.kit.shell import PATIENCE, ROOT, SOURCE, Shell

if TYPE_CHECKING:
    from pathlib import Path

DOCS = ROOT / "docs"
CLI = DOCS / "reference" / "cli.md"
TOURS = [block for block in blocks(ROOT / "README.md") if block.language == "console" and block.section == "One minute"]
"""Each of them is for another kind of user, in a shell of its own."""
TOGETHER = "write-a-store.md"
"""Its blocks are one program, which `tests/stores/test_write_a_store.py` runs."""
PYTHON = [
    (path, block)
    for path in DOCUMENTS
    for block in blocks(path)
    if block.language == "python" and path.name != TOGETHER
]
OUR_PAGES = re.compile(r"(?<![\w/.:])(?<!path:)(?<!gemini-cli )(docs/[\w./-]+\.md)(?:#([\w-]+))?")
CODES = re.compile(r"""(?:Refused\(\s*|_broke\(context,\s*|code = |"code": )"([a-z_]+)\"""")


# ------------------------------------------------------------------------------------------- it works


@pytest.mark.parametrize("section", sections(CLI))
def test_every_example_of_the_command_line_prints_what_it_says(shell: Shell, section: str) -> None:
    compare(shell, sections(CLI)[section])


@pytest.mark.parametrize("tour", TOURS, ids=[str(block.line) for block in TOURS])
def test_each_tour_of_the_readme_can_be_typed(shell: Shell, tour: Block) -> None:
    compare(shell, examples(tour.text))


def compare(shell: Shell, typed: list[Example]) -> None:
    """Type these commands into one shell, and compare what they print."""
    for example, printed in zip(typed, run(shell, [each.command for each in typed]), strict=True):
        assert "Traceback" not in printed, example
        if example.expected:
            assert pattern(example.expected).fullmatch(printed), f"$ {example.command}\n{printed}"


def test_the_recording_of_the_readme_shows_what_the_commands_print() -> None:
    drawing = [sys.executable, str(ROOT / "scripts" / "recording.py"), "--check"]
    done = subprocess.run(drawing, capture_output=True, text=True, timeout=5 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["grite", "agiflow"])
def test_the_line_that_moves_a_script_moves_a_script(shell: Shell, name: str) -> None:
    line = next(block.text for block in blocks(DOCS / "how-to" / "moving" / f"{name}.md") if block.language == "sh")
    (shell.home / "script").write_text({"grite": "grite lock status\n", "agiflow": "agiflow-cli workflow list\n"}[name])
    path = 'PATH="$HOME/.local/bin:$PATH"'
    for printed in run(shell, [line, *(f"{path} {each} script; echo code $?" for each in ("bash", "sh"))])[1:]:
        assert printed.endswith("code 0\n"), printed


@pytest.mark.parametrize(("path", "block"), PYTHON, ids=[f"{path.name}:{block.line}" for path, block in PYTHON])
def test_every_block_of_python_runs(tmp_path: Path, path: Path, block: object) -> None:
    text = next(each.text for each in blocks(path) if each == block)
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        cwd=tmp_path,
        env={name: value for name, value in env.items() if not name.startswith("LEASEHOLD_")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", DOCUMENTS, ids=[str(path.relative_to(ROOT)) for path in DOCUMENTS])
def test_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{path.name} refers to {target}"
        if anchor:
            assert anchor in anchors(there), f"{path.name} refers to {target}"


def anchors(page: Path) -> list[str]:
    """What a link may have after its `#`."""
    return [_anchor(line) for line in page.read_text().splitlines() if line.startswith("#")]


def _anchor(heading: str) -> str:
    words = re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower())
    return words.replace(" ", "-")


# -------------------------------------------------------------------------------------- it is documented


def part(name: str) -> str:
    """What the page says under the heading of this command."""
    text = CLI.read_text()
    start = text.index(f"\n### `{name}`\n")
    following = re.compile(r"\n##+ ").search(text, start + 1)
    return text[start : following.start() if following else len(text)]


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_and_option_is_documented(verb: str) -> None:
    said = part(verb)
    shared = CLI.read_text().partition("## Common options")[2].partition("\n## ")[0]
    administer = CLI.read_text().partition("## Administer")[2].partition("\n### ")[0]
    common = {option.flag for option in COMMON}
    for option in VERBS[verb].options:
        where = shared if option.flag in common else said
        if option.flag in ("--reason", "--by") and verb in config.PEOPLES_VERBS:
            where = administer
        assert option.flag in where, f"{verb} {option.flag} is not documented"
        values = where + part("acquire")  # whose options some others share
        assert all(f"`{choice}`" in values for choice in option.choices), f"{verb} {option.flag}: its values"


def test_no_command_is_documented_that_does_not_exist() -> None:
    headings = re.findall(r"^### `(.+)`$", CLI.read_text(), flags=re.MULTILINE)
    assert sorted(headings) == sorted(VERBS)


def test_no_option_is_documented_that_does_not_exist() -> None:
    known = {option.flag for verb in VERBS.values() for option in verb.options} | {"--help", "--version", "--"}
    assert set(re.findall(r"(?<![\w-])--(?!-)[a-z-]*", CLI.read_text())) <= known


def test_every_exit_code_is_documented() -> None:
    rows = dict(re.findall(r"^\| (\d+) \| ([a-z ]+) \|", CLI.read_text(), flags=re.MULTILINE))
    assert rows == {str(code): meaning for code, meaning in MEANINGS.items()}


def error_codes() -> set[str]:
    """Every code that a refusal or an error can have."""
    told = set(errors.BY_CODE) | set(STATUS) | {"held", "timeout", "deadlock", "lost"}
    for path in SOURCE.rglob("*.py"):
        if not {"server", "client", "testing"} & set(path.parts):
            told |= set(CODES.findall(path.read_text()))
    return told


def test_every_error_code_is_documented() -> None:
    table = CLI.read_text().partition("| `error.code` |")[2]
    never_printed = {"not_acquired", "stale_fence"}  # raised by the Python API only
    missing = {code for code in error_codes() - never_printed if f"`{code}`" not in table}
    assert missing == set()


def test_every_setting_and_variable_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    for key in config.KEYS:
        assert f"| `{key}` |" in page
    documented = "\n".join(path.read_text() for path in DOCUMENTS)
    for path in (SOURCE / "leasehold").rglob("*.py"):
        if "testing" not in path.parts:
            for variable in re.findall(r"\"((?:LEASEHOLD|XDG)_[A-Z_]+|NO_COLOR)\"", path.read_text()):
                assert f"`{variable}" in documented, f"{variable} in {path.name}"


def test_the_index_names_every_page() -> None:
    index = (DOCS / "index.md").read_text()
    for path in DOCS.rglob("*.md"):
        name = path.relative_to(DOCS).as_posix()
        assert name == "index.md" or name.startswith("adr/0") or f"({name})" in index, name


def test_a_page_that_a_message_or_a_comment_names_is_there() -> None:
    """Messages, help and comments name pages by their path in the repository."""
    sources = [path for folder in ("src", "deploy", "benchmarks", "clients") for path in (ROOT / folder).rglob("*.*")]
    for path in sources:
        if path.suffix in (".py", ".sql", ".yml", ".ts", ".js") and "node_modules" not in path.parts:
            for page, anchor in OUR_PAGES.findall(path.read_text()):
                named = ROOT / page
                assert named.exists(), f"{path.relative_to(ROOT)} names {page}"
                assert not anchor or anchor in anchors(named), f"{path.relative_to(ROOT)} names {page}#{anchor}"


# ------------------------------------------------------------------------------------- for who changes it


def test_every_module_has_a_room_on_the_map() -> None:
    rooms = (ROOT / "CONTRIBUTING.md").read_text().partition("### The rooms")[2].partition("\n###")[0]
    package = SOURCE / "leasehold"
    found = [path.name for path in package.glob("*.py")] + [f"{path.parent.name}/" for path in package.glob("*/*.py")]
    assert not [name for name in set(found) if not name.startswith("__") and f"`{name}`" not in rooms]


def test_every_kind_of_record_is_on_the_map() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert not [kind for kind in refs.KINDS if f"| `{kind}…` |" not in text]


def test_the_contracts_of_imports_know_every_store_and_every_surface() -> None:
    """A new one may be forgotten here; then nothing of it would be checked."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    contracts = {each["id"]: each for each in settings["contracts"]}
    stores = {path.parent.name for path in (SOURCE / "leasehold" / "stores").glob("*/__init__.py")} | {"memory"}
    assert {f"leasehold.stores.{name}" for name in stores} <= set(
        contracts["one-place-knows-the-stores"]["forbidden_modules"]
    )
    above = next(layer for layer in contracts["layers"]["layers"] if "(cli)" in layer)
    surfaces = {name.strip("() ") for name in above.split("|")} | {"guard", "compat"}
    assert {f"leasehold.{name}" for name in surfaces} <= set(contracts["surfaces"]["source_modules"])
