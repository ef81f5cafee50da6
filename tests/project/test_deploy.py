"""What is in deploy/ fits: every metric that Grafana and the alerts name is told by a running server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.serving import Running, serving, until
from tests.kit.shell import ROOT

if TYPE_CHECKING:
    from pathlib import Path

GRAFANA = ROOT / "deploy" / "grafana" / "leasehold.json"
RULES = ROOT / "deploy" / "prometheus" / "leasehold.rules.yml"
NAMES = re.compile(r"\b(?:leasehold|process)_[a-z_]+")
LABELS = re.compile(r"by \(([a-z_, ]+)\)")
OF_PROMETHEUS = {"job", "instance", "le"}
OF_SOME_SERVERS = {"hook", "lane", "outcome", "owner"}
"""Only servers with webhooks, or with peers, have these labels."""


def told(server: Running) -> tuple[set[str], set[str]]:
    """The names of all metrics and of all labels, after each of them had something to count."""
    server.post("acquire", {"resources": "a", "holder": "ann"})
    server.post("acquire", {"resources": "a", "holder": "bob"})  # refused
    server.post("acquire", {"resources": "b", "holder": "bob", "ttl_seconds": 0.05})
    with server.begin("acquire", {"resources": "a", "holder": "cid", "wait_seconds": 50}):
        until(lambda: server.waiting("a") == ["cid"])
        server.post("force-release", {"target": "a", "reason": "x"})
        until(lambda: server.holders("a") == ["cid"])
    held = server.post("acquire", {"resources": "path:t", "holder": "ann"}).json["lease"]["id"]
    server.post("trespasses", {"lease": held, "paths": ["path:t"], "by": "eve"})
    until(lambda: "leasehold_expiries_total{" in server.ask("GET", "/metrics").content.decode())
    text = server.ask("GET", "/metrics").content.decode()
    return set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)), set(re.findall(r'[{,]([a-z_]+)="', text))


def expressions() -> list[str]:
    board: Any = json.loads(GRAFANA.read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    words = ("#", "summary", "description", "- alert", "- name")
    return asked + [line for line in RULES.read_text().splitlines() if not line.lstrip().startswith(words)]


def test_every_metric_and_label_that_is_asked_for_exists(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        metrics, labels = told(server)
    assert len(metrics) >= 10
    for expression in expressions():
        for name in NAMES.findall(expression):
            assert re.sub(r"_(bucket|sum|count)$", "", name) in metrics, f"{name} in {expression}"
        for group in LABELS.findall(expression):
            assert set(group.replace(" ", "").split(",")) <= labels | OF_PROMETHEUS | OF_SOME_SERVERS, expression


def test_every_metric_is_shown_somewhere(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        metrics = set(re.findall(r"^# TYPE (\S+)", server.ask("GET", "/metrics").content.decode(), re.MULTILINE))
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for each in expressions() for name in NAMES.findall(each)}
    of_the_process = {"process_start_time_seconds", "process_virtual_memory_bytes"}
    assert metrics - shown <= {"leasehold_webhooks_total"} | of_the_process


def test_every_metric_has_a_line_in_the_docs(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        metrics = set(re.findall(r"^# TYPE (\S+)", server.ask("GET", "/metrics").content.decode(), re.MULTILINE))
    page = (ROOT / "docs" / "how-to" / "server.md").read_text()
    assert sorted(name for name in metrics if f"`{name}`" not in page) == []


def test_the_board_is_whole() -> None:
    board: Any = json.loads(GRAFANA.read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    cells = [(x + dx, y + dy) for x, y, w, h in places for dx in range(w) for dy in range(h)]
    assert len(cells) == len(set(cells)), "two panels overlap"
    assert max(x for x, _ in cells) < 24


def test_the_rules_are_laid_out_as_prometheus_wants_them() -> None:
    text = RULES.read_text()
    alerts = re.findall(r"- alert: (\w+)", text)
    assert len(alerts) == len(set(alerts)) >= 6
    assert text.count("expr:") == text.count("severity:") == text.count("summary:") == len(alerts)
    assert "\t" not in text


def test_prometheus_understands_the_rules() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("NOT RUN: promtool is not installed, so the rules were not parsed: apt-get install prometheus")
    done = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_action_and_the_recipes_for_ci_let_runners_take_over_dead_locks_at_a_git_remote() -> None:
    action = (ROOT / "deploy" / "github-action" / "action.yml").read_text()
    assert "LEASEHOLD_MAX_SKEW: ${{ inputs.max-skew }}" in action
    assert re.search(r"max-skew:\n    description: .*\n    default: 30s\n", action)
    for page in sorted((ROOT / "docs" / "how-to" / "ci").glob("*.md")):
        recipes = re.findall(r"```(?:yaml|groovy)\n(.*?)```", page.read_text(), re.DOTALL)
        assert recipes, page
        for recipe in recipes:
            assert "deploy/github-action" in recipe or re.search(r"LEASEHOLD_MAX_SKEW\s*[:=] ?'?30s", recipe), recipe
