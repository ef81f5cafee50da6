"""The pages on HTTP and the server tell of every route, field, problem, option and figure that there is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from leasehold.cli.entry.quick import COMMON
from leasehold.cli.entry.table import VERBS
from leasehold.client import deciding
from leasehold.server.api.openapi import document
from leasehold.server.api.problems import STATUS
from leasehold.server.ops.metrics import COUNTED
from leasehold.server.webhooks.settings import FIELDS, KINDS
from tests.kit.serving import serving
from tests.kit.shell import ROOT

if TYPE_CHECKING:
    from pathlib import Path

HTTP = (ROOT / "docs" / "reference" / "http.md").read_text()
SERVER = (ROOT / "docs" / "how-to" / "server.md").read_text()
MOVING = "\n".join(page.read_text() for page in sorted((ROOT / "docs" / "how-to" / "moving").glob("*.md")))
"""Routes that other systems' programs know are told of there."""
ELSEWHERE = ("/locks/", "/v1/workflows")
OPERATIONS = [
    (method.upper(), path, operation)
    for path, methods in document()["paths"].items()
    for method, operation in methods.items()
]


def rows(method: str, path: str) -> list[str]:
    """Where the page tells of this route: the lines of its tables in which it stands."""
    lines = [line for line in HTTP.splitlines() if line.startswith("|") and f"`{path}`" in line]
    return lines or [line for line in HTTP.splitlines() if line.startswith("|") and f"`{method} {path}`" in line]


def fields(operation: dict[str, Any]) -> list[str]:
    """What the route takes."""
    named = [each["name"] for each in operation.get("parameters", ())]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        name = content["schema"].get("$ref", "").rpartition("/")[2]
        named += document()["components"]["schemas"].get(name, {}).get("properties", ())  # an editor's own has no name
    return named


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS)
def test_every_route_and_its_fields_are_documented(method: str, path: str, operation: dict[str, Any]) -> None:
    if path.startswith(ELSEWHERE):
        assert path in MOVING
        return
    told = rows(method, path)
    assert told, f"docs/reference/http.md has no row for {method} {path}"
    missing = [field for field in fields(operation) if not any(f"`{field}`" in row for row in told)]
    assert missing == []


def test_how_long_a_silent_server_is_waited_for() -> None:
    assert f"times out after {deciding.SLACK:g} s; two such time-outs" in SERVER
    assert deciding.SILENCES == 2


def test_every_problem_is_documented_with_its_status() -> None:
    for code, status in STATUS.items():
        row = next((line for line in HTTP.splitlines() if line.startswith(f"| {status} |")), "")
        assert f"`{code}`" in row, (status, code)


def test_every_option_of_serve_is_documented() -> None:
    for option in VERBS["serve"].options:
        if option not in COMMON:
            assert f"`{option.flag}" in SERVER, option.flag


def test_what_webhooks_are_made_of_is_documented() -> None:
    section = SERVER.partition("## Webhooks")[2]
    for word in (*FIELDS, *KINDS):
        assert word in section, word


def test_every_figure_is_documented(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        text = server.ask("GET", "/metrics").content.decode()
    families = set(re.findall(r"(?m)^# TYPE (\S+) ", text)) | set(COUNTED.values())
    assert [name for name in sorted(families) if f"`{name}`" not in SERVER] == []


def test_the_key_of_a_client_is_documented() -> None:
    for page in ("how-to/server.md", "reference/configuration.md", "reference/cli.md"):
        assert "LEASEHOLD_API_KEY" in (ROOT / "docs" / page).read_text(), page
