"""A process that takes and releases names of its own as fast as it can: hundreds of tasks on one `aconnect`.

``python -m leasehold.testing.faults.flood TERMS``, with the terms of `clients`. It stops once its standard input ends.
Every answer is one short line, written before the task goes on, so a process that is killed leaves all answers that it
received. A call whose outcome stays unknown leaves its name, which may be held, and goes on with a new one.

`flood_history` judges what these processes write.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import leasehold
from leasehold.domain.outcomes import Granted, Released
from leasehold.errors import LeaseholdError
from leasehold.testing.faults.clients import EXPECTED, TRIES, ClientTerms
from leasehold.testing.faults.recording import kind_of, true_clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasehold.locks.aio import AsyncLocks

PREFIX = "flood "
"""Of all names that floods take."""
SECOND = 1_000_000_000


class Flood:
    """The tasks of one process."""

    def __init__(self, locks: AsyncLocks, terms: ClientTerms) -> None:
        self._locks = locks
        self._terms = terms
        path = Path(terms.folder) / f"flood-{terms.name}.txt"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._stopping = False

    async def run(self) -> None:
        """Let all tasks work until standard input ends."""
        tasks = [asyncio.create_task(self._work(number)) for number in range(self._terms.clients)]
        await asyncio.to_thread(sys.stdin.read)
        self._stopping = True
        await asyncio.gather(*tasks)
        os.close(self._file)

    async def _work(self, number: int) -> None:
        count, generation = 0, 0
        while not self._stopping:
            count += 1
            name = f"{PREFIX}{self._terms.name} {number} {generation}"
            if not await self._turn(name, f"{self._terms.name} {number} {count}"):
                generation += 1

    async def _turn(self, name: str, request: str) -> bool:
        """Take a name and release it. Return False if nobody knows whether it is free again."""
        begun = true_clock()
        acquire = lambda: self._locks.acquire(name, ttl=self._terms.ttl, request_id=request)  # noqa: E731
        granted = await self._until_known("acquire", name, acquire)
        if not isinstance(granted, Granted):
            return False
        until = begun + round(self._terms.ttl * self._terms.share * SECOND)
        released = await self._until_known("release", name, lambda: self._locks.release(granted), until)
        return isinstance(released, Released)

    async def _until_known(
        self, verb: str, name: str, ask: Callable[[], Awaitable[object]], until: int = 0
    ) -> object | None:
        """Ask, again while nobody knows what became of it. `until`: the caller counts on its lease until then."""
        called = true_clock()  # also of a retry, which may bring the lease of the first copy
        for _ in range(TRIES):
            try:
                outcome = await ask()
            except LeaseholdError as error:
                self._note(verb, called, "unknown" if error.code in EXPECTED else "broken", until, error.code, name)
                continue
            if isinstance(outcome, Granted):
                self._note(verb, called, "granted", outcome.lease.fence, outcome.lease.id, name)
            elif isinstance(outcome, Released):
                kind = "released" if outcome.released else "gone"
                self._note(verb, called, kind, until, outcome.lease, name)
            else:
                self._note(verb, called, kind_of(outcome), until, "-", name)
            return outcome
        return None

    def _note(self, verb: str, called: int, kind: str, number: int, lease: str, name: str) -> None:
        line = f"{verb} {called} {true_clock()} {kind} {number} {lease} {name}\n"
        os.write(self._file, line.encode())


async def main() -> None:
    """Flood what the terms name."""
    terms = ClientTerms(**json.loads(sys.argv[1]))
    async with await leasehold.aconnect(terms.url, holder=terms.name) as locks:
        await Flood(locks, terms).run()


if __name__ == "__main__":
    asyncio.run(main())
