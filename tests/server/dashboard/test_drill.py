"""Three in the morning: a deploy is stuck. Find it, its holder with key, host and trace, release it; the next one runs.

By page alone and by command line alone, in at most six actions each. An action is a click, a text that is typed, an
address that is opened, or a command.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.kit.browsing import PATIENCE_MS, Watch
from tests.kit.serving import PATIENCE, Running, create_key, id_of, serving, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

TARGET = "deploy://api-prod"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
REASON = "it has hung since midnight"
ACTIONS = 6
HOST = os.uname().nodename
HOLDER = "deployer"
STUCK = ("run", TARGET, "--name", "release 1.4", "--", sys.executable, "-c", "import time; time.sleep(3600)")


class Night:
    """A server, a deploy that hangs under its lease, another one that waits, and what the operator did so far."""

    def __init__(self, server: Running, folder: Path, admin: str, agent: str) -> None:
        self.server = server
        self.folder = folder
        self.admin = admin
        self.agent = agent
        self.actions = 0
        self.jobs: list[subprocess.Popen[str]] = []

    @property
    def next(self) -> subprocess.Popen[str]:
        """The deploy that waits."""
        return self.jobs[-1]

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        """Run a command as the job of a deploy."""
        return subprocess.Popen(self._command(words), env=self._env(self.agent, env), text=True, stdout=subprocess.PIPE)

    def operator(self, *words: str) -> str:
        """Run a command as the operator: one action. Return what it printed."""
        self.act()
        done = subprocess.run(
            self._command(words),
            env=self._env(self.admin, {}),
            text=True,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def act(self) -> None:
        """Count an action."""
        self.actions += 1
        assert self.actions <= ACTIONS

    def check_identified(self, told: str) -> None:
        """The holder is known by key, host and trace, and by its work; its name says none of it."""
        for part in (id_of(self.agent), HOLDER, HOST, TRACE, "release 1.4"):
            assert part in told, part

    def _command(self, words: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "leasehold.cli", *words]

    def _env(self, key: str, more: dict[str, str]) -> dict[str, str]:
        kept = {"PATH", "LANG", "USER", "COVERAGE_PROCESS_START"}
        own = {name: value for name, value in os.environ.items() if name in kept}
        own |= {"HOME": str(self.folder), "LEASEHOLD_URL": self.server.url, "LEASEHOLD_API_KEY": key}
        return own | more


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    admin, agent = (create_key(tmp_path, role, name=name) for role, name in (("admin", "ops"), ("agent", "ci")))
    with serving(tmp_path) as server, ExitStack() as stack:
        it = Night(server, tmp_path, admin, agent)
        for words, env in (
            (STUCK, {"TRACEPARENT": f"00-{TRACE}-00f067aa0ba902b7-01", "LEASEHOLD_HOLDER": HOLDER}),
            (("run", TARGET, "--wait", "10m", "--name", "release 1.5", "--", "sh", "-c", "echo deployed"), {}),
        ):
            job = stack.enter_context(it.start(*words, **env))
            stack.callback(job.kill)
            it.jobs.append(job)
            until(lambda: len(_seen(server, admin)) == len(it.jobs))
        yield it


def _seen(server: Running, key: str) -> list[object]:
    seen = server.get(f"inspect?resource={TARGET}", key=key).json
    return [*seen["leases"], *seen["waiting"]]


def test_by_page_alone(browser: Browser, night: Night) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    watch = Watch(page, night.server.url)
    night.act()
    page.goto(f"{night.server.url}/#now?long_hold=1&long_wait=1")
    night.act()
    page.get_by_label("Key", exact=True).fill(night.admin)
    page.get_by_label("Key", exact=True).press("Enter")
    stuck = page.locator("#alerts .alert", has_text="long hold")
    expect(stuck).to_contain_text(TARGET)
    expect(stuck.locator("time")).to_have_text(re.compile("ago|now"))
    night.act()
    stuck.get_by_role("link").click()
    line = page.locator(".subject table").first
    expect(line).to_contain_text(TRACE)
    night.check_identified(line.inner_text())
    night.act()
    line.get_by_role("button", name="Force-release").click()
    night.act()
    page.get_by_role("dialog").get_by_label("Reason").fill(REASON)
    night.act()
    page.get_by_role("dialog").get_by_role("button", name="Force-release").click()
    assert night.next.communicate(timeout=PATIENCE)[0] == "deployed\n"
    expect(page.locator(".subject .events")).to_contain_text(f"by ops: {REASON}")
    expect(page.locator(".subject .events")).to_contain_text("released")
    assert not watch.errors
    context.close()


def test_by_command_line_alone(night: Night) -> None:
    assert f"waits for {TARGET}" in night.operator("graph")
    night.check_identified(night.operator("inspect", TARGET))
    assert "Released" in night.operator("force-release", TARGET, "--reason", REASON)
    assert night.next.communicate(timeout=PATIENCE)[0] == "deployed\n"
    told = night.operator("history", TARGET)
    assert REASON in told
    assert "completed" in told
