"""Histories of clients: each call and its reply, or none, in a file that outlives the client. Must judge nothing.

Every line is written with one system call, before the call is made and after its reply was there. So the history of a
client that was killed is complete, but for the reply that it did not get. Times are `CLOCK_MONOTONIC`, which is the
same for all processes of a machine, read before anything in this process could be given another clock.
"""

from __future__ import annotations

import json
import os
import threading
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from leasehold.domain.nouns import Noun
from leasehold.domain.outcomes import (
    Cancelled,
    Deadlock,
    Granted,
    Held,
    Lost,
    Refused,
    Released,
    Renewed,
    TimedOut,
)
from leasehold.domain.sessions import SessionEnded, SessionRenewed, SessionStarted
from leasehold.testing.observations import Observation

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

true_clock = monotonic_ns
"""Bound now, before anything in this process could replace it."""

KINDS: dict[type, str] = {
    Granted: "granted",
    Held: "held",
    TimedOut: "timeout",
    Deadlock: "deadlock",
    Refused: "refused",
    Renewed: "renewed",
    Lost: "lost",
    Released: "released",
    Cancelled: "cancelled",
    SessionStarted: "started",
    SessionRenewed: "heartbeat",
    SessionEnded: "ended",
}
"""Names of outcomes in a history."""


class Invocation(Noun):
    """One call of one client; `reply` is None if there was none, and nobody knows what became of the call."""

    client: str
    verb: str
    asked: dict[str, Any]
    call: int
    reply: int | None = None
    kind: str = "unknown"
    """One of `KINDS`, `unknown` after an error that leaves it open, or `broken` after one that must not happen."""
    lease: str = ""
    fence: int = 0
    said: str = ""
    """The code of a refusal, the reason of a loss, or an error."""


class Writing(Noun):
    """One client changed what is guarded: it read at one time, and had written the new value at another."""

    client: str
    resource: str
    value: int
    fence: int
    read: int
    written: int
    is_late: bool
    """True if the lease was lost by the end: without a fence, another holder may have been there meanwhile."""


class ClientHistory(Noun):
    """All that the clients of a run recorded."""

    invocations: list[Invocation]
    sections: list[Observation]
    writings: list[Writing]
    complaints: list[str]
    """Faults that clients themselves found."""


class Recorder:
    """Writes the history of the clients of one process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._counting = threading.Lock()
        self._calls = 0

    def called(self, client: str, verb: str, asked: dict[str, Any]) -> tuple[int, int]:
        """Record that a client is about to call; return the number of the call, and the time before it."""
        with self._counting:
            self._calls += 1
            number = self._calls
        now = true_clock()
        self._write(["call", number, client, verb, asked, now])
        return number, now

    def replied(self, number: int, kind: str, lease: str = "", fence: int = 0, said: str = "") -> int:
        """Record what came back; return the time."""
        now = true_clock()
        self._write(["reply", number, now, kind, lease, fence, said])
        return now

    def stayed(self, section: Observation) -> None:
        """Record that a client was in a critical section."""
        self._write(["section", *section])

    def wrote(self, writing: Writing) -> None:
        """Record that a client changed what is guarded."""
        self._write(["writing", *writing])

    def complain(self, about: str) -> None:
        """Record something that must not happen."""
        self._write(["complaint", about])

    def _write(self, line: list[Any]) -> None:
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class GrantCounter:
    """Counts the grants in the histories of a run that goes on, and reads each line once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._grants = 0

    def count(self) -> int:
        """Return the number of grants that clients have recorded so far."""
        for path in (*self._folder.glob("history-*.jsonl"), *self._folder.glob("flood-*.txt")):
            granted = b',"granted",' if path.suffix == ".jsonl" else b" granted "
            begin = self._offsets.get(path, 0)
            with path.open("rb") as file:
                file.seek(begin)
                lines = file.read()
            end = lines.rfind(b"\n") + 1  # a client may be writing the last line
            self._grants += lines.count(granted, 0, end)
            self._offsets[path] = begin + end
        return self._grants


def kind_of(outcome: object) -> str:
    """Return the name of an outcome in a history; `told` if it is what was asked for, such as a list."""
    return KINDS.get(type(outcome), "told")


def read(paths: Iterable[Path]) -> ClientHistory:
    """Return what these files hold. A last line that was cut short by a kill is a call that was not made."""
    found = ClientHistory([], [], [], [])
    for path in sorted(paths):
        _read(path, found)
    found.invocations.sort(key=lambda each: each.call)
    return found


def _read(path: Path, found: ClientHistory) -> None:
    calls: dict[int, Invocation] = {}
    for line in path.read_bytes().split(b"\n")[:-1]:
        kind, *fields = json.loads(line)
        if kind == "call":
            number, client, verb, asked, at = fields
            calls[number] = Invocation(client, verb, asked, at)
        elif kind == "reply":
            number, at, outcome, lease, fence, said = fields
            calls[number] = calls[number]._replace(reply=at, kind=outcome, lease=lease, fence=fence, said=said)
        elif kind == "section":
            found.sections.append(Observation(*fields))
        elif kind == "writing":
            found.writings.append(Writing(*fields))
        else:
            found.complaints.append(fields[0])
    found.invocations.extend(calls.values())
