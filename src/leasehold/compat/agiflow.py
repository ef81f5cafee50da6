"""Agiflow's workflow locks in terms of `Locks`: a lock is a named run with an outcome. It neither listens nor prints.

A run is a lease on two names: what it locks (`work-unit:7`) and its own (`run:wf-01KSH…`), by which it is found while
it lives and in the history afterwards. So a run needs nothing of its own in any store.
"""

from __future__ import annotations

import os
import time

from leasehold.domain.nouns import Noun
from leasehold.domain.outcomes import Deadlock, Granted, Held, Lost, Refused, Released, TimedOut
from leasehold.errors import InvalidInput
from leasehold.wire import shapes as wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from leasehold.domain.events import Event
    from leasehold.domain.leases import Inspection, Lease
    from leasehold.domain.outcomes import Collected
    from leasehold.steps import Steps

    Json: TypeAlias = dict[str, Any]

PREFIX = "wf-"
RUN = "run:"
RUNNING = "running"
EXPIRED = "expired"
STATUSES = (RUNNING, "completed", "failed", "cancelled", EXPIRED)
ENDS = ("released", EXPIRED, "forced")
"""The events that are the last of a run."""
BEGIN = "granted"
LIMIT = 50
PAGE = 500
PAGES_MOST = 40
"""The most pages of history that a list reads: the events of other leases are among them."""
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID = 26


class AgiflowCaller(Noun):
    """The caller, with its right to change runs."""

    holder: str
    space: str
    session: str | None = None
    """The credential of a session, with which the run ends."""
    session_id: str | None = None
    rules: bool = True
    """True if it may change the runs of all: admins, and users who opened the store themselves."""
    principal: str | None = None
    """As `Lease.principal`: two principals may have the same name."""

    @property
    def proof(self) -> Json:
        """Its proof to end or renew a run that `may` allows."""
        return {"admin": self.holder} if self.session is None else {"session": self.session}

    def may(self, lease: Lease) -> bool:
        """True if it may change this run."""
        if self.session is not None:
            return lease.session == self.session_id
        is_own = (lease.holder, lease.principal) == (self.holder, self.principal)
        return self.rules or (is_own and lease.session is None)


class RunConflict(Noun):
    """Another run is active on the same work."""

    held: Held | TimedOut
    run: Json | None
    """The other run; None if the lease is no run."""


if TYPE_CHECKING:
    Told: TypeAlias = Json | RunConflict | Refused | Lost | Deadlock


# ------------------------------------------------------------------------------------------- ids and names


