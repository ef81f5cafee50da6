"""From the model to JSON values: the one contract of HTTP, ``--json`` and MCP. It shapes; it decides nothing.

Times go out as RFC 3339, durations as seconds. A lease's token is in the answer to its own acquire and nowhere else.
"""

from __future__ import annotations

import time

from leasehold.domain import durations
from leasehold.domain.api_keys import Key, KeyCreated, KeyRevoked, KeyRotated, Whoami
from leasehold.domain.entries import MODE_NAMES
from leasehold.domain.graph import Edge, Graph
from leasehold.domain.leases import Blocker, Inspection, Lease, Waiting
from leasehold.domain.outcomes import (
    Cancelled,
    Cleared,
    Deadlock,
    Granted,
    Held,
    Lost,
    Refused,
    Released,
    Renewed,
    TimedOut,
    Updated,
)
from leasehold.domain.sessions import Session, SessionEnded, SessionRenewed, SessionStarted
from leasehold.domain.timestamps import FOREVER, SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Final, TypeAlias

    from leasehold.domain.events import Event

    Json: TypeAlias = dict[str, Any]

SCHEMA_VERSION = 1
SECONDS_KEPT: Final = 256
_REFUSALS: Final = frozenset({Held, TimedOut, Deadlock, Lost, Refused})
_told_seconds: Final[dict[int, str]] = {}
"""Most times of a busy server are of a few seconds: telling one anew costs as much as the rest of a lease."""


def rfc3339(us: int) -> str | None:
    """A time of the store's clock, exactly; None for one that never comes."""
    if us >= FOREVER:
        return None
    second = _told_seconds.get(us // SECOND)
    if second is None:
        second = _tell_second(us // SECOND)
    # As this takes a tenth of what `:06d` does, once compiled.
    return second + str(us % SECOND + SECOND)[1:] + "Z"


def _tell_second(second: int) -> str:
    if len(_told_seconds) >= SECONDS_KEPT:
        _told_seconds.clear()
    told = _told_seconds[second] = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second))
    return told


def seconds(us: int) -> float | int:
    """A duration in seconds; a whole number where it is one."""
    return us // SECOND if us % SECOND == 0 else us / SECOND


def _context(text: str) -> Any:  # noqa: ANN401 (any JSON value)
    import json  # noqa: PLC0415 (only a lease with a context pays for it)

    return json.loads(text)


LEASE: Final[tuple[str, ...]] = (
    *("id", "space", "resources", "holder", "session", "mode", "slots", "fence", "ttl_seconds"),
    *("acquired_at", "expires_at", "expires_in_seconds", "as_of", "name", "reason", "context"),
)
GRANTED: Final[tuple[str, ...]] = ("lease", "token", "fresh")
RELEASED: Final[tuple[str, ...]] = ("lease", "released", "reason", "resources")
"""What the fields of these are called, in order: a server that answers many of them makes no dicts."""


def lease(it: Lease) -> Json:
    """A lease as everybody may see it."""
    return dict(zip(LEASE, lease_values(it), strict=True))


def listed(it: Lease) -> Json:
    """A lease in a listing: with its principal and key, where an admin asks."""
    return {**lease(it), **_asked_by(it)}


def _asked_by(it: Lease | Waiting | Session) -> Json:
    return {} if it.principal is None else {"principal": it.principal, "key": it.key}


def lease_values(it: Lease) -> tuple[Any, ...]:
    """The values of its fields."""
    # All at once: a field of a tuple by its name takes several times as long, and there are many of them.
    id_, space, resources, holder, session_, mode, slots, fence, ttl, begun, end, name, reason, context, as_of, _, _ = (
        it
    )
    return (
        id_,
        space,
        list(resources),
        holder,
        session_,
        mode,
        slots,
        fence,
        seconds(ttl),
        rfc3339(begun),
        rfc3339(end),
        seconds(max(0, end - as_of)),
        rfc3339(as_of),
        name,
        reason,
        None if context is None else _context(context),
    )


