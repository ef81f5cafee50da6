"""The verbs that every surface speaks, for plain code; ``aio`` has them for coroutines.

A verb passes its call to an engine or to a client of a server. A refusal is a value; an exception is a breakage.
"""

from __future__ import annotations

from leasehold.domain.outcomes import TimedOut
from leasehold.locks.planning import Planning
from leasehold.requests.calls import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime
    from types import TracebackType
    from typing import Any, Self, Unpack

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
    from leasehold.locks.arguments import Defaults, Duration, Leased, Names, Wait
    from leasehold.locks.holding.held import AcquireOptions, HeldLease, LockTerms, OnLost, P, R
    from leasehold.locks.holding.losses import LossWatch
    from leasehold.locks.holding.sync import Keeper, Lock
    from leasehold.requests.calls import Answers

_PLAIN = frozenset((int, float, str, type(None)))
SPANS = ("ttl", "wait", "grace", "overlap", "since")
"""Arguments that are durations or times, in every verb that has them."""
LEADER = "leader"
"""The work of a leader that names no other; the dashboard shows exclusive leases of this name as elections."""
OF_A_LEASE = frozenset(("renew", "release", "update"))
_EVERYWHERE = frozenset(("list", "plans", "graph", "history", "sessions"))
"""These verbs cover every space and holder unless a call names one."""


class CallDefaults:
    """The holder, space, TTL and host that a call uses unless it names its own."""

    def __init__(self, **defaults: Unpack[Defaults]) -> None:
        self.holder = defaults["holder"]
        self.space = defaults.get("space", "default")
        self.host = defaults.get("host")  # none in a server: its machine is not that of its clients
        self.ttl = defaults.get("ttl", "30m")  # of a `lock` that names none

    def _call(self, verb: str, given: dict[str, Any]) -> Call:
        """Return the call of a verb, from the arguments of its signature."""
        del given["self"]
        if verb not in _EVERYWHERE:
            for field in ("holder", "space", "host"):
                if field in given and given[field] is None:
                    given[field] = getattr(self, field)
        is_plain = _PLAIN.issuperset(map(type, map(given.get, SPANS)))
        if not is_plain or (verb in OF_A_LEASE and type(given["lease"]) is not str):
            from leasehold.locks import arguments  # noqa: PLC0415 (most calls do without)

            arguments.convert(verb, given)
        return Call(verb, given)


