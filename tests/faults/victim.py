"""A process that takes, renews and releases leases and tells each answer, until it is killed.

What it says on its standard output, it says after the answer was there (`acquired`, `renewed`, `released`), or
before it asks (`releasing`). It may be told to kill itself at a certain step of writing to the database, before that
step, in the middle of it, or after it: so no moment of a commit is left out.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from typing import TYPE_CHECKING

import apsw

import leasehold
from leasehold.domain.outcomes import Granted, Released, Renewed
from leasehold.stores.sqlite.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.stores.sqlite.wal import Mark

KEEP = 6
"""How many leases it holds at most."""


class Fuse:
    """Counts the steps of writing, and ends the process at one of them."""

    def __init__(self, at: int, manner: str) -> None:
        self.at = at
        self.manner = manner
        self.steps = 0
        self.is_armed = False

    def burn(self, half: Callable[[], object], whole: Callable[[], object]) -> None:
        """One step; `half` does only a part of it."""
        self.steps += self.is_armed
        if not (self.is_armed and self.steps == self.at):
            whole()
            return
        if self.manner == "amidst":
            half()
        elif self.manner == "after":
            whole()
        os.kill(os.getpid(), signal.SIGKILL)


class DyingFile(apsw.VFSFile):
    """A file of the database; each write and sync is a step."""

    fuse: Fuse

    def __init__(self, name: apsw.URIFilename | str | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 (SQLite's name)
        write = super().xWrite
        self.fuse.burn(lambda: write(bytes(data[: len(data) // 2]), offset), lambda: write(data, offset))

    def xSync(self, flags: int) -> None:  # noqa: N802
        sync = super().xSync
        self.fuse.burn(lambda: None, lambda: sync(flags))


class DyingDisk(apsw.VFS):
    """All files of SQLite, unless asked otherwise."""

    def __init__(self) -> None:
        super().__init__("dying", "unix", makedefault=True)

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> DyingFile:  # noqa: N802
        return DyingFile(name, flags)


def arm(fuse: Fuse) -> DyingDisk:
    """From now on each write, sync and mark is a step."""
    DyingFile.fuse = fuse
    set_mark = Gate.set_mark

    def set_mark_or_die(gate: Gate, mark: Mark) -> None:
        fuse.burn(lambda: None, lambda: set_mark(gate, mark))

    Gate.set_mark = set_mark_or_die  # type: ignore[method-assign, assignment]
    return DyingDisk()


def tell(**what: object) -> None:
    """Write it atomically: a reader sees all of it or nothing."""
    os.write(1, json.dumps(what).encode() + b"\n")


def work(locks: leasehold.Locks, chance: random.Random, number: str) -> None:
    """Take, renew and release, for ever."""
    held: list[Granted] = []
    turn = 0
    while True:
        turn += 1
        name = f"contested {chance.randrange(10)}" if chance.random() < 0.3 else f"mine {number} {turn}"
        taken = locks.acquire(name if chance.random() < 0.8 else [name, f"more {number} {turn}"], ttl=3600)
        if isinstance(taken, Granted):
            held.append(taken)
            tell(did="acquired", id=taken.lease.id, token=taken.token, fence=taken.lease.fence)
        if held and chance.random() < 0.3:
            one = chance.choice(held)
            renewed = locks.renew(one.lease.id, one.token)
            assert isinstance(renewed, Renewed), renewed
            tell(did="renewed", id=one.lease.id, until=renewed.lease.expires_us)
        while len(held) > KEEP or (held and chance.random() < 0.4):
            one = held.pop(chance.randrange(len(held)))
            tell(did="releasing", id=one.lease.id)
            released = locks.release(one.lease.id, one.token)
            assert isinstance(released, Released), released
            assert released.released, released
            tell(did="released", id=one.lease.id)


def main(url: str, number: str, at: str, manner: str) -> None:
    """Work until the end comes: from outside, or by one's own hand at that step."""
    fuse = Fuse(int(at), manner)
    disk = arm(fuse) if fuse.at else None
    chance = random.Random(f"{number} {at}")
    with leasehold.connect(url, holder=f"victim {number}") as locks:
        fuse.is_armed = True
        tell(did="began", disk=str(disk))
        work(locks, chance, number)


if __name__ == "__main__":
    main(*sys.argv[1:])