def why_forced(event: Event) -> object:
    """Who ended a lease and why, from the event that tells of it. Over git the commits keep only the whole reason."""
    told = event.detail
    return f"forced by {told['by']}: {told['why']}" if "by" in told else told.get("reason")


def blocker(it: Blocker) -> Json:
    """What stands in the way."""
    told: Json = {
        "resource": it.resource,
        "holder": it.holder,
        "state": it.state,
        "mode": it.mode,
        "name": it.name,
        "reason": it.reason,
        "since": rfc3339(it.since_us),
        "expires_at": rfc3339(it.until_us),
        "expires_in_seconds": None if it.until_us >= FOREVER else seconds(max(0, it.until_us - it.as_of_us)),
        "fence": it.fence,
        "lease": it.lease,
        "as_of": rfc3339(it.as_of_us),
        "yours": it.yours,
    }
    if it.watched_us is not None:  # only over git
        told["watched_since"] = rfc3339(it.watched_us)
        told["recorded_until"] = None if it.recorded_us is None else rfc3339(it.recorded_us)
    return told


def waiting(it: Waiting, now: int) -> Json:
    """A place in a queue."""
    return {
        "id": it.id,
        "resources": list(it.resources),
        "holder": it.holder,
        "session": it.session,
        "mode": it.mode,
        "position": it.position,
        "since": rfc3339(it.since_us),
        "waited_seconds": seconds(max(0, now - it.since_us)),
        "until": rfc3339(it.deadline_us),
        "name": it.name,
        "reason": it.reason,
        **_asked_by(it),
    }


def session(it: Session) -> Json:
    """A session, without its secret."""
    return {
        "id": it.session,
        "space": it.space,
        "holder": it.holder,
        "name": it.name,
        "ttl_seconds": seconds(it.ttl_us),
        "started_at": rfc3339(it.started_us),
        "expires_at": rfc3339(it.expires_us),
    }


def listed_session(it: Session) -> Json:
    """A session in a listing, as `listed`."""
    return {**session(it), **_asked_by(it)}


def key(it: Key) -> Json:
    """A key, without its secret."""
    return {
        "id": it.id,
        "role": it.role,
        "space": it.space,
        "name": it.name,
        "prefixes": list(it.prefixes),
        "created_at": rfc3339(it.created_us),
        "principal": it.principal,
        "until": rfc3339(it.until_us),
    }


def whoami(it: Whoami) -> Json:
    """The caller, and what it may do."""
    return {**it._asdict(), "prefixes": list(it.prefixes)}


TIMES = ("acquired_at", "expires_at", "expired_at", "deadline")
DURATIONS = ("ttl", "waited", "grace")
"""Details of events that are times and durations of the store's: a client turns them back (``client.decoding``)."""


def event(it: Event) -> Json:
    """One event of the history."""
    return {
        "seq": it.seq,
        "kind": it.kind,
        "at": rfc3339(it.at_us),
        "space": it.space,
        "resources": list(it.resources),
        "holder": it.holder,
        "session": it.session,
        "lease": it.lease,
        "fence": it.fence or None,
        "detail": {_told_as(key): _told(key, value) for key, value in it.detail.items()},
    }


def _told_as(key: str) -> str:
    return f"{key}_seconds" if key in DURATIONS else key


def _told(key: str, value: object) -> object:
    if key in TIMES and isinstance(value, int):
        return rfc3339(value)
    if key in DURATIONS and isinstance(value, int):
        return seconds(value)
    if key == "context" and isinstance(value, str):
        return _context(value)
    return MODE_NAMES.get(value, value) if key == "mode" and isinstance(value, str) else value


def inspection(it: Inspection) -> Json:
    """How a resource stands."""
    return {
        "resource": it.resource,
        "at": rfc3339(it.now_us),
        "free": not it.leases and not it.closed,
        "leases": [listed(each) for each in it.leases],
        "waiting": [waiting(each, it.now_us) for each in it.waiting],
        "closed": [blocker(each) for each in it.closed],
    }


# ----------------------------------------------------------------------------------------------- answers


