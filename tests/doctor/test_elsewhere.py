"""The doctor on locks that live elsewhere: a server, PostgreSQL, or nowhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold import doctor as doctoring
from leasehold.config import settings as config
from tests.kit.postgres import schema
from tests.kit.remotes import bare
from tests.kit.serving import create_key, id_of, serving
from tests.kit.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path

    from leasehold.doctor import Finding


def found(url: str) -> dict[str, Finding]:
    return {finding.topic: finding for finding in doctoring.examine(config.find(url))}


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "postgresql://ada:sesame@127.0.0.1:1/locks"])
def test_who_does_not_answer_is_wrong_and_passwords_are_not_shown(url: str) -> None:
    findings = found(url)
    assert findings["reachable"].ok is False
    assert findings["reachable"].advice
    assert "sesame" not in str(findings)


@pytest.mark.parametrize("url", ["nonsense:x", "sqlite", "git+file:///no/such/place.git"])
def test_what_is_no_place_for_locks_is_wrong(url: str) -> None:
    assert found(url)["reachable"].ok is False


def test_a_git_remote_that_is_not_there_is_told_once_and_truly() -> None:
    findings = doctoring.examine(config.find("git+file:///no/such/place.git"))
    assert [finding.ok for finding in findings if finding.topic == "reachable"] == [False]
    assert not {"clock", "leases"} & {finding.topic for finding in findings}  # nobody knows


def test_a_git_remote_that_is_there(tmp_path: Path) -> None:
    url = f"git+file://{bare(tmp_path / 'remote.git')}"
    with leasehold.connect(url, holder="ada") as locks:
        locks.acquire("x", ttl=60)
    findings = found(url)
    assert {findings[topic].ok for topic in ("reachable", "clock", "leases")} == {True}
    assert findings["clock"].text.startswith("a git remote has none")
    assert findings["leases"].text == "1 live"


def test_a_server_that_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path) as running:
        with leasehold.connect(running.url, holder="ada") as locks:
            locks.acquire("x", ttl=60)
        findings = found(running.url)
        assert {findings[topic].ok for topic in ("reachable", "permissions", "clock", "leases")} == {True}
        assert findings["leases"].text == "1 live"
        real = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real() - 3_600 * 10**9)
        assert "59m59s ahead of" in found(running.url)["clock"].text


def test_each_of_several_servers_is_asked_whether_it_is_ready(tmp_path: Path) -> None:
    with serving(tmp_path) as one:
        url = f"{one.url},http://127.0.0.1:1"
        ready = [each for each in doctoring.examine(config.find(url)) if each.topic == "ready"]
    assert [each.ok for each in ready] == [True, False]
    assert f"Leasehold {leasehold.__version__}" in ready[0].text
    assert "127.0.0.1:1" in ready[1].text
    assert ready[1].advice


def test_a_server_that_does_not_let_us_in_and_one_that_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = create_key(tmp_path, "agent", prefixes=("path:docs",))
    with serving(tmp_path) as running:
        findings = found(running.url)
        assert findings["reachable"].ok
        assert findings["permissions"].ok is False
        assert "LEASEHOLD_API_KEY" in findings["permissions"].advice
        monkeypatch.setenv("LEASEHOLD_API_KEY", key)
        findings = found(running.url)
        assert {finding.ok for finding in findings.values()} == {True}
        told = findings["permissions"].text
        assert told.startswith("you are agent:")
        assert told.endswith(f" by key {id_of(key)}: agent in the space default, only names that begin with path:docs")


def test_a_store_behind_a_network() -> None:
    with schema() as url:
        with leasehold.connect(url, holder="ada") as locks:
            locks.acquire("x", ttl=60)
        findings = found(url)
    assert {findings[topic].ok for topic in ("reachable", "clock", "leases", "queues")} == {True}
    assert findings["leases"].text == "1 live"


def test_the_command_says_so_too(tmp_path: Path) -> None:
    with Shell(tmp_path / "home") as shell:
        done = shell.run("doctor", "--url", "http://127.0.0.1:1")
        assert done.code == 1
        assert "WRONG  reachable" in done.out
        assert shell.json("doctor", "--url", "http://127.0.0.1:1")["error"]["code"] == "unwell"
