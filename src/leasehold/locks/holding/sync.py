"""`lock()` for plain code: a `with` block under a lease that threads in the background keep alive."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from leasehold.errors import InvalidInput, LeaseLost, StoreError
from leasehold.locks.holding.held import FORKED, check_asked, check_on_lost, leave, release_unused, take
from leasehold.locks.holding.losses import watch_of
from leasehold.locks.holding.renewal import LOOK_AGAIN, steady
from leasehold.steps import drive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType
    from typing import Any, TypeAlias

    from leasehold.locks.holding.held import HeldLease, OnLost, R
    from leasehold.locks.sync import Locks
    from leasehold.steps import Steps

    Pick: TypeAlias = "Callable[[], tuple[KeptLease | None, float | None]]"

IN_USE = "this lock is held already and not re-entrant: use a locks.lock(...) of its own for each block and thread"
NOT_HELD = "this lock is not held: acquire it first"
LINGER = 1.0
"""Seconds for which idle threads wait for more to do: many locks in a row share them."""


class Lock:
    """A lock that acquires at the start of a `with` block, renews while it runs, and releases at its end.

    It may be used again after that, by one block at a time: it is not re-entrant.
    """

    def __init__(self, locks: Locks, on_lost: OnLost | None, asked: Mapping[str, Any]) -> None:
        check_on_lost(on_lost)
        check_asked(locks, asked)
        self._locks = locks
        self._on_lost = on_lost
        self._asked = asked
        self._kept: KeptLease | None = None
        self._entered = threading.Lock()

    def acquire(self) -> HeldLease:
        """As entering the block: raises `NotAcquired` if the answer is no. It is renewed until `release`."""
        return self.__enter__()

    def release(self) -> None:
        """As leaving the block, with the exception that is being handled, if any."""
        self.__exit__(None, sys.exception(), None)

    def __enter__(self) -> HeldLease:
        if not self._entered.acquire(blocking=False):
            raise RuntimeError(IN_USE)
        try:
            self._kept = self._take()
        except BaseException:
            self._entered.release()
            raise
        return self._kept.held

    def _take(self) -> KeptLease:
        keeper = keeper_of(self._locks)
        held = perform(take(self._asked), self._locks)
        try:
            return keeper.keep(held, self._on_lost)
        except BaseException as error:
            perform(release_unused(held.id, held.token, error), self._locks)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        kept = self._kept
        if kept is None:
            raise RuntimeError(NOT_HELD)
        try:
            self._leave(kept, error)
        except KeyboardInterrupt as interrupt:
            # Release now: otherwise the lease would stay, and perhaps be renewed for ever.
            if not kept.held.is_forked and keeper_of(self._locks).forget(kept):
                perform(release_unused(kept.held.id, kept.held.token, interrupt, why=""), self._locks)
            raise
        finally:
            self._kept = None
            self._entered.release()

    def _leave(self, kept: KeptLease, error: BaseException | None) -> None:
        if kept.held.is_forked:  # touch nothing: it is the parent's, and so is whatever its threads had locked
            refuse_fork(kept.held, error)
            return
        is_last = keeper_of(self._locks).stop_keeping(kept)
        perform(leave(kept.held, error, release=is_last), self._locks)


def terms(lock: Lock) -> Iterator[HeldLease]:
    """Yield each term of leadership; a leader that was deposed campaigns again."""
    while True:
        with suppress(LeaseLost), lock as term:
            yield term


def refuse_fork(held: HeldLease, error: BaseException | None) -> None:
    """Raise `LeaseLost` in a forked child that leaves its parent's block; add it to an error that leaves the block."""
    lost = LeaseLost(held.id, FORKED)
    if error is None:
        raise lost
    if not isinstance(error, LeaseLost):
        error.add_note(str(lost))


def perform(script: Steps[R], locks: Locks) -> R:
    """Run a script on these locks."""

    def do(step: tuple[str, Mapping[str, Any]] | float) -> object:
        if isinstance(step, tuple):
            verb, asked = step
            answer: object = getattr(locks, verb)(**asked)
            return answer
        time.sleep(step)
        return None

    return drive(script, do)


# ---------------------------------------------------------------------------------------- in the background


class KeptLease:
    """One lease in a keeper's care."""

    __slots__ = ("_wake", "busy", "held", "is_leaving", "on_lost", "told")

    def __init__(self, held: HeldLease, on_lost: OnLost | None, wake: Callable[[], None]) -> None:
        self.held = held
        self.on_lost = on_lost
        self._wake = wake
        self.busy = 0
        """The number of threads at work on it."""
        self.told = on_lost is None
        self.is_leaving = False

    def doubt(self) -> None:
        """Have the lease renewed at once: a hint says that it may be lost."""
        self.held.tenure.doubt()
        self._wake()

    def is_quiet(self) -> bool:
        """Return True if no thread is at work on it and its loss, if any, is reported."""
        return not self.busy and (self.told or not self.held.tenure.is_known_lost)