def graph(it: Graph) -> Json:
    """Who waits for whom."""
    return {
        "at": rfc3339(it.now_us),
        "agents": [each._asdict() for each in it.agents],
        "resources": _contended(it),
        "edges": [edge(each, it.now_us) for each in it.edges],
        "complete": it.complete,
        "deadlocks": [event(each) for each in it.deadlocks],
    }


def edge(it: Edge, now: int) -> Json:
    """One agent that waits for another."""
    return {
        "waiter": it.waiter,
        "blocker": it.blocker,
        "resource": it.resource,
        "state": it.state,
        "by": it.by,
        "place": it.place,
        "since": rfc3339(it.since_us),
        "waited_seconds": seconds(max(0, now - it.since_us)),
        "until": rfc3339(it.until_us),
    }


def _contended(it: Graph) -> list[Json]:
    """What they wait for, each with who is in the way and who wants it, as the edges have it."""
    spaces = {agent.id: agent.space for agent in it.agents}
    found: dict[tuple[str, str], tuple[dict[str, None], dict[str, None]]] = {}
    for each in it.edges:
        holders, waiting = found.setdefault((spaces[each.waiter], each.resource), ({}, {}))
        waiting[each.waiter] = None
        if each.state == "held":
            holders[each.blocker] = None
    return [
        {"space": space, "resource": name, "holders": list(holders), "waiting": list(waiting)}
        for (space, name), (holders, waiting) in found.items()
    ]


def answer(outcome: Any) -> Json:  # noqa: ANN401 (an outcome, or what a verb that looks gives)
    """The `data` of an answer, or the `error` of a refusal (see `is_refusal`)."""
    return _SHAPES[type(outcome)](outcome)


def is_refusal(outcome: object) -> bool:
    """Whether this answer means no."""
    return type(outcome) in _REFUSALS


def envelope(outcome: Any) -> Json:  # noqa: ANN401 (see `answer`)
    """What ``--json`` prints, whether it is a yes or a no."""
    no = is_refusal(outcome)
    return {"schema_version": SCHEMA_VERSION, "ok": not no, "error" if no else "data": answer(outcome)}


def _granted(it: Granted) -> Json:
    told: Json = {"lease": lease(it.lease), "token": it.token, "fresh": it.fresh}
    if it.unapplied:
        told["unapplied"] = list(it.unapplied)
    return told


def _refusal(code: str) -> Callable[[Any], Json]:
    def shape(it: Held | TimedOut) -> Json:
        return {
            "code": code,
            "message": sentence(it),
            "resources": list(it.resources),
            "holders": [blocker(each) for each in it.blockers],
            "queue": {"length": it.queue.length, "position": it.queue.position},
            "retry_after_seconds": seconds(it.retry_us),
        }

    return shape


def _deadlock(it: Deadlock) -> Json:
    return {
        "code": "deadlock",
        "message": sentence(it),
        "resources": list(it.resources),
        "cycle": list(it.cycle),
    }


def leases(they: Iterable[Lease]) -> Json:
    """A listing of leases."""
    return {"leases": [listed(each) for each in they]}


def events(they: Iterable[Event]) -> Json:
    """A listing of events."""
    return {"events": [event(each) for each in they]}


_SHAPES: Final[dict[type, Callable[[Any], Json]]] = {
    Granted: _granted,
    Held: _refusal("held"),
    TimedOut: _refusal("timeout"),
    Deadlock: _deadlock,
    Renewed: lambda it: {"lease": lease(it.lease)},
    Updated: lambda it: {"lease": lease(it.lease)},
    Lost: lambda it: {"code": "lost", "message": sentence(it), "lease": it.lease, "reason": it.reason},
    Released: lambda it: dict(zip(RELEASED, (it.lease, it.released, it.reason, list(it.resources)), strict=True)),
    Cancelled: lambda it: {"cancelled": True, "was": it.was},
    SessionStarted: lambda it: {"session": session(it.session), "credential": it.secret},
    SessionRenewed: lambda it: {"session": session(it.session), "leases": [lease(each) for each in it.leases]},
    SessionEnded: lambda it: {"session": it.session, "ended": it.ended, "released": list(it.released)},
    Cleared: lambda it: {"resources": list(it.resources), "cleared": it.cleared},
    KeyCreated: lambda it: {"key": key(it.key), "credential": it.credential},
    KeyRotated: lambda it: {"key": key(it.key), "credential": it.credential, "before": key(it.before)},
    KeyRevoked: lambda it: {"key": it.key, "revoked": it.revoked},
    Refused: lambda it: {"code": it.code, "message": sentence(it), "field": it.field or None},
    Inspection: inspection,
    Graph: graph,
}


