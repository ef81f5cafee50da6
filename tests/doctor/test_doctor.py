"""What `leasehold doctor` finds: in a healthy store, and in each way a store can be ill."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold import doctor as doctoring
from leasehold.cli import tokens as state
from leasehold.config import identity
from leasehold.config import settings as config
from leasehold.doctor.contents import unswept
from leasehold.domain.entries import Hold, LeaseRequest
from leasehold.domain.timestamps import SECOND
from tests.kit.serving import until
from tests.kit.someone import repository, settle

if TYPE_CHECKING:
    from pathlib import Path

    from leasehold.doctor import Finding


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return settle(tmp_path, monkeypatch)


@pytest.fixture
def database(home: Path) -> Path:
    """A database with one lease that was given back."""
    path = home / "locks" / "leasehold.db"
    with leasehold.connect(f"sqlite://{path}?create=1", holder="ada") as locks:
        outcome = locks.acquire("issue:1", ttl=60)
        assert isinstance(outcome, leasehold.Granted)
        locks.release(outcome.lease.id, outcome.token)
    return path


def examined(path: Path) -> list[Finding]:
    return doctoring.examine(config.find(f"sqlite://{path}"))


def on(topic: str, findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.topic == topic]


def one(topic: str, findings: list[Finding]) -> Finding:
    (finding,) = on(topic, findings)
    return finding


def test_a_repository_whose_locks_cannot_be_used_is_reported_with_the_command(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = repository(home / "app")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)  # root may write everywhere
    found = one("reachable", doctoring.examine(config.find(cwd=str(place))))
    assert found.text.endswith("locks kept elsewhere would keep nobody out")
    assert found.advice.startswith("have the directory of the locks shared with a group of yours, or set LEASEHOLD_URL")
    assert found.command.startswith(f"mkdir -p {place}/.git/leasehold && chgrp -R GROUP ")
    (home / "broken").mkdir()
    (home / "broken" / ".git").write_text("gitdir: /nowhere\n")
    found = one("reachable", doctoring.examine(config.find(cwd=str(home / "broken"))))
    assert found.advice == "set url in leasehold.toml, or LEASEHOLD_URL, to the shared store"
    assert found.command == "export LEASEHOLD_URL=https://locks.example.com"


def test_a_healthy_store_has_nothing_to_repair(database: Path) -> None:
    findings = examined(database)
    assert {finding.topic for finding in findings if finding.ok} >= {
        *("url", "settings", "holder", "permissions", "disk", "reachable", "clock", "schema", "file", "fences"),
        *("history", "leases", "queues", "tokens", "versions"),
    }
    assert [finding for finding in findings if finding.ok is not True] == []
    assert str(database) in one("url", findings).text
    assert "the argument" in one("url", findings).text
    assert "next one is 2, the high-water mark is 2" in one("fences", findings).text
    assert one("history", findings).text.startswith("2 events, the oldest")
    assert "SQLite 3." in one("versions", findings).text


def test_looking_changes_nothing(database: Path) -> None:
    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in sorted(database.parent.iterdir()) if not path.name.endswith("-shm")}

    examined(database)
    before = contents()
    examined(database)
    assert contents() == before


def test_a_store_that_is_not_there_yet_is_not_created(home: Path) -> None:
    found = one("reachable", examined(home / "leasehold.db"))
    assert found.ok is None
    assert "no database yet" in found.text
    assert not (home / "leasehold.db").exists()


def test_a_directory_that_the_first_acquire_would_miss_is_reported(home: Path) -> None:
    found = one("reachable", examined(home / "new" / "leasehold.db"))
    assert (found.ok, found.text) == (False, f"there is no directory {home / 'new'}")
    assert not (home / "new").exists()


def test_a_place_where_none_can_be_created(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    found = one("reachable", examined(home / "leasehold.db"))
    assert found.ok is False
    assert "LEASEHOLD_URL" in found.advice


@pytest.mark.parametrize("end", ["?foo=1", "?retention_days=abc"])
def test_a_url_that_every_other_command_refuses_is_wrong_here_too(database: Path, end: str) -> None:
    for path in (database, database.with_name("not-there-yet.db")):
        finding = one("reachable", doctoring.examine(config.find(f"sqlite://{path}{end}")))
        assert finding.ok is False
        assert end[1:4] in finding.text
    assert one("reachable", doctoring.examine(config.find("sqlite:/"))).ok is False


def test_a_quarantine_is_told_before_anybody_has_come_by(database: Path) -> None:
    with leasehold.connect(f"sqlite://{database}", holder="ada") as locks:
        locks.acquire("half done", ttl=0.01, on_expiry="quarantine")
        until(lambda: locks.list() == ())
    told = [finding.text for finding in on("leases", examined(database))]
    assert told[0] == "0 live"
    assert "half done is quarantined since ada lost it" in told[1]


def test_settings_are_told_with_their_origin(home: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "leasehold.toml").write_text('space = "acme"')
    monkeypatch.setenv("LEASEHOLD_HOLDER", "coder-3")
    monkeypatch.setenv("LEASEHOLD_SESSION", "run-1.sesame")
    findings = examined(database)
    assert one("settings", findings).text == f"holder from LEASEHOLD_HOLDER; space from {home}/leasehold.toml"
    assert one("holder", findings).text == "coder-3 (as it was given)"
    assert one("session", findings).text == "run-1"
    assert "sesame" not in str(findings)


def test_a_session_that_makes_no_sense(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_SESSION", "nonsense")
    assert [finding.ok for finding in on("holder", examined(database))] == [True, False]


def test_a_git_directory_that_cannot_be_used_is_told(home: Path) -> None:
    (home / ".git").write_text("gitdir: /nowhere\n")
    told = one("reachable", doctoring.examine(config.find()))
    assert told.ok is False
    assert "/nowhere" in told.text
    assert "LEASEHOLD_URL" in told.advice


def test_a_database_that_is_shared_with_a_group_is_well(database: Path) -> None:
    database.parent.chmod(0o2770)
    for each in database.parent.iterdir():
        each.chmod(0o660)
    told = one("permissions", examined(database))
    assert told.ok is True
    assert "shared with the group" in told.text


# ------------------------------------------------------------------------------------------------ the files


@pytest.mark.parametrize(("mode", "ok"), [(0o666, False), (0o620, False), (0o644, None), (0o600, True)])
def test_modes_of_the_database(database: Path, mode: int, ok: bool | None) -> None:
    database.chmod(mode)
    findings = on("permissions", examined(database))
    assert {finding.ok for finding in findings} == {ok}
    if ok is not True:
        assert findings[0].command == f"chmod 600 {database}"


def test_a_directory_that_others_may_write(database: Path) -> None:
    database.parent.chmod(0o777)
    assert one("permissions", examined(database)) == (
        *("permissions", False, f"others may change {database.parent} (mode 0777)"),
        *("keep others out", f"chmod 700 {database.parent}"),
    )


def test_files_of_another_user(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_242)
    findings = on("permissions", examined(database))
    assert findings
    assert all(finding.ok is None and "another user" in finding.text for finding in findings)


@pytest.mark.parametrize(("blocks", "ok"), [(0, False), (100_000, None), (100_000_000, True)])
def test_free_space(database: Path, monkeypatch: pytest.MonkeyPatch, blocks: int, ok: bool | None) -> None:
    real = os.statvfs(database)
    fields = list(real)
    fields[1], fields[4] = 4_096, blocks
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(fields))
    assert one("disk", examined(database)).ok is ok


def test_what_is_no_database_of_ours(home: Path) -> None:
    path = home / "notes.txt"
    path.write_text("just some text, and quite enough of it to be sure\n" * 50)
    found = one("reachable", examined(path))
    assert found.ok is False
    assert "not a database" in found.text
    assert path.read_text().startswith("just some text")


def test_a_damaged_database_is_found_and_raises_nothing(database: Path) -> None:
    import apsw

    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    data = bytearray(database.read_bytes())
    for place in range(4_096, len(data), 4_096):
        data[place : place + 64] = b"\xa5" * 64
    database.write_bytes(data)
    assert any(finding.ok is False for finding in examined(database))


def test_a_restored_backup_is_told_with_the_way_out(home: Path, database: Path) -> None:
    backup = home / "backup.db"
    subprocess.run(["cp", str(database), str(backup)], check=True)
    with leasehold.connect(f"sqlite://{database}") as locks:
        assert isinstance(locks.acquire("issue:2", ttl=60), leasehold.Granted)
    backup.replace(database)
    found = one("reachable", examined(database))
    assert found.ok is False
    assert found.command == "leasehold doctor --accept-restore"
    choice = config.find(f"sqlite://{database}")
    assert one("reachable", doctoring.examine(choice, accept_restore=True)).ok
    assert one("reachable", doctoring.examine(choice)).ok


def test_a_wall_clock_that_was_set(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 3_600 * 10**9)
    found = one("clock", examined(database))
    assert found.ok is None
    assert "ahead of the wall clock" in found.text
    assert "leases live exactly as long as they should" in found.text


# ---------------------------------------------------------------------------------------- leases and queues


def test_live_and_quarantined_leases_and_those_of_dead_processes(database: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    host = os.uname().nodename
    with leasehold.connect(f"sqlite://{database}") as locks:
        locks.acquire("deploy://api", ttl=600, holder=f"ada@{host}:{dead.pid}-5be07a16")
        locks.acquire("live", ttl=600, holder=identity.of_process())
        broken = locks.acquire("deploy://db", ttl=600, on_expiry="quarantine", holder="eve")
        assert isinstance(broken, leasehold.Granted)
        locks.force_release(broken.lease.id, by="ops", reason="test")
        first, *others = on("leases", examined(database))
    assert first.text.startswith("2 live")
    assert [finding.ok for finding in others] == [None, None]
    assert "deploy://api is held by" in others[0].text
    assert others[0].command.startswith("leasehold force-release ")
    assert "deploy://db is quarantined since eve lost it" in others[1].text


def test_expired_leases_that_nobody_swept_are_counted() -> None:
    ask = LeaseRequest("default", (), "X", 1, SECOND, "ada", None, (), None, None, None, 0, False, None)
    hold = Hold("l1-0", "X", 1, "a", "ada", 1, 0, 5 * SECOND, 0, ask)
    assert "1 expired" in unswept([hold], 6 * SECOND)
    assert unswept([hold], 4 * SECOND) == ""


def test_the_longest_queue_is_named(database: Path) -> None:
    import threading

    with leasehold.connect(f"sqlite://{database}", holder="ada") as locks:
        held = locks.acquire("pool", ttl=600)
        assert isinstance(held, leasehold.Granted)
        threads = [
            threading.Thread(target=locks.acquire, args=("pool",), kwargs={"ttl": 0.05, "wait": 60, "holder": name})
            for name in ("bob", "eve")
        ]
        for thread in threads:
            thread.start()
        _until(lambda: "2 wait" in one("queues", examined(database)).text)
        assert "that of pool, with 2" in one("queues", examined(database)).text
        locks.release(held.lease.id, held.token)
        for thread in threads:
            thread.join()


def _until(is_so: object) -> None:
    assert callable(is_so)
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ------------------------------------------------------------------------------------------------- tokens


def test_tokens_that_others_can_read(home: Path, database: Path) -> None:
    state.Tokens("u", "default", identity.NamedIdentity("ada")).remember(["issue:1"], "l1-" + 32 * "0", "sesame")
    assert "2 private files" in one("tokens", examined(database)).text
    tokens = home / "state" / "leasehold" / "tokens"
    exposed = next(tokens.iterdir())
    exposed.chmod(0o644)
    found = one("tokens", examined(database))
    assert found.ok is False
    assert found.command.startswith(f"chmod 600 {exposed}")
    tokens.chmod(0o755)
    assert one("tokens", examined(database)).command.startswith(f"chmod 700 {tokens}")


def test_names_that_give_orders_to_a_terminal_are_shown_inert(database: Path) -> None:
    host = os.uname().nodename
    with leasehold.connect(f"sqlite://{database}") as locks:
        locks.acquire("x\u202ey", ttl=600, holder=f"\u202e@{host}:999999999")
        findings = examined(database)
    assert all(f"{finding.text}{finding.advice}{finding.command}".isprintable() for finding in findings)