class Locks(CallDefaults, Planning):
    """Leases on shared things. Get one from `leasehold.connect`."""

    def __init__(self, answers: Answers, *, threaded: bool = True, **defaults: Unpack[Defaults]) -> None:
        super().__init__(**defaults)
        self._answers = answers
        self.threaded = threaded
        """False: `answers` serves one thread only, so `lock` cannot renew in the background."""
        self._losses: LossWatch | None = None
        self._keepers: dict[int, Keeper] = {}  # who renews for `lock`, by process: a fork needs another

    def acquire(
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
        host: str | None = None,
    ) -> Acquired:
        """Take a lease, or wait for it: `Granted`, `Held`, `TimedOut`, `Deadlock` or `Refused`.

        Args:
            resources: one name, or several that are taken together or not at all.
            ttl: how long it lives unless it is renewed: seconds, `"5m"`, a `timedelta`, or a `datetime` as its end.
            wait: how long to wait in the queue; 0 answers at once, True waits for ever.
            mode: `exclusive` (the default), `shared` (many readers) or `slots` (the default with several `slots`).
            slots: how many may hold it at the same time: a semaphore.
            any_of: take the first of the resources that is free.
            holder: who holds it; these locks' holder by default.
            session: `ID.SECRET` of a session: the lease ends with it.
            space: the tenant that the name lives in.
            name: what the work is, for others to see.
            context: JSON for others to see, at most 16 KiB.
            reason: why it is held, for others to see.
            priority: a larger one is served first.
            reentrant: if a lease that `token` or the session's secret opens covers it, that lease comes back, extended.
            grace: after an unclean end, nobody gets it for this long.
            on_expiry: `free`, or `quarantine`: after an unclean end nobody gets it until it is cleared.
            request_id: a retry with the same id gets the same answer.
            intent: a refused try counts as waiting for a minute when deadlocks are looked for.
            token: one token, or up to 64, of leases that you have: proof for `reentrant`, and for `yours` in a refusal.
            trace: the `traceparent` of the caller, kept with the lease: see `leasehold.tracing`.
            host: the machine that acquires it, for others to see; the name of this one by default.
        """
        return self._acquire(self._call("acquire", locals()), waits_for_ever=wait is True)

    def _acquire(self, call: Call, *, waits_for_ever: bool) -> Acquired:
        outcome: Acquired = self._answers.ask(call)
        while waits_for_ever and isinstance(outcome, TimedOut):
            outcome = self._answers.ask(call)
        return outcome

    def lock(
        self,
        resources: Names,
        *,
        ttl: Duration | None = None,
        wait: Wait = 0,
        on_lost: OnLost | None = None,
        **options: Unpack[AcquireOptions],
    ) -> Lock:
        """Acquire for the length of a `with` block, and renew meanwhile; the options are those of `acquire`.

        The TTL is as configured, 30 minutes by default. Raises `NotAcquired` if refused. If the lease is lost, another
        thread calls `on_lost(reason)`, the block goes on (see `HeldLease`), and its end raises `LeaseLost`.
        """
        from leasehold.locks.holding.sync import Lock  # noqa: PLC0415 (one-shot commands do not renew)

        asked = {"resources": resources, "ttl": self.ttl if ttl is None else ttl, "wait": wait, **options}
        return Lock(self, on_lost, asked)

    def lead(self, resources: Names, *, ttl: Duration = 15, **options: Unpack[LockTerms]) -> Iterator[HeldLease]:
        """Campaign for leadership: each turn of a `for` loop is one term, from your election to your resignation.

        The fence is the number of the term. Once `lost` says that you were deposed, end the turn, to campaign again.
        """
        from leasehold.locks.holding.sync import terms  # noqa: PLC0415 (see `lock`)

        options.setdefault("name", LEADER)
        return terms(self.lock(resources, ttl=ttl, wait=True, **options))

    def guarded(
        self, resources: Names, *, ttl: Duration | None = None, wait: Wait = 0, **options: Unpack[LockTerms]
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Decorate a function to run under a `lock`; `{service}` in a name is its argument `service` in each call."""
        from leasehold.locks.holding.guarded import guarded  # noqa: PLC0415 (see `lock`)

        return guarded(self, resources, {"ttl": self.ttl if ttl is None else ttl, "wait": wait, **options})

    def renew(
        self,
        lease: Leased,
        token: str | None = None,
        *,
        ttl: Duration | None = None,
        session: str | None = None,
        admin: str | None = None,
    ) -> Renewed | Lost | Refused:
        """Reset a lease's TTL, or set a new one. A lease that expired is `Lost`, for good."""
        outcome: Renewed | Lost | Refused = self._answers.ask(self._call("renew", locals()))
        return outcome

    def release(
        self,
        lease: Leased,
        token: str | None = None,
        *,
        status: str = "completed",
        error: str | None = None,
        session: str | None = None,
        admin: str | None = None,
    ) -> Released | Refused:
        """Release a lease; `released` is True once. `status`: completed, failed (with an `error`), cancelled."""
        outcome: Released | Refused = self._answers.ask(self._call("release", locals()))
        return outcome

    def update(
        self,
        lease: Leased,
        token: str | None = None,
        *,
        context: object,
        merge: bool = False,
        session: str | None = None,
        admin: str | None = None,
    ) -> Updated | Lost | Refused:
        """Replace the context of a lease while it is held, or merge into it."""
        outcome: Updated | Lost | Refused = self._answers.ask(self._call("update", locals()))
        return outcome

    def cancel(
        self,
        request_id: str,
        token: str | None = None,
        *,
        holder: str | None = None,
        session: str | None = None,
        admin: str | None = None,
        space: str | None = None,
    ) -> Cancelled | Refused:
        """Withdraw an acquire, so that no copy of it is ever granted. To end a granted lease takes proof."""
        outcome: Cancelled | Refused = self._answers.ask(self._call("cancel", locals()))
        return outcome

    def start_session(
        self,
        *,
        ttl: Duration,
        holder: str | None = None,
        name: str | None = None,
        session: str | None = None,
        space: str | None = None,
    ) -> SessionStarted | Refused:
        """Begin a session; its `secret` is the `ID.SECRET` that every call in its name must pass."""
        outcome: SessionStarted | Refused = self._answers.ask(self._call("start_session", locals()))
        return outcome

    def renew_session(
        self, session: str, *, space: str | None = None, admin: str | None = None
    ) -> SessionRenewed | Lost | Refused:
        """Send a heartbeat: reset the TTL of the session and of all its leases."""
        outcome: SessionRenewed | Lost | Refused = self._answers.ask(self._call("renew_session", locals()))
        return outcome

    def end_session(
        self, session: str, *, space: str | None = None, admin: str | None = None, reason: str | None = None
    ) -> SessionEnded | Refused:
        """Release everything the session holds and leave every queue. An admin needs only its id, and may say why."""
        outcome: SessionEnded | Refused = self._answers.ask(self._call("end_session", locals()))
        return outcome

    def force_release(self, target: str, *, by: str, reason: str, space: str | None = None) -> Released | Refused:
        """End a lease of any holder, by its id or by the resource it holds. The event records `by` and `reason`."""
        outcome: Released | Refused = self._answers.ask(self._call("force_release", locals()))
        return outcome

    def steal(
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
        """Take over what others hold, in one step. A quarantined resource must be cleared first."""
        outcome: Granted | Held | Refused = self._answers.ask(self._call("steal", locals()))
        return outcome

    def clear(self, resource: str, *, by: str, reason: str, space: str | None = None) -> Cleared | Refused:
        """Open a resource that an unclean end has closed."""
        outcome: Cleared | Refused = self._answers.ask(self._call("clear", locals()))
        return outcome

    def report_trespass(self, lease: str, paths: str | Sequence[str], *, by: str) -> TrespassReported | Refused:
        """Record in the history that `by` changed these paths, which another agent holds by this lease."""
        outcome: TrespassReported | Refused = self._answers.ask(self._call("report_trespass", locals()))
        return outcome

    def extend(self, lease: str, *, ttl: Duration, by: str, reason: str) -> Renewed | Lost | Refused:
        """Reset the TTL of a lease that another holder has: for an admin, with a reason for the history."""
        outcome: Renewed | Lost | Refused = self._answers.ask(self._call("extend", locals()))
        return outcome

    def note(self, resource: str, text: str | None, *, by: str, space: str | None = None) -> Noted | Refused:
        """Leave a note on a resource for everybody who looks at it; None removes it."""
        outcome: Noted | Refused = self._answers.ask(self._call("note", locals()))
        return outcome

    def inspect(self, resource: str, *, space: str | None = None) -> Inspection | Refused:
        """Return the holders of a resource, its queue, and whether it is closed."""
        outcome: Inspection | Refused = self._answers.ask(self._call("inspect", locals()))
        return outcome

    def list(
        self, *, space: str | None = None, holder: str | None = None, resource: str | None = None
    ) -> tuple[Lease, ...] | Refused:
        """Return every live lease, the oldest first; of one space, holder or resource if named."""
        outcome: tuple[Lease, ...] | Refused = self._answers.ask(self._call("list", locals()))
        return outcome

    def history(
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
        """Return past events, newest first. `before` is the `seq` to page from, `since` a time of the store's clock."""
        outcome: tuple[Event, ...] | Refused = self._answers.ask(self._call("history", locals()))
        return outcome

    def graph(self, *, space: str | None = None, limit: int = 1_000) -> Graph | Refused:
        """Return the wait-for graph, the longest waits first, of all spaces or one; `limit` bounds its edges."""
        outcome: Graph | Refused = self._answers.ask(self._call("graph", locals()))
        return outcome

    def sessions(self, *, space: str | None = None) -> tuple[Session, ...] | Refused:
        """Return every live session, the oldest first, of all spaces or one."""
        outcome: tuple[Session, ...] | Refused = self._answers.ask(self._call("sessions", locals()))
        return outcome

    def create_key(
        self,
        *,
        role: str,
        name: str,
        space: str | None = None,
        prefixes: Sequence[str] = (),
        by: str | None = None,
        reason: str | None = None,
    ) -> KeyCreated | Refused:
        """Create a key for the servers of this store. Only this answer has its `credential`."""
        outcome: KeyCreated | Refused = self._answers.ask(self._call("create_key", locals()))
        return outcome

    def keys(self) -> tuple[Key, ...] | Refused:
        """Return every key, the oldest first, without its secret."""
        outcome: tuple[Key, ...] | Refused = self._answers.ask(self._call("keys", locals()))
        return outcome

    def rotate_key(
        self, key: str, *, overlap: Duration = "1h", by: str | None = None, reason: str | None = None
    ) -> KeyRotated | Refused:
        """Add a key to the principal of this one (its id), which works for `overlap` longer.

        Leases, sessions and request_ids belong to the principal, and stay. Only this answer has the new `credential`.
        """
        outcome: KeyRotated | Refused = self._answers.ask(self._call("rotate_key", locals()))
        return outcome

    def whoami(self) -> Whoami | Refused:
        """Return the caller as the store or its server knows it, and what it may do there."""
        outcome: Whoami | Refused = self._answers.ask(self._call("whoami", locals()))
        return outcome

    def revoke_key(self, key: str, *, by: str | None = None, reason: str | None = None) -> KeyRevoked | Refused:
        """Revoke a key by its id; servers notice within a second."""
        outcome: KeyRevoked | Refused = self._answers.ask(self._call("revoke_key", locals()))
        return outcome

    def gc(self) -> Collected | Refused:
        """Sweep what has expired and trim the history to its retention, now instead of later."""
        outcome: Collected | Refused = self._answers.ask(self._call("gc", locals()))
        return outcome

    def close(self) -> None:
        """Answer all waiters and close the store. `StoreError`: they leave their queues by themselves, within 2 s."""
        self._answers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
