"""From what a server answers to the nouns of the model: the counterpart of ``wire``. It trusts the server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from leasehold.domain.api_keys import Key, KeyCreated, KeyRevoked, KeyRotated, Whoami
from leasehold.domain.events import Event
from leasehold.domain.graph import Agent, Edge, Graph
from leasehold.domain.leases import Blocker, Inspection, Lease, Queue, Waiting
from leasehold.domain.outcomes import (
    Cancelled,
    Cleared,
    Collected,
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
from leasehold.errors import BY_CODE
from leasehold.requests.checks import MODES
from leasehold.wire.shapes import DURATIONS, TIMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.wire.shapes import Json

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def when(text: str | None) -> int:
    """A time of the store's clock; what never comes is told as nothing."""
    return FOREVER if text is None else (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND


def span(seconds: float | None) -> int:
    """A duration."""
    return FOREVER if seconds is None else round(seconds * SECOND)


def _text(value: object) -> str | None:
    """A context is JSON text in the model, and a JSON value on the wire."""
    if value is None:
        return None
    import json  # noqa: PLC0415

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def lease(it: Json) -> Lease:
    """A lease."""
    return Lease(
        it["id"],
        it["space"],
        tuple(it["resources"]),
        it["holder"],
        it["session"],
        it["mode"],
        it["slots"],
        it["fence"],
        span(it["ttl_seconds"]),
        when(it["acquired_at"]),
        when(it["expires_at"]),
        it["name"],
        it["reason"],
        _text(it["context"]),
        when(it["as_of"]),
        it.get("principal"),
        it.get("key"),
    )


def _granted(it: Json) -> Granted:
    return Granted(lease(it["lease"]), it["token"], it["fresh"], tuple(it.get("unapplied", ())))


def blocker(it: Json) -> Blocker:
    """What stands in the way."""
    return Blocker(
        it["resource"],
        it["holder"],
        it["state"],
        it["mode"],
        it["name"],
        it["reason"],
        when(it["since"]),
        when(it["expires_at"]),
        it["fence"],
        it["lease"],
        when(it["as_of"]),
        it["yours"],
        watched_us=_time(it.get("watched_since")),
        recorded_us=_time(it.get("recorded_until")),
    )


def _time(text: str | None) -> int | None:
    return None if text is None else when(text)


def _waiting(it: Json) -> Waiting:
    return Waiting(
        it["id"],
        tuple(it["resources"]),
        it["holder"],
        it["session"],
        it["mode"],
        it["position"],
        when(it["since"]),
        when(it["until"]),
        it["name"],
        it["reason"],
        it.get("principal"),
        it.get("key"),
    )


def _session(it: Json) -> Session:
    return Session(
        "session",
        it["space"],
        it["id"],
        it["holder"],
        "",
        it["name"],
        span(it["ttl_seconds"]),
        when(it["started_at"]),
        when(it["expires_at"]),
        it.get("principal"),
        it.get("key"),
    )


def _key(it: Json) -> Key:
    prefixes = tuple(it["prefixes"])
    since, until = when(it["created_at"]), when(it["until"])
    return Key(it["id"], it["role"], it["space"], it["name"], prefixes, "", since, it["principal"], until)


def _whoami(it: Json) -> Whoami:
    prefixes = tuple(it["prefixes"])
    return Whoami(it["name"], it["role"], it["space"], prefixes, it["principal"], it["key"], it["session"])


_DURATIONS = {f"{each}_seconds": each for each in DURATIONS}


def event(it: Json) -> Event:
    """One event of the history."""
    return Event(
        it["kind"],
        when(it["at"]),
        it["space"],
        tuple(it["resources"]),
        it["holder"],
        it["session"],
        it["lease"],
        it["fence"] or 0,
        {_DURATIONS.get(key, key): _detail(key, value) for key, value in it["detail"].items()},
        it["seq"],
    )


def _detail(key: str, value: object) -> object:
    if key in _DURATIONS and isinstance(value, int | float):
        return span(value)
    if key in TIMES and isinstance(value, str):
        return when(value)
    if key == "mode" and isinstance(value, str):
        return MODES.get(value, value)
    return _text(value) if key == "context" else value


def _inspection(it: Json) -> Inspection:
    return Inspection(
        it["resource"],
        when(it["at"]),
        tuple(map(lease, it["leases"])),
        tuple(map(_waiting, it["waiting"])),
        tuple(map(blocker, it["closed"])),
    )


def _graph(it: Json) -> Graph:
    agents = tuple(Agent(each["id"], each["space"], each["holder"], each["session"]) for each in it["agents"])
    return Graph(
        when(it["at"]), agents, tuple(map(_edge, it["edges"])), it["complete"], tuple(map(event, it["deadlocks"]))
    )


def _edge(it: Json) -> Edge:
    return Edge(
        it["waiter"],
        it["blocker"],
        it["resource"],
        it["state"],
        it["by"],
        it["place"],
        when(it["since"]),
        when(it["until"]),
    )


def _released(it: Json) -> Released:
    return Released(it["lease"], it["released"], it["reason"], tuple(it["resources"]))


_ANSWERS: dict[str, Callable[[Json], Any]] = {
    "acquire": _granted,
    "steal": _granted,
    "renew": lambda it: Renewed(lease(it["lease"])),
    "update": lambda it: Updated(lease(it["lease"])),
    "release": _released,
    "force_release": _released,
    "cancel": lambda it: Cancelled(it["was"]),
    "start_session": lambda it: SessionStarted(_session(it["session"]), it["credential"]),
    "renew_session": lambda it: SessionRenewed(_session(it["session"]), tuple(map(lease, it["leases"]))),
    "end_session": lambda it: SessionEnded(it["session"], it["ended"], tuple(it["released"])),
    "clear": lambda it: Cleared(tuple(it["resources"]), it["cleared"]),
    "gc": lambda it: Collected(it["swept"], it["forgotten"]),
    "create_key": lambda it: KeyCreated(_key(it["key"]), it["credential"]),
    "rotate_key": lambda it: KeyRotated(_key(it["key"]), it["credential"], _key(it["before"])),
    "revoke_key": lambda it: KeyRevoked(it["key"], it["revoked"]),
    "keys": lambda it: tuple(map(_key, it["keys"])),
    "whoami": _whoami,
    "inspect": _inspection,
    "list": lambda it: tuple(map(lease, it["leases"])),
    "graph": _graph,
    "sessions": lambda it: tuple(map(_session, it["sessions"])),
    "history": lambda it: tuple(map(event, it["events"])),
}


_BREAKAGES = ("error", "store", "outcome_unknown", "unreachable", "closed")


def answer(verb: str, body: Json) -> Any:  # noqa: ANN401 (each verb knows what it gets)
    """The outcome behind a yes."""
    return _ANSWERS[verb](body)


def refusal(problem: Json) -> Any:  # noqa: ANN401 (one of the refusals)
    """The outcome behind a no; a breakage is raised."""
    code = problem.get("code", "store")
    if code in ("held", "timeout"):
        return _held(Held if code == "held" else TimedOut, problem)
    if code == "deadlock":
        return Deadlock(tuple(problem["resources"]), tuple(problem["cycle"]))
    if code == "lost":
        return Lost(problem.get("lease", ""), problem.get("reason", ""))
    if code in _BREAKAGES:
        raise BY_CODE[code](problem.get("detail", code))
    spelled: str = problem.get("field") or ""
    told: str = problem.get("detail") or problem.get("title") or code
    return Refused(code, spelled.removesuffix("_seconds"), told.removeprefix(f"{spelled}: ") if spelled else told)


def _held(kind: type[Held | TimedOut], problem: Json) -> Held | TimedOut:
    queue = problem["queue"]
    return kind(
        tuple(problem["resources"]),
        tuple(map(blocker, problem["holders"])),
        Queue(queue["length"], queue["position"]),
        span(problem["retry_after_seconds"]),
    )