def sentence(outcome: Held | TimedOut | Deadlock | Lost | Refused) -> str:
    """A refusal in one sentence that says what to do next."""
    if isinstance(outcome, Held) and is_yours(outcome):
        return f"{_what(outcome)} is {_by_you(outcome)}; go on under it (reentrant extends it), or release it first"
    if isinstance(outcome, Held):
        return f"{_what(outcome)} is {_by(outcome)}; try again later, or wait for it{_watched(outcome)}"
    if isinstance(outcome, TimedOut):
        return f"{_what(outcome)} is still {_by(outcome)}; the wait is over{_watched(outcome)}"
    if isinstance(outcome, Deadlock):
        path = " → ".join((*outcome.cycle, outcome.cycle[0]))
        return f"possible deadlock: {path}; release what you hold and try again"
    if isinstance(outcome, Lost):
        return f"the lease is gone ({outcome.reason}); stop working on it, or acquire it anew"
    return f"{outcome.field}: {outcome.message}" if outcome.field else outcome.message


def is_yours(outcome: Held | TimedOut) -> bool:
    """True if nothing is in the way but what the caller holds itself, as it has proved."""
    return bool(outcome.blockers) and all(each.yours and each.state == "held" for each in outcome.blockers)


def _by_you(outcome: Held) -> str:
    names = " + ".join(dict.fromkeys(each.resource for each in outcome.blockers))
    since = (rfc3339(outcome.blockers[0].since_us) or "")[:19] + "Z"
    return f"yours since {since}{'' if names == _what(outcome) else f', as {names}'}"


def _what(outcome: Held | TimedOut) -> str:
    return " + ".join(outcome.resources)


def _watched(outcome: Held | TimedOut) -> str:
    """Over git: since when the lease that is in the way was watched, when it may be taken over, how to go quicker."""
    first = outcome.blockers[0] if outcome.blockers else None
    if first is None or first.watched_us is None or first.until_us >= FOREVER:
        return ""
    told = f". Watched from here since {rfc3339(first.watched_us)}; may be taken over at {rfc3339(first.until_us)}"
    if not is_quicker_by_the_wall(first):
        return told
    return f"{told}, or {SKEW} after it expires by its holder's clock with max_skew={SKEW} (docs/git-clocks.md)"


def is_quicker_by_the_wall(it: Blocker) -> bool:
    """Whether an observer that trusts wall clocks would get this lease sooner."""
    return it.recorded_us is not None and it.recorded_us + durations.parse(SKEW) < it.until_us


SKEW: Final = "30s"
"""The `max_skew` that is proposed: clocks that NTP keeps are much closer, and a runner's first seconds are included."""


def _rounded(left: int) -> int:
    """As people say it; upwards, since it is told as the most that it can be."""
    exact = 1_000 if left < 10 * SECOND else SECOND
    return -(-left // exact) * exact


def _by(outcome: Held | TimedOut) -> str:
    if not outcome.blockers:
        return "held"
    first = outcome.blockers[0]
    work = f" ({first.name})" if first.name else ""
    if first.state == "quarantined":
        return f"closed after {first.holder}{work} ended uncleanly, until somebody clears it"
    state = {"held": "held by", "waiting": "wanted before you by", "grace": "closed for a while after"}[first.state]
    left = durations.format(_rounded(max(0, first.until_us - first.as_of_us)))
    more = f" and {len(outcome.blockers) - 1} more" if len(outcome.blockers) > 1 else ""
    return f"{state} {first.holder}{work}{more}, for another {left} at most"
