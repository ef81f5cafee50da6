"""Every promise about who gets what, when, written once. Pure: no clock, no I/O, no logging.

``step`` is the only way in. It sees the records it is given, at the time it is given, and answers with an
outcome, the changes that lead there and the events that report them; or with ``NeedRecords``: the keys of
records that it has to see first. It is then run again from the start with those as well. A rule collects its changes
in a `Draft`, and never changes a record.
"""

from __future__ import annotations

from leasehold.domain import commands as c
from leasehold.domain.entries import Drop, Put
from leasehold.domain.events import Event
from leasehold.domain.keys import home, plan_home
from leasehold.domain.nouns import new
from leasehold.domain.records import drop, put, resources_of
from leasehold.domain.rules.acquiring import acquire
from leasehold.domain.rules.granting import nodes_of, release
from leasehold.domain.rules.leases import renew, report_trespass, update

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from leasehold.domain.entries import Entry, Hold, LeaseRequest, Record
    from leasehold.domain.leases import Lease
    from leasehold.domain.outcomes import Outcome
    from leasehold.domain.records import Records

NOTHING: Final[dict[str, Record]] = {}


class Missing(Exception):
    """The rule needs records that were not loaded."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        super().__init__(keys)
        self.keys = keys


class Draft:
    """Records as one rule has changed them, with the changes and events that lead there; the store commits them."""

    __slots__ = (
        "_loaded",
        "_newer",
        "changed",
        "changes",
        "dirty",
        "engine",
        "events",
        "fence",
        "now",
        "opens_at",
        "picked_up",
        "to_wake",
    )

    def __init__(
        self,
        loaded: Records,
        now: int,
        fence: int,
        engine: str,
        opens_at: int = 0,
        newer: dict[str, Record] = NOTHING,
    ) -> None:
        self._loaded: dict[str, Record] = loaded if isinstance(loaded, dict) else dict(loaded)
        self._newer = newer
        """Records as earlier commands of the batch have changed them."""
        self.now = now
        self.fence = fence
        self.engine = engine
        self.opens_at = opens_at
        """No lease is granted before this time: the store may have lost leases that still count."""
        self.changed: dict[str, Record] = {}
        self.changes: dict[tuple[str, str], Put | Drop] = {}
        """By record and entry: a later change of the same entry makes the earlier one moot."""
        self.events: list[Event] = []
        self.dirty: dict[str, None] = {}
        """Nodes on which a hold or a waiter went, so that a waiter may be served; in order."""
        self.picked_up: list[tuple[str, Lease]] = []
        """Waiters of this very engine that this step granted a lease."""
        self.to_wake: dict[str, None] = {}
        """Other engines, a waiter of which left its queues: served, or not."""

    def record(self, key: str) -> Record:
        """Return the record as it is now; raises `Missing` if it was not loaded."""
        found = self.changed.get(key)
        if found is None:
            found = self._newer.get(key)
            if found is None:
                found = self._loaded.get(key)
                if found is None:
                    raise Missing((key,))
        return found

    def require(self, keys: list[str]) -> None:
        """Raise `Missing` for all records among these that were not loaded, rather than for one at a time."""
        known = (self.changed, self._newer, self._loaded)
        missing = [key for key in keys if not any(key in each for each in known)]
        if missing:
            raise Missing(tuple(missing))

    def number(self) -> int:
        """Return the next number: a fence, or a place in the order of arrival."""
        number = self.fence
        self.fence = number + 1
        return number

    def put(self, key: str, entry: Entry) -> None:
        """Write an entry, replacing the one of the same id."""
        self.changed[key] = put(self.record(key), entry)
        # `new` saves half of the constructor's 150 ns, compiled; each grant and each wait puts two to four entries.
        self.changes[key, entry.id] = new(Put, (key, entry))

    def drop(self, key: str, id_: str) -> None:
        """Remove exactly this entry."""
        self.changed[key] = drop(self.record(key), id_)
        gone = Drop(key, id_)
        self.changes[gone] = gone  # it equals its own key in `changes`

    def discard(self, key: str, id_: str) -> None:
        """Remove this note if it is there; otherwise there is no change."""
        if id_ in self.record(key).notes:
            self.drop(key, id_)

    def tell(self, kind: str, ask: LeaseRequest, lease: Hold | None = None, **detail: object) -> None:
        """Add an event about a request or about the lease that it was granted."""
        self.note(kind, ask, lease, detail)

    def note(self, kind: str, ask: LeaseRequest, lease: Hold | None, detail: dict[str, object]) -> None:
        """Add an event whose details are in a dict already."""
        options = ask.options
        resources = options[0].resources if len(options) == 1 else resources_of(ask)
        id_: str | None = None
        fence = 0
        if lease is not None:
            id_ = lease.id
            fence = lease.fence
        if ask.principal is not None:
            detail["principal"] = ask.principal
            detail["key"] = ask.key
        if ask.trace is not None:
            detail["trace"] = ask.trace
        if ask.host is not None:
            detail["host"] = ask.host
        told = (kind, self.now, ask.space, resources, ask.holder, ask.session, id_, fence, detail, 0)
        self.events.append(Event(*told))


class Step:
    """The outcome, the changes and the events of one command."""

    __slots__ = ("changed", "changes", "events", "fence", "outcome", "picked_up", "to_wake")

    def __init__(self, outcome: Outcome, draft: Draft) -> None:
        self.outcome = outcome
        self.changes: dict[tuple[str, str], Put | Drop] = draft.changes
        """By record and entry: one change an entry."""
        self.events: list[Event] = draft.events
        self.fence = draft.fence
        """The next number that is still unused."""
        self.changed: dict[str, Record] = draft.changed
        """The changed records, whole."""
        self.picked_up: list[tuple[str, Lease]] = draft.picked_up
        """Waiters of the asking engine that were granted their lease on the way."""
        self.to_wake: dict[str, None] = draft.to_wake
        """Other engines whose waiters were served, or left their queues, on the way."""


class NeedRecords:
    """The records that a step has to see first."""

    __slots__ = ("keys",)

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys


def step(
    records: Records,
    command: c.Command,
    now: int,
    fence: int,
    engine: str = "",
    opens_at: int = 0,
    newer: dict[str, Record] = NOTHING,
) -> Step | NeedRecords:
    """Decide one command for the engine of this presence key. Nothing new is granted before `opens_at`.

    `newer`: records as steps before this one have changed them; they count in place of those in `records`.
    """
    draft = Draft(records, now, fence, engine, opens_at, newer)
    try:
        if isinstance(command, c.Acquire):  # these two without a detour
            outcome = acquire(draft, command)
        elif isinstance(command, c.Release):
            outcome = release(draft, command)
        else:
            if type(command) not in _RULES:
                _load_rare_rules()
            outcome = _RULES[type(command)](draft, command)
    except Missing as missing:
        return NeedRecords(missing.keys)
    return Step(outcome, draft)


_RULES: Final[dict[type, Callable[[Draft, Any], Outcome]]] = {
    c.Renew: renew,
    c.Update: update,
}
"""Of all others."""


def _load_rare_rules() -> None:
    """Import the rules that a plain acquire or release does not need. Called when one of them is needed."""
    from leasehold.domain.rules import (  # noqa: PLC0415
        admin,
        keyring,
        plans,
        pools,
        returning,
        sessions,
        waiting,
    )

    _RULES.update(
        {
            c.Announce: plans.announce,
            c.EndPlan: plans.end,
            c.StartSession: sessions.start,
            c.RenewSession: sessions.heartbeat,
            c.EndSession: sessions.end,
            c.Force: admin.force,
            c.Steal: admin.steal,
            c.Clear: admin.clear,
            c.ReportTrespass: report_trespass,
            c.Extend: admin.extend,
            c.AddNote: admin.note,
            c.DeclarePool: pools.declare,
            c.AddKey: keyring.add,
            c.RotateKey: keyring.rotate,
            c.RevokeKey: keyring.revoke,
            c.Check: waiting.check,
            c.Reconsider: returning.reconsider,
            c.Cancel: waiting.cancel,
            c.GiveUp: waiting.give_up,
            c.Beat: waiting.beat,
            c.Sweep: waiting.sweep,
        }
    )


def keys_of(command: c.Command) -> list[str]:
    """Return the records that this command needs for certain, to load them before the first try."""
    if isinstance(command, c.Acquire):
        return _of_acquire(command)
    if isinstance(command, c.Release):
        return _of_lease(command)
    known = _KEYS.get(type(command))
    return known(command) if known is not None else []


def _of_acquire(command: c.Acquire) -> list[str]:
    keys = [*nodes_of(command.ask), command.actor]
    if command.ask.request is not None:
        keys.append(command.ask.request)
    return keys


def _of_lease(command: c.Release | c.Renew | c.Update | c.ReportTrespass | c.Extend) -> list[str]:
    return [home(command.lease)]


_KEYS: Final[dict[type, Callable[[Any], list[str]]]] = {
    c.Renew: _of_lease,
    c.Update: _of_lease,
    c.ReportTrespass: _of_lease,
    c.Extend: _of_lease,
    c.Steal: lambda command: _of_acquire(command.acquire),
    c.Announce: lambda command: _of_acquire(command.acquire),
    c.EndPlan: lambda command: [plan_home(command.plan)],
    c.GiveUp: lambda command: [home(command.id)],
    c.Sweep: lambda command: list(command.keys),
    c.Check: lambda command: nodes_of(command.ask),
    c.Reconsider: lambda command: [home(waiter) for waiter in command.waiters],
    c.Beat: lambda command: [command.engine],
    c.StartSession: lambda command: [command.actor],
    c.RenewSession: lambda command: [command.actor],
    c.EndSession: lambda command: [command.actor],
    c.Clear: lambda command: [command.node],
    c.DeclarePool: lambda command: [command.node],
}