class Keeper:
    """Keeps the leases of one `Locks` alive: one thread renews, another reports losses.

    They are two, so that a store which does not answer cannot hold back the news that a lease is lost. Both end by
    themselves when there is nothing left to do.
    """

    def __init__(self, locks: Locks) -> None:
        self._locks = locks
        self._kept: list[KeptLease] = []
        self._losses = watch_of(locks)
        self._threads: dict[str, threading.Thread] = {}
        self._changed = threading.Condition()

    def keep(self, held: HeldLease, on_lost: OnLost | None) -> KeptLease:
        """Renew this lease from now on."""
        kept = KeptLease(held, on_lost, self._wake)
        with self._changed:
            self._kept.append(kept)
            try:
                self._losses.add(held.lease, kept.doubt)
                self._start("leasehold-renewal", self._next_due, self._renew)
                if on_lost is not None:
                    self._start("leasehold-losses", self._next_lost, self._tell)
            except BaseException:
                self.forget(kept)
                raise
            self._changed.notify_all()
        return kept

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def stop_keeping(self, kept: KeptLease) -> bool:
        """Stop renewing, and wait for the threads at work on it. Return True if no other block holds the lease."""
        with self._changed:
            kept.is_leaving = True
            try:
                if threading.current_thread() not in self._threads.values():
                    self._changed.wait_for(kept.is_quiet)
            finally:
                is_last = self.forget(kept)
            return is_last

    def forget(self, kept: KeptLease) -> bool:
        """Stop renewing at once. Return True if no other block holds the lease. May be called again."""
        self._losses.remove(kept.held.id, kept.doubt)
        with self._changed:
            self._kept = [other for other in self._kept if other is not kept]
            self._changed.notify_all()
            return all(other.held.id != kept.held.id for other in self._kept)

    # --------------------------------------------------------------------------------------- threads

    def _start(self, name: str, pick: Pick, work: Callable[[KeptLease], None]) -> None:
        if name not in self._threads:
            thread = threading.Thread(target=self._run, name=name, args=(name, pick, work), daemon=True)
            thread.start()
            self._threads[name] = thread

    def _run(self, name: str, pick: Pick, work: Callable[[KeptLease], None]) -> None:
        while (kept := self._wait_for_work(name, pick)) is not None:
            try:
                work(kept)
            finally:
                with self._changed:
                    kept.busy -= 1
                    self._changed.notify_all()

    def _wait_for_work(self, name: str, pick: Pick) -> KeptLease | None:
        with self._changed:
            while True:
                kept, pause = pick()
                if kept is not None:
                    kept.busy += 1
                    return kept
                is_woken = self._changed.wait(LINGER if pause is None else min(pause, LOOK_AGAIN))
                if not is_woken and not self._kept:
                    del self._threads[name]
                    return None

    def _next_due(self) -> tuple[KeptLease | None, float | None]:
        """Return the lease to renew now, or the seconds until there is one."""
        live = [kept for kept in self._kept if not kept.is_leaving and kept.held.tenure.reason is None]
        if not live:
            return None, None
        first = min(live, key=lambda kept: kept.held.tenure.pause())
        pause = first.held.tenure.pause()
        return (first, None) if pause <= 0 else (None, pause)

    def _next_lost(self) -> tuple[KeptLease | None, float | None]:
        """Return a lost lease that is not reported yet, or the seconds until there could be one."""
        untold = [kept for kept in self._kept if not kept.told]
        lost = next((kept for kept in untold if kept.held.tenure.reason is not None), None)
        if lost is not None or not untold:
            return lost, None
        return None, min(kept.held.tenure.remaining() for kept in untold)

    def _renew(self, kept: KeptLease) -> None:
        tenure, sent = kept.held.tenure, steady()
        try:
            answer = self._locks.renew(kept.held.id, kept.held.token)
        except StoreError as error:
            tenure.fail(error)
        except Exception as error:  # noqa: BLE001 (reported to the holder, as the cause of its loss)
            tenure.lose(f"it cannot be renewed: {error}", error)
        else:
            tenure.learn(answer, sent)

    def _tell(self, kept: KeptLease) -> None:
        reason, on_lost = kept.held.tenure.reason, kept.on_lost
        kept.told = True
        if reason is None or on_lost is None:
            return
        try:
            on_lost(reason)
        except BaseException:  # noqa: BLE001 (reported as any thread's is; other losses must still be reported)
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


def keeper_of(locks: Locks) -> Keeper:
    """Return this process's keeper of these locks. Threads do not survive a fork, so a child gets its own."""
    if not locks.threaded:
        raise InvalidInput("threaded", "lock() renews in the background: connect with threaded=True")
    keepers, pid = locks._keepers, os.getpid()
    return keepers.get(pid) or keepers.setdefault(pid, Keeper(locks))
