"""What the victims said before they were killed, and whether the database knows all of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import apsw

import leasehold
from leasehold.domain.outcomes import Granted, Lost, Refused, Renewed
from leasehold.testing.checker import check

if TYPE_CHECKING:
    from leasehold.domain.events import Event

PATIENCE = 60.0
SAMPLE = 10
"""So many of the leases that a victim has released are asked for one by one."""


class Victim:
    """A process that takes and releases leases, with everything that it has acknowledged so far."""

    def __init__(self, url: str, number: int, at: int = 0, manner: str = "before") -> None:
        self.number = number
        self.held: dict[str, tuple[str, int]] = {}
        """Id to token and fence of what it has and was told so."""
        self.until: dict[str, int] = {}
        self.gone: set[str] = set()
        self.fences: list[int] = []
        self.said = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.victim", url, str(number), str(at), manner],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._hear(json.loads(line))
            self.said += 1

    def _hear(self, told: dict[str, object]) -> None:
        id_ = str(told.get("id"))
        if told["did"] == "acquired":
            assert isinstance(told["fence"], int)
            self.held[id_] = (str(told["token"]), told["fence"])
            self.fences.append(told["fence"])
        elif told["did"] == "renewed":
            assert isinstance(told["until"], int)
            self.until[id_] = told["until"]
        elif told["did"] == "releasing":
            del self.held[id_]  # from here on it may be gone, or not
        elif told["did"] == "released":
            self.gone.add(id_)

    def kill(self) -> None:
        """End it now."""
        self._process.kill()
        self.join()

    def join(self) -> None:
        """Wait for its end, which must be a violent one, and hear all that it said."""
        try:
            code = self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
        self._reader.join(PATIENCE)
        assert not self._reader.is_alive()
        assert self._process.stderr is not None
        assert self._process.stdout is not None
        complaints = self._process.stderr.read().decode()
        self._process.stderr.close()
        self._process.stdout.close()
        assert code == -9, complaints


def verify(url: str, victim: Victim, fences: list[int]) -> None:
    """Everything that was acknowledged is true, and what comes now comes after it."""
    with leasehold.connect(url, holder="coroner") as locks:
        for id_, (token, fence) in victim.held.items():
            renewed = locks.renew(id_, token)
            assert isinstance(renewed, Renewed), f"an acknowledged grant is lost: {renewed!r}"
            assert renewed.lease.fence == fence
            assert renewed.lease.expires_us >= victim.until.get(id_, 0)
        assert not victim.gone & {lease.id for lease in _leases(locks)}, "a released lease is back"
        for id_ in sorted(victim.gone)[-SAMPLE:]:
            assert isinstance(locks.renew(id_, "any"), Lost), "a released lease is back"
        after = locks.acquire(f"after {victim.number}", ttl=3600)
        assert isinstance(after, Granted)
        assert after.lease.fence > max(fences, default=0), "a fence was given out again"


def bury(url: str, victim: Victim) -> None:
    """End what the victim still holds, so that the others can go on."""
    with leasehold.connect(url, holder="coroner") as locks:
        for lease in _leases(locks):
            if lease.holder == f"victim {victim.number}":
                locks.force_release(lease.id, by="coroner", reason="its holder was killed")


def _leases(locks: leasehold.Locks) -> tuple[leasehold.Lease, ...]:
    leases = locks.list()
    assert not isinstance(leases, Refused)
    return leases


def autopsy(url: str, path: str) -> None:
    """The file is sound, and its whole history keeps the promises."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    connection.close()
    with leasehold.connect(url) as locks:
        for lease in _leases(locks):
            locks.force_release(lease.id, by="coroner", reason="the end")
        assert check(history(locks), finished=True) == []


def history(locks: leasehold.Locks) -> list[Event]:
    """All of it, oldest first."""
    events: list[Event] = []
    while True:
        page = locks.history(limit=10_000, before=events[-1].seq if events else None)
        assert not isinstance(page, Refused)
        if not page:
            return events[::-1]
        events.extend(page)
