"""Joint commits: lanes of one server that are ready at the same moment commit in one transaction of etcd.

A transaction of etcd costs it and us about as much as forty commands, so lanes that commit by themselves divide the
group commit (docs/adr/0045). While one joint transaction is under way, or another lane is about to commit, the lanes
that are ready gather for the next one. It has the compares of all of them: if one does not hold, nothing is written,
and each lane commits by itself.

Only one thread joins its commits: that of the event loop that drives all lanes of a server.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, get_ident
from contextlib import suppress
from typing import TYPE_CHECKING

from leasehold.errors import Conflict, OutcomeUnknown, StoreError
from leasehold.stores.etcd import messages
from leasehold.stores.etcd.calls import TRANSACTION
from leasehold.stores.etcd.reading import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.steps import Steps
    from leasehold.stores.etcd.calls import EtcdCalls
    from leasehold.stores.etcd.messages import TxnAnswer
    from leasehold.stores.protocol import Answering

LARGEST = 1 << 18
"""Bytes of a joint transaction at most: etcd refuses a request of 1.5 MiB."""


class Bell:
    """A pipe by which a lane hears that it can go on. A lane has one commit under way at most."""

    def __init__(self) -> None:
        self.ear, self._hand = os.pipe()
        os.set_blocking(self.ear, False)
        os.set_blocking(self._hand, False)
        self._lock = allocate_lock()
        self._is_closed = False

    def ring(self) -> None:
        """Let the lane go on. Any thread may call it, also after `close`, when another file has the number."""
        with self._lock, suppress(BlockingIOError):  # it has rung often enough
            if not self._is_closed:
                os.write(self._hand, b"x")

    def hush(self) -> None:
        """Forget that it rang."""
        with suppress(BlockingIOError):
            os.read(self.ear, 64)

    def close(self) -> None:
        """Close both ends."""
        with self._lock:
            self._is_closed = True
            os.close(self.ear)
            os.close(self._hand)


class LaneCommit:
    """The commit of one lane. It is the `Answering` of that lane's steps while another lane's steps do the call."""

    __slots__ = ("accepted", "bell", "compares", "flight", "has_heard", "otherwise", "size", "then")

    def __init__(
        self, compares: list[bytes], then: list[bytes], otherwise: Callable[[], list[bytes]], accepted: str, bell: Bell
    ) -> None:
        self.compares = compares
        self.then = then
        self.otherwise = otherwise
        self.accepted = accepted
        """Id of the cluster that the lane's replica describes."""
        self.bell = bell
        self.size = sum(map(len, compares)) + sum(map(len, then))
        self.flight: Flight
        self.has_heard = False
        """True if an event loop has heard the bell; False in a thread that does not wait for it."""

    def fileno(self) -> int:
        """Return the descriptor at which the bell is heard."""
        return self.bell.ear

    def is_answered(self) -> bool:
        """Return True if the flight is over, or if it is for this part to start it."""
        self.bell.hush()
        self.has_heard = True
        return self.flight.is_over or (self is self.flight.parts[0] and self.flight.is_next)