def new_id() -> str:
    """Return `wf-` and a ULID: the time in milliseconds, then 80 random bits."""
    number = (time.time_ns() // 1_000_000 << 80) | int.from_bytes(os.urandom(10))
    letters = [_ALPHABET[number >> shift & 31] for shift in range(5 * (_ULID - 1), -1, -5)]
    return PREFIX + "".join(letters)


def run_id(value: object) -> str:
    """Return the id of a run. Raises InvalidInput if it is malformed."""
    text = str.__str__(value) if isinstance(value, str) else ""
    ulid = text.removeprefix(PREFIX)
    if not (text.startswith(PREFIX) and len(ulid) == _ULID and set(ulid) <= set(_ALPHABET) and ulid[0] <= "7"):
        raise InvalidInput("id", "must be the id of a run, such as wf-01KSH0Y9W0Q3V4M8E5T6R7D8C9")
    return text


def resource(*, project: str | None = None, work_unit: str | None = None, task: str | None = None) -> str:
    """Return the name of the work that a run locks: exactly one of task, work unit and project."""
    given = {"task": task, "work-unit": work_unit, "project": project}
    named = [f"{kind}:{id_}" for kind, id_ in given.items() if id_ is not None]
    if len(named) != 1:
        raise InvalidInput("work_unit", "exactly one of work_unit, task and project is needed: what is locked?")
    return named[0]


def status(value: object) -> str | None:
    """Check the status filter of a list."""
    if value is not None and value not in STATUSES:
        raise InvalidInput("status", f"must be one of {', '.join(STATUSES)}")
    return None if value is None else str(value)


# --------------------------------------------------------------------------------------------------- shapes


def _own_name(resources: tuple[str, ...]) -> str | None:
    return next((name.removeprefix(RUN) for name in resources if name.startswith(RUN + PREFIX)), None)


def _locked(resources: tuple[str, ...]) -> str | None:
    return next((name for name in resources if not name.startswith(RUN + PREFIX)), None)


def of_lease(lease: Lease) -> Json | None:
    """Return an active run as JSON; None for a lease that is no run."""
    id_ = _own_name(lease.resources)
    if id_ is None:
        return None
    told = wire.lease(lease)
    return {
        "id": id_,
        "status": RUNNING,
        "name": lease.name,
        "space": lease.space,
        "resource": _locked(lease.resources),
        "holder": lease.holder,
        "context": told["context"],
        "error": None,
        "started_at": told["acquired_at"],
        "ended_at": None,
        "expires_at": told["expires_at"],
        "ttl_seconds": told["ttl_seconds"],
        "fence": lease.fence,
        "lease": lease.id,
    }


def of_event(event: Event) -> Json | None:
    """Return an ended run as JSON, from the last event of its lease."""
    id_ = _own_name(event.resources)
    if id_ is None:
        return None
    told = wire.event(event)
    outcome, error = _ended(event)
    return {
        "id": id_,
        "status": outcome,
        "name": told["detail"].get("name"),
        "space": event.space,
        "resource": _locked(event.resources),
        "holder": event.holder,
        "context": told["detail"].get("context"),
        "error": error,
        "started_at": told["detail"].get("acquired_at"),
        "ended_at": told["detail"].get("expired_at", told["at"]),  # the expiry may have been recorded later
        "expires_at": None,
        "ttl_seconds": None,
        "fence": event.fence,
        "lease": event.lease,
    }


def _ended(event: Event) -> tuple[str, object]:
    if event.kind == EXPIRED:
        return EXPIRED, "no heartbeat came before the TTL was over"
    if event.kind == "forced":
        return "cancelled", wire.why_forced(event)
    return str(event.detail["status"]), event.detail.get("error")


# ----------------------------------------------------------------------------------------------- the verbs


def create(
    who: AgiflowCaller, id_: str, locked: str, *, name: str, ttl: float | str, context: object = None, wait: float = 0
) -> Steps[Told]:
    """Begin a run, unless another is active on the same work; wait so many seconds for that one to end."""
    outcome = yield (
        "acquire",
        {
            "resources": [locked, RUN + id_],
            "ttl": ttl,
            "holder": who.holder,
            "space": who.space,
            "session": who.session,
            "name": name,
            "context": context,
            "request_id": id_,
            "wait": wait,
        },
    )
    if isinstance(outcome, Granted):
        return of_lease(outcome.lease) or {}
    if isinstance(outcome, Held | TimedOut):
        active = yield from check(who, locked)
        held = outcome._replace(resources=(locked,))  # the run's own name is not the one that is held
        return RunConflict(held, active or None) if isinstance(active, dict) else active
    return outcome  # type: ignore[no-any-return] # a Refused, or after a wait a Deadlock


def check(who: AgiflowCaller, locked: str) -> Steps[Told]:
    """Return the active run on this work; nothing if there is none."""
    seen: Inspection | Refused = yield "inspect", {"resource": locked, "space": who.space}
    if isinstance(seen, Refused):
        return seen
    return next((run for run in map(of_lease, seen.leases) if run is not None), {})


def get(who: AgiflowCaller, id_: str) -> Steps[Told]:
    """Return a run, active or ended."""
    lease = yield from _find(who, id_)
    if isinstance(lease, Refused):
        return lease
    return (of_lease(lease) or {}) if lease is not None else (yield from _over(who, id_))


def _find(who: AgiflowCaller, id_: str) -> Steps[Lease | Refused | None]:
    seen: Inspection | Refused = yield "inspect", {"resource": RUN + id_, "space": who.space}
    if isinstance(seen, Refused):
        return seen
    return seen.leases[0] if seen.leases else None


def _over(who: AgiflowCaller, id_: str) -> Steps[Json | Refused]:
    asked = {"space": who.space, "resource": RUN + id_, "limit": 1}
    past: tuple[Event, ...] | Refused = yield "history", {**asked, "kinds": (*ENDS, BEGIN)}
    if not isinstance(past, Refused) and past and past[0].kind == BEGIN:
        refusal = yield from _sweep()
        past = (yield "history", {**asked, "kinds": ENDS}) if refusal is None else refusal
    if isinstance(past, Refused):
        return past
    run = of_event(past[0]) if past else None
    return Refused("not_found", "id", f"there is no run {id_} in {who.space}") if run is None else run


def _sweep() -> Steps[Refused | None]:
    """Record expired leases: a store does that only in a later transaction."""
    swept: Collected | Refused = yield "gc", {}
    return swept if isinstance(swept, Refused) else None


def _touch(who: AgiflowCaller, id_: str) -> Steps[Lease | Json | Refused]:
    """Return the lease of an active run that the caller may change; the run itself if it has ended."""
    lease = yield from _find(who, id_)
    if lease is None:
        return (yield from _over(who, id_))
    if isinstance(lease, Refused) or who.may(lease):
        return lease
    return Refused("not_allowed", "id", f"this run belongs to {lease.holder}; only its own key or an admin may")


def update(who: AgiflowCaller, id_: str, context: object, *, merge: bool = False) -> Steps[Told]:
    """Replace the context of a run, or merge into it. It also resets the TTL."""
    found = yield from _touch(who, id_)
    if isinstance(found, Refused):
        return found
    if isinstance(found, dict):
        return _gone(found)
    outcome = yield "update", {"lease": found.id, "context": context, "merge": merge, **who.proof}
    if isinstance(outcome, Refused | Lost):
        return outcome
    return (yield from _beat(who, found))


def heartbeat(who: AgiflowCaller, id_: str, ttl: float | str | None = None) -> Steps[Told]:
    """Reset the TTL of a run."""
    found = yield from _touch(who, id_)
    if isinstance(found, Refused):
        return found
    return _gone(found) if isinstance(found, dict) else (yield from _beat(who, found, ttl))


def _beat(who: AgiflowCaller, lease: Lease, ttl: float | str | None = None) -> Steps[Told]:
    outcome = yield "renew", {"lease": lease.id, "ttl": ttl, **who.proof}
    return outcome if isinstance(outcome, Refused | Lost) else of_lease(outcome.lease) or {}


def _gone(run: Json) -> Lost:
    reason = f"{run['status']}: {run['error']}" if run["error"] else run["status"]
    return Lost(run["lease"] or "", reason)


def release(who: AgiflowCaller, id_: str, *, outcome: str, error: str | None = None) -> Steps[Told]:
    """End exactly this run, never a successor. A run that has ended already is returned as it ended."""
    found = yield from _touch(who, id_)
    if isinstance(found, Refused):
        return found
    if isinstance(found, dict):
        return _gone(found) if found["status"] in (EXPIRED, "cancelled") else {**found, "released": False}
    done: Released | Refused = yield ("release", {"lease": found.id, "status": outcome, "error": error, **who.proof})
    if isinstance(done, Refused):
        return done
    run = yield from _over(who, id_)
    if isinstance(run, Refused):  # a store that keeps no history
        run = {**(of_lease(found) or {}), "status": outcome, "error": error, "expires_at": None}
    return {**run, "released": done.released}


def runs(
    who: AgiflowCaller, *, wanted: str | None = None, locked: str | None = None, limit: int = LIMIT
) -> Steps[Json | Refused]:
    """Return the runs of this space, the newest first: active ones, and those in the history."""
    found: list[Json] = []
    active: tuple[Lease, ...] | Refused = ()
    if wanted in (None, RUNNING, EXPIRED):
        active = yield "list", {"space": who.space, "resource": locked}
    if isinstance(active, Refused):
        return active
    if wanted != EXPIRED:
        found += [run for run in map(of_lease, reversed(active)) if run is not None]
    if wanted != RUNNING and len(found) < limit:
        past = yield from _past(who, wanted, locked, limit - len(found), {lease.id for lease in active})
        if isinstance(past, Refused):
            return past
        found += past
    return {"workflows": found[:limit]}


def _past(
    who: AgiflowCaller, wanted: str | None, locked: str | None, limit: int, active: set[str]
) -> Steps[list[Json] | Refused]:
    """Return ended runs. One that began, has no end and is not `active` has expired without a record."""
    seen = yield from _scan(who, wanted, locked, limit, active)
    if not isinstance(seen, Refused) and seen[1]:
        refusal = yield from _sweep()
        seen = (yield from _scan(who, wanted, locked, limit, active)) if refusal is None else refusal
    return seen if isinstance(seen, Refused) else seen[0][:limit]


def _scan(
    who: AgiflowCaller, wanted: str | None, locked: str | None, limit: int, active: set[str]
) -> Steps[tuple[list[Json], bool] | Refused]:
    """Return the runs whose end is in the history, and whether some are missing."""
    found: list[Json] = []
    known, is_incomplete = set(active), False
    before: int | None = None
    kinds = (*ENDS, BEGIN) if wanted in (None, EXPIRED) else ENDS
    for _ in range(PAGES_MOST):
        page: tuple[Event, ...] | Refused = yield (
            "history",
            {"space": who.space, "resource": locked, "kinds": kinds, "before": before, "limit": PAGE},
        )
        if isinstance(page, Refused):
            return page
        ends = [event for event in page if event.kind != BEGIN]
        known.update(event.lease for event in ends if event.lease is not None)  # an end is newer than its beginning
        begun = (event for event in page if event.kind == BEGIN and _own_name(event.resources) is not None)
        is_incomplete = is_incomplete or any(event.lease not in known for event in begun)
        found += [run for run in map(of_event, ends) if run is not None and wanted in (None, run["status"])]
        if len(page) < PAGE or len(found) >= limit:
            break
        before = page[-1].seq
    return found, is_incomplete
