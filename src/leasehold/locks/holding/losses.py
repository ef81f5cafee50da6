"""Watch for leases that were taken from their holder: one thread for all the leases that a client holds.

A loss found here is only a hint. The holder then renews its lease, and the store's answer to that decides. Without any
hints, the holder learns of the loss at its next regular renewal.
"""

from __future__ import annotations

import os
import threading
import time

from leasehold.domain.events import LOSS_KINDS
from leasehold.errors import Closed, LeaseholdError
from leasehold.locks.queries import ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from leasehold.domain.events import Event
    from leasehold.domain.leases import Lease
    from leasehold.engine.engine import Engine
    from leasehold.locks.aio import AsyncLocks
    from leasehold.locks.sync import Locks
    from leasehold.requests.calls import LossSource

EVERY = 0.25
"""Seconds between two checks. A lease that is held for less than this costs no check and no connection."""
LINGER = 2.0
"""Seconds for which the idle thread, and its connection, wait for the next lease."""
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 8.0
"""Seconds between two tries while the source does not answer."""
MOST_OF_THE_TIME = 4
"""A check is followed by a pause of at least so many times its length."""


def watch_of(locks: Locks | AsyncLocks) -> LossWatch:
    """Return this process's watch of these locks. Its thread does not survive a fork, so a child gets another."""
    if locks._losses is None or locks._losses.is_forked:
        locks._losses = LossWatch(locks._answers.losses)
    return locks._losses


class LossWatch:
    """Calls back the holders of leases that may be lost. Its thread ends when nothing has been held for a while."""

    def __init__(self, open_source: Callable[[], LossSource]) -> None:
        self._open_source = open_source
        self._pid = os.getpid()
        self._changing = threading.Lock()
        self._hints: dict[str, list[Callable[[], None]]] = {}
        self._leases: dict[str, Lease] = {}
        self._changes = 0
        self._thread: threading.Thread | None = None

    @property
    def is_forked(self) -> bool:
        """True in a child process, where the thread does not run."""
        return os.getpid() != self._pid

    def add(self, lease: Lease, hint: Callable[[], None]) -> None:
        """Call `hint`, from the watching thread, whenever this lease may be lost."""
        with self._changing:
            self._hints.setdefault(lease.id, []).append(hint)
            self._leases[lease.id] = lease
            self._changes += 1
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="leasehold-watch", daemon=True)
                thread.start()
                self._thread = thread

    def remove(self, lease: str, hint: Callable[[], None]) -> None:
        """Stop calling this `hint`."""
        with self._changing:
            hints = self._hints.get(lease, [])
            if hint in hints:
                hints.remove(hint)
            if not hints and self._hints.pop(lease, None) is not None:
                del self._leases[lease]
                self._changes += 1

    # ----------------------------------------------------------------------------------------- its thread

    def _run(self) -> None:
        source: LossSource | None = None
        try:
            while self._wait_for_leases(source is not None):
                source = source or self._open_source()
                self._watch(source)
        except LeaseholdError:
            return  # closed, or this server sends no hints: renewals will find out
        finally:
            with self._changing:
                if self._thread is threading.current_thread():
                    self._thread = None
            if source is not None:
                source.close()

    def _wait_for_leases(self, is_open: bool) -> bool:
        """Wait until a lease has been held for a moment; False once the thread should end."""
        before = self._ids()
        idle_until = time.monotonic() + LINGER
        while not before or not is_open:
            time.sleep(EVERY)
            held = self._ids()
            if before & held:
                return True
            before = held
            if held:
                idle_until = time.monotonic() + LINGER
            elif time.monotonic() >= idle_until and self._ends():
                return False
        return True

    def _ids(self) -> set[str]:
        with self._changing:
            return set(self._leases)

    def _ends(self) -> bool:
        with self._changing:
            if not self._leases:
                self._thread = None
            return not self._leases

    def _watch(self, source: LossSource) -> None:
        """Until nothing is held any more."""
        pause, seen, leases = FIRST_PAUSE, -1, dict[str, "Lease"]()
        while True:
            with self._changing:
                if not self._leases:
                    return
                if self._changes != seen:
                    seen, leases = self._changes, self._leases.copy()
            try:
                lost = source.look(leases, EVERY)
            except Closed:
                raise
            except (OSError, LeaseholdError):  # renewals tell the holder what is wrong with its store
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                pause = FIRST_PAUSE
                for id_ in lost:
                    self._hint(id_)

    def _hint(self, id_: str) -> None:
        """Give a hint for a lease, or for every lease of a session, also for leases added since the last poll."""
        with self._changing:
            ids = [id_] if id_ in self._leases else [each.id for each in self._leases.values() if each.session == id_]
            hints = [hint for lease in ids for hint in self._hints[lease]]
        for hint in hints:
            hint()


class StoreLosses:
    """Losses in a store that this process has opened itself."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._store = engine.store
        self._mark: object = None
        self._checked: frozenset[str] = frozenset()
        """The leases that were looked at under that mark."""
        self._is_hinted = True
        engine.observe = self._observe

    def _observe(self, events: Sequence[Event]) -> None:
        """Called by the engine: other threads of this process may end leases as well."""
        if any(event.kind in LOSS_KINDS for event in events):
            self._is_hinted = True

    def look(self, leases: Mapping[str, Lease], seconds: float) -> Collection[str]:
        """Wait for so long, then read the held leases if anything may have happened to them."""
        time.sleep(seconds)
        mark, held = self._store.loss_mark(), frozenset(leases)
        wanted = held if mark != self._mark or self._is_hinted else held - self._checked
        if not wanted:
            return ()
        begun = time.monotonic()
        self._is_hinted = False  # before the look: what happens from here on is a reason for the next one
        try:
            lost = ended(self._store, wanted)
        except BaseException:
            self._is_hinted = True
            raise
        self._mark, self._checked = mark, held
        time.sleep(MOST_OF_THE_TIME * (time.monotonic() - begun))
        return lost

    def close(self) -> None:
        """Stop listening to the engine."""
        self._engine.observe = None
