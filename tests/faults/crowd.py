"""Workers that go on whatever happens to the store of their servers, and what they must never see. No tests in here."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import TYPE_CHECKING

from leasehold.domain.outcomes import Granted
from leasehold.errors import LeaseholdError
from leasehold.testing.conformance.asking import until
from tests.acceptance.servers import wandering

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    import leasehold

WORKERS = 6


class Load:
    """Workers that compete for one name over several servers or engines, and note whatever they see.

    They take these URLs in turn. With a long `ttl` nothing is hidden: a lease that is not released blocks all others.
    """

    def __init__(self, *urls: str, connect: Callable[[str, str], leasehold.Locks] = wandering, ttl: float = 3) -> None:
        self._urls = urls
        self._connect = connect
        self._ttl = ttl
        self._stopping = threading.Event()
        self._noting = threading.Lock()
        self._inside: set[str] = set()
        self.overlaps: list[str] = []
        self.fences: list[int] = []
        self.leases: list[str] = []
        """The ids of those that somebody was told to have."""
        self.turns = dict.fromkeys(range(WORKERS), 0)
        self.errors: list[LeaseholdError] = []
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(WORKERS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        with self._connect(self._urls[number % len(self._urls)], f"worker {number}") as locks:
            while not self._stopping.is_set():
                try:
                    self._turn(locks, number)
                except LeaseholdError as error:
                    self.errors.append(error)

    def _turn(self, locks: leasehold.Locks, number: int) -> None:
        granted = locks.acquire("contended", ttl=self._ttl, wait=5)
        if not isinstance(granted, Granted):
            return
        with self._noting:
            self.overlaps += [f"{number} and {other}" for other in self._inside]
            self._inside.add(str(number))
            self.fences.append(granted.lease.fence)
            self.leases.append(granted.lease.id)
        with self._noting:
            self._inside.discard(str(number))
        until(lambda: self._gives_back(locks, granted), "it is given back")
        self.turns[number] += 1

    def _gives_back(self, locks: leasehold.Locks, granted: Granted) -> bool:
        try:
            locks.release(granted.lease.id, granted.token)
        except LeaseholdError as error:
            self.errors.append(error)
            return False
        return True

    def goes_on(self, turns: int, meanwhile: Callable[[], object] = bool) -> None:
        """Wait until each worker has had so many turns more."""
        goals = {number: count + turns for number, count in self.turns.items()}

        def is_done() -> bool:
            meanwhile()
            return all(self.turns[number] >= goal for number, goal in goals.items())

        until(is_done, "everybody gets on")

    def takes(self, leases: int) -> None:
        """Wait until all workers together have had so many leases more, and none of them stands still meanwhile."""
        goal = len(self.fences) + leases
        while len(self.fences) < goal:
            self.goes_on(1)

    def was_safe(self) -> None:
        """No two were in at a time, and fences only grew."""
        assert self.overlaps == []
        assert all(earlier < later for earlier, later in pairwise(self.fences))

    def was_told(self) -> None:
        """Whatever went wrong was said clearly."""
        for error in self.errors:
            assert error.code in ("store", "unreachable", "outcome_unknown", "closed"), error
