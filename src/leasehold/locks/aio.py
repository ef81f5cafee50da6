"""The verbs of ``locks.sync`` for coroutines, with its signatures (a test compares them) and outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.outcomes import TimedOut
from leasehold.locks.planning import AsyncPlanning
from leasehold.locks.sync import LEADER, CallDefaults

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
    from datetime import datetime
    from types import TracebackType
    from typing import Any, Protocol, Self, Unpack

    from leasehold.domain.api_keys import Key, KeyCreated, KeyRevoked, KeyRotated, Whoami
    from leasehold.domain.events import Event
    from leasehold.domain.graph import Graph
    from leasehold.domain.leases import Inspection, Lease
    from leasehold.domain.outcomes import (
        Acquired,
        Cancelled,
        Cleared,
        Collected,
        Granted,
        Held,
        Lost,
        Noted,
        Refused,
        Released,
        Renewed,
        TrespassReported,
        Updated,
    )
    from leasehold.domain.sessions import Session, SessionEnded, SessionRenewed, SessionStarted
    from leasehold.locks.arguments import Duration, Leased, Names, Wait
    from leasehold.locks.holding.aio import AsyncLock, AsyncTerm
    from leasehold.locks.holding.held import AcquireOptions, LockTerms, OnLost, P, R
    from leasehold.locks.holding.losses import LossWatch
    from leasehold.requests.calls import Call, LossSource

    class AsyncAnswers(Protocol):
        """An engine or a server that answers the calls of coroutines."""

        def ask(self, call: Call) -> Awaitable[Any]:
            """Return the answer to this call."""

        def losses(self) -> LossSource:
            """Return the source of hints that a held lease may be lost."""

        async def close(self) -> None:
            """Answer every waiting request and close the store."""


class AsyncLocks(CallDefaults, AsyncPlanning):
    """Leases on shared things, for coroutines. Get one from `leasehold.aconnect`."""

    def __init__(self, answers: AsyncAnswers, *, holder: str, space: str = "default", ttl: float | str = "30m") -> None:
        super().__init__(holder=holder, space=space, ttl=ttl)
        self._answers = answers
        self._losses: LossWatch | None = None
        self._entered: dict[str, int] = {}  # how many blocks hold each lease: several after a re-entrant `lock`

    async def acquire(
        self,
        resources: Names,
        *,
        ttl: Duration,
        wait: Wait = 0,
        mode: str | None = None,
        slots: int = 1,
        any_of: bool = False,
        holder: str | None = None,
        session: str | None = None,
        space: str | None = None,
        name: str | None = None,
        context: object = None,
        reason: str | None = None,
        priority: int = 0,
        reentrant: bool = False,
        grace: Duration = 0,
        on_expiry: str = "free",
        request_id: str | None = None,
        intent: bool = False,
        token: str | Sequence[str] | None = None,
        trace: str | None = None,
    ) -> Acquired:
        """As `Locks.acquire`; a task that is cancelled leaves the queue and holds nothing."""
        call = self._call("acquire", locals())
        outcome: Acquired = await self._answers.ask(call)
        while wait is True and isinstance(outcome, TimedOut):
            outcome = await self._answers.ask(call)
        return outcome

    def lock(
        self,
        resources: Names,
        *,
        ttl: Duration | None = None,
        wait: Wait = 0,
        on_lost: OnLost | None = None,
        **options: Unpack[AcquireOptions],
    ) -> AsyncLock:
        """As `Locks.lock`, for `async with`; if the lease is lost, the task in the block is cancelled."""
        from leasehold.locks.holding.aio import AsyncLock  # noqa: PLC0415 (not for those who do without)

        return AsyncLock(
            self, on_lost, {"resources": resources, "ttl": self.ttl if ttl is None else ttl, "wait": wait, **options}
        )

    def lead(self, resources: Names, *, ttl: Duration = 15, **options: Unpack[LockTerms]) -> AsyncIterator[AsyncTerm]:
        """As `Locks.lead`, for `async for`; `async with term:` in it cancels its body when you are deposed."""
        from leasehold.locks.holding.aio import async_terms  # noqa: PLC0415 (see `lock`)

        options.setdefault("name", LEADER)
        return async_terms(self, {"resources": resources, "ttl": ttl, "wait": True, **options})

    def guarded(
        self, resources: Names, *, ttl: Duration | None = None, wait: Wait = 0, **options: Unpack[LockTerms]
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, R]]]:
        """As `Locks.guarded`, for coroutine functions."""
        from leasehold.locks.holding.guarded import async_guarded  # noqa: PLC0415 (see `lock`)

        return async_guarded(self, resources, {"ttl": self.ttl if ttl is None else ttl, "wait": wait, **options})

    async def renew(
        self,
        lease: Leased,
        token: str | None = None,
        *,
        ttl: Duration | None = None,
        session: str | None = None,
        admin: str | None = None,
    ) -> Renewed | Lost | Refused:
        """As `Locks.renew`."""
        outcome: Renewed | Lost | Refused = await self._answers.ask(self._call("renew", locals()))
        return outcome

    async def release(
        self,
        lease: Leased,
        token: str | None = None,
        *,
        status: str = "completed",
        error: str | None = None,
        session: str | None = None,
        admin: str | None = None,
    ) -> Released | Refused:
        """As `Locks.release`."""
        outcome: Released | Refused = await self._answers.ask(self._call("release", locals()))
        return outcome

    async def update(
        self,
        lease: Leased,
        token: str | None = None,
        *,
        context: object,
        merge: bool = False,
        session: str | None = None,
        admin: str | None = None,
    ) -> Updated | Lost | Refused:
        """As `Locks.update`."""
        outcome: Updated | Lost | Refused = await self._answers.ask(self._call("update", locals()))
        return outcome

    async def cancel(
        self,
        request_id: str,
        token: str | None = None,
        *,
        holder: str | None = None,
        session: str | None = None,
        admin: str | None = None,
        space: str | None = None,
    ) -> Cancelled | Refused:
        """As `Locks.cancel`."""
        outcome: Cancelled | Refused = await self._answers.ask(self._call("cancel", locals()))
        return outcome

    async def start_session(
        self,
        *,
        ttl: Duration,
        holder: str | None = None,
        name: str | None = None,
        session: str | None = None,
        space: str | None = None,
    ) -> SessionStarted | Refused:
        """As `Locks.start_session`."""
        outcome: SessionStarted | Refused = await self._answers.ask(self._call("start_session", locals()))
        return outcome

    async def renew_session(
        self, session: str, *, space: str | None = None, admin: str | None = None
    ) -> SessionRenewed | Lost | Refused:
        """As `Locks.renew_session`."""
        outcome: SessionRenewed | Lost | Refused = await self._answers.ask(self._call("renew_session", locals()))
        return outcome

    async def end_session(
        self, session: str, *, space: str | None = None, admin: str | None = None, reason: str | None = None
    ) -> SessionEnded | Refused:
        """As `Locks.end_session`."""
        outcome: SessionEnded | Refused = await self._answers.ask(self._call("end_session", locals()))
        return outcome

    async def force_release(self, target: str, *, by: str, reason: str, space: str | None = None) -> Released | Refused:
        """As `Locks.force_release`."""
        outcome: Released | Refused = await self._answers.ask(self._call("force_release", locals()))
        return outcome

    async def steal(
        self,
        resources: Names,
        *,
        ttl: Duration,
        by: str,
        reason: str,
        holder: str | None = None,
        space: str | None = None,
        name: str | None = None,
        context: object = None,
    ) -> Granted | Held | Refused:
        """As `Locks.steal`."""
        outcome: Granted | Held | Refused = await self._answers.ask(self._call("steal", locals()))
        return outcome

    async def clear(self, resource: str, *, by: str, reason: str, space: str | None = None) -> Cleared | Refused:
        """As `Locks.clear`."""
        outcome: Cleared | Refused = await self._answers.ask(self._call("clear", locals()))
        return outcome

    async def report_trespass(self, lease: str, paths: str | Sequence[str], *, by: str) -> TrespassReported | Refused:
        """As `Locks.report_trespass`."""
        outcome: TrespassReported | Refused = await self._answers.ask(self._call("report_trespass", locals()))
        return outcome

    async def extend(self, lease: str, *, ttl: Duration, by: str, reason: str) -> Renewed | Lost | Refused:
        """As `Locks.extend`."""
        outcome: Renewed | Lost | Refused = await self._answers.ask(self._call("extend", locals()))
        return outcome

    async def note(self, resource: str, text: str | None, *, by: str, space: str | None = None) -> Noted | Refused:
        """As `Locks.note`."""
        outcome: Noted | Refused = await self._answers.ask(self._call("note", locals()))
        return outcome

    async def inspect(self, resource: str, *, space: str | None = None) -> Inspection | Refused:
        """As `Locks.inspect`."""
        outcome: Inspection | Refused = await self._answers.ask(self._call("inspect", locals()))
        return outcome

    async def list(
        self, *, space: str | None = None, holder: str | None = None, resource: str | None = None
    ) -> tuple[Lease, ...] | Refused:
        """As `Locks.list`."""
        outcome: tuple[Lease, ...] | Refused = await self._answers.ask(self._call("list", locals()))
        return outcome

    async def history(
        self,
        *,
        space: str | None = None,
        resource: str | None = None,
        holder: str | None = None,
        lease: str | None = None,
        kinds: Sequence[str] = (),
        since: int | datetime | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> tuple[Event, ...] | Refused:
        """As `Locks.history`."""
        outcome: tuple[Event, ...] | Refused = await self._answers.ask(self._call("history", locals()))
        return outcome

    async def graph(self, *, space: str | None = None, limit: int = 1_000) -> Graph | Refused:
        """As `Locks.graph`."""
        outcome: Graph | Refused = await self._answers.ask(self._call("graph", locals()))
        return outcome

    async def sessions(self, *, space: str | None = None) -> tuple[Session, ...] | Refused:
        """As `Locks.sessions`."""
        outcome: tuple[Session, ...] | Refused = await self._answers.ask(self._call("sessions", locals()))
        return outcome

    async def create_key(
        self,
        *,
        role: str,
        name: str,
        space: str | None = None,
        prefixes: Sequence[str] = (),
        by: str | None = None,
        reason: str | None = None,
    ) -> KeyCreated | Refused:
        """As `Locks.create_key`."""
        outcome: KeyCreated | Refused = await self._answers.ask(self._call("create_key", locals()))
        return outcome

    async def keys(self) -> tuple[Key, ...] | Refused:
        """As `Locks.keys`."""
        outcome: tuple[Key, ...] | Refused = await self._answers.ask(self._call("keys", locals()))
        return outcome

    async def rotate_key(
        self, key: str, *, overlap: Duration = "1h", by: str | None = None, reason: str | None = None
    ) -> KeyRotated | Refused:
        """As `Locks.rotate_key`."""
        outcome: KeyRotated | Refused = await self._answers.ask(self._call("rotate_key", locals()))
        return outcome

    async def whoami(self) -> Whoami | Refused:
        """As `Locks.whoami`."""
        outcome: Whoami | Refused = await self._answers.ask(self._call("whoami", locals()))
        return outcome

    async def revoke_key(self, key: str, *, by: str | None = None, reason: str | None = None) -> KeyRevoked | Refused:
        """As `Locks.revoke_key`."""
        outcome: KeyRevoked | Refused = await self._answers.ask(self._call("revoke_key", locals()))
        return outcome

    async def gc(self) -> Collected | Refused:
        """As `Locks.gc`."""
        outcome: Collected | Refused = await self._answers.ask(self._call("gc", locals()))
        return outcome

    async def close(self) -> None:
        """Answer every waiting request and close the store.

        Raises `StoreError` if the waiters could not leave their queues: the store then drops them within 2 s.
        """
        await self._answers.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