class Flight:
    """One transaction with the commits of several lanes. The steps of its first part make the call.

    Whatever thread a driver has left one of the lanes to can take the next step as well: no lane waits for another
    lane's driver.
    """

    def __init__(self, commits: JointCommits, previous: Flight | None) -> None:
        self.parts: list[LaneCommit] = []
        self.is_over = False
        self.following: Flight | None = None
        """The flight that gathers while this one is under way."""
        self._commits = commits
        self._previous = previous
        self._stepping = allocate_lock()
        self._steps = self._fly()
        self._waits_for: Answering | None = None
        self._answer: TxnAnswer | None = None
        self._error: BaseException | None = None

    @property
    def is_next(self) -> bool:
        """True if no other flight is under way."""
        return self._previous is None or self._previous.is_over

    def has_room(self, part: LaneCommit) -> bool:
        """Return True if this part can join: etcd would accept the transaction, and it is for the same cluster."""
        parts = self.parts
        return (
            part.accepted == parts[0].accepted
            and sum(len(each.compares) for each in parts) + len(part.compares) <= OPERATIONS
            and sum(len(each.then) for each in parts) + len(part.then) <= OPERATIONS
            and sum(each.size for each in parts) + part.size <= LARGEST
        )

    # ------------------------------------------------------------------------------------ under way

    def step(self) -> None:
        """Take the next step of the call. Any thread may do so; it waits as long as another one does."""
        with self._stepping:
            if self.is_over:
                return
            try:
                self._waits_for = next(self._steps)
            except StopIteration:
                self._land()
            except BaseException as error:  # noqa: BLE001 (raised by each of the parts)
                self._error = error
                self._land()

    def _fly(self) -> Steps[None]:
        previous, self._previous = self._previous, None
        while previous is not None and not previous.is_over:  # only for a thread, which does not wait for the bell
            previous.step()
        with self._commits.lock:  # from here on no other lane can join
            if self._commits.gathering is self:
                self._commits.gathering = None
        parts = self.parts
        compares = [compare for part in parts for compare in part.compares]
        then = [operation for part in parts for operation in part.then]
        # A lane reads what is new if its compares fail. Of several lanes, each reads it in a transaction of its own.
        otherwise = parts[0].otherwise() if len(parts) == 1 else []
        request = messages.transaction(compares, then, otherwise)
        told = yield from self._commits.calls.changing(TRANSACTION, request, parts[0].accepted)
        self._answer = messages.answer(told, is_wanted=False)

    def _land(self) -> None:
        with self._commits.lock:
            self.is_over = True
        for part in self.parts[1:]:
            part.bell.ring()
        if self.following is not None:
            self.following.parts[0].bell.ring()

    def fileno(self) -> int:
        """Return the socket by which the answer comes."""
        return -1 if self._waits_for is None else self._waits_for.fileno()

    def is_answered(self) -> bool:
        """Return True once the next step does not wait; False while another thread is about to take it."""
        if not self._stepping.acquire(blocking=False):
            return False
        try:
            return self.is_over or self._waits_for is None or self._waits_for.is_answered()
        finally:
            self._stepping.release()

    @property
    def may_block(self) -> bool:
        """True if the next step may wait for something that has no descriptor."""
        return self._waits_for is None

    def outcome(self) -> TxnAnswer | None:
        """Return etcd's answer to each part; None if each has to be sent by itself. Raises what all parts have met."""
        is_joint, error = len(self.parts) > 1, self._error
        if isinstance(error, OutcomeUnknown):
            raise OutcomeUnknown(str(error)) from error
        if isinstance(error, Conflict):
            raise Conflict(str(error)) from error
        if error is not None and not (is_joint and isinstance(error, StoreError)):
            raise error
        if is_joint and (self._answer is None or not self._answer.succeeded):
            return None
        return self._answer


class JointCommits:
    """The joint commits of one store, one after the other."""

    def __init__(self, calls: EtcdCalls) -> None:
        self.calls = calls
        self._home = 0
        """The thread whose commits are joined."""
        self._are_others_coming: Callable[[], bool] = lambda: False
        self.lock = allocate_lock()
        self.gathering: Flight | None = None
        self._last: Flight | None = None

    def begin(self, are_others_coming: Callable[[], bool]) -> None:
        """Join the commits of this thread from now on. See `NetworkStore.commit_together`."""
        self._are_others_coming = are_others_coming
        self._home = get_ident()

    @property
    def is_possible(self) -> bool:
        """True in the thread that drives all lanes."""
        return get_ident() == self._home

    def committing(self, part: LaneCommit) -> Steps[TxnAnswer | None]:
        """Commit with the lanes that are ready, step by step; None: nothing was written, commit this part by itself."""
        flight = self._board(part)
        is_first = flight.parts[0] is part
        if not (is_first and flight.is_next):
            yield part
        while is_first and self._are_others_coming():
            part.has_heard = False
            part.bell.ring()  # to be asked again in the next round of the loop
            yield part
            if not part.has_heard:
                break
        while not flight.is_over:
            flight.step()
            if not flight.is_over:
                yield (None if flight.may_block else flight) if is_first else part
        return flight.outcome()

    def _board(self, part: LaneCommit) -> Flight:
        with self.lock:
            flight = self.gathering
            if flight is None or not flight.has_room(part):
                last = self._last if self._last is not None and not self._last.is_over else None
                flight = Flight(self, last)
                if last is not None:
                    last.following = flight
                self.gathering = self._last = flight
            flight.parts.append(part)
            part.flight = flight
            return flight
