"""Every promise about who gets what, when, written once. Pure: no clock, no I/O, no logging.

``step`` is the only way in. It sees the records it is given, at the time it is given, and answers with an
outcome, the changes that lead there and the events that report them; or with ``NeedRecords``: the keys of
records that it has to see first. It is then run again from the start with those as well.
"""

from __future__ import annotations

from leasehold.domain import commands as c
from leasehold.domain.keys import home, plan_home
from leasehold.domain.records import NOTHING, Draft, Missing
from leasehold.domain.rules.acquiring import acquire
from leasehold.domain.rules.granting import nodes_of
from leasehold.domain.rules.leases import release, renew, report_trespass, update

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from leasehold.domain.entries import Drop, Put, Record
    from leasehold.domain.events import Event
    from leasehold.domain.leases import Lease
    from leasehold.domain.outcomes import Outcome
    from leasehold.domain.records import Records


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
