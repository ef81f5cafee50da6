"""Permissions of a principal: which verbs, in which space, on which names, and how often."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final

from leasehold.domain import names
from leasehold.domain.api_keys import Whoami
from leasehold.domain.leases import Inspection, Lease
from leasehold.domain.outcomes import Planned
from leasehold.domain.plans import Plan
from leasehold.domain.sessions import Session
from leasehold.requests import checks
from leasehold.server.access.authentication import session_id
from leasehold.server.access.principals import OPEN
from leasehold.server.api.problems import Problem

if TYPE_CHECKING:
    from leasehold.server.access.principals import Principal

LOOKING: Final = frozenset(
    {"whoami", "inspect", "list", "plans", "graph", "history", "sessions", "events", "losses"}
) | {
    "get_run",
    "check_run",
    "list_runs",
}
RUNNING = frozenset({"create_run", "update_run", "beat_run", "release_run"})
OWN = RUNNING | {
    *(
        "acquire",
        "renew",
        "release",
        "batch",
        "update",
        "cancel",
        "renew_session",
        "end_session",
        "report_trespass",
        "note",
        "plan",
    ),
}
RULING = frozenset(
    {
        "force_release",
        "steal",
        "clear",
        "extend",
        "gc",
        "keys",
        "create_key",
        "rotate_key",
        "revoke_key",
        "declare_pool",
    }
)
ROLES: Final = {
    "viewer": LOOKING,
    "session": LOOKING | OWN,
    "agent": LOOKING | OWN | {"start_session"},
    "admin": LOOKING | OWN | {"start_session"} | RULING,
}
_DOES = {
    "keys": "list keys",
    "create_key": "create keys",
    "rotate_key": "rotate keys",
    "revoke_key": "revoke keys",
    "gc": "sweep (gc)",
    "whoami": "ask who it is",
    "extend": "extend the lease of another holder",
    "note": "leave a note",
    "start_session": "start a session",
    "renew_session": "renew a session",
    "end_session": "end a session",
} | {verb: f"{verb.partition('_')[0].replace('beat', 'renew')} a run" for verb in RUNNING}
"""How to say in a sentence that a role may not call a verb, where the verb's name does not do."""
NAME_BYTES: Final = 256
"""The longest name, also of two names that are written together."""
PROVEN: Final = ("renew", "release", "update")
"""Verbs that need the token of the lease, or its session."""
EVERYWHERE = ("list", "plans", "graph", "history", "sessions", "events", "losses")
"""Verbs for which an admin that names no space means every space."""
RATE = 1_000.0
"""Requests a second that each principal may make."""
RATED_MOST = 10_000


def allow(who: Principal, verb: str) -> None:
    """Refuse a verb that this role does not have."""
    if verb not in ROLES[who.role]:
        does = _DOES.get(verb, verb.replace("_", "-"))
        article = "an" if who.role[0] == "a" else "a"
        raise Problem("not_allowed", f"{article} {who.role} may not {does}; it takes another key")


def bound(who: Principal, verb: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call within the principal's bounds: its space, its names, its own name."""
    if "space" in asked:
        asked["space"] = space_of(who, verb, asked["space"])
    if "by" in asked:
        asked["by"] = _by(who, asked["by"])
    if "holder" in asked and asked["holder"] is None and verb not in LOOKING:
        asked["holder"] = who.name
    if verb in ("acquire", "steal", "plan") and who.prefixes:
        check_names(who, asked["resources"])
    if verb in ("note", "declare_pool") and who.prefixes:
        check_names(who, asked["resource"])
    if who.session is not None:
        _as_session(who, verb, asked)
    elif verb in PROVEN:
        asked["admin"] = who.name if who.role == "admin" and not asked["token"] and not asked["session"] else None
    elif verb == "cancel":  # on an open server, where every caller is an admin, a request_id can be guessed
        is_admin = who.role == "admin" and who is not OPEN
        asked["admin"] = who.name if is_admin and not asked["token"] and not asked["session"] else None
    elif verb in ("renew_session", "end_session"):
        if asked["session"] is None:
            message = "session: is missing: which one? ID.SECRET, or for admins its id"
            raise Problem("invalid", message, field="session")
        asked["admin"] = who.name if who.role == "admin" and not checks.is_credential(asked["session"]) else None
    elif verb == "start_session":
        _choose_session(who, asked)
    return asked


def _by(who: Principal, by: str | None) -> str:
    """Return the name for the history: always that of the key, with the name that the caller gave."""
    if by is None:
        return who.name
    given = checks.text(by, "by", NAME_BYTES)
    if who is OPEN or given == who.name:
        return given
    both = f"{who.name} ({given})"
    return both if len(both.encode()) <= NAME_BYTES else who.name


def bounded(who: Principal, verb: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Refuse a verb that the principal does not have, and return the arguments within its bounds."""
    allow(who, verb)
    asked = bound(who, verb, asked)
    if verb in PROVEN:
        del asked["space"]  # it only said where a session lives: a lease's id is enough
    return asked


def whoami(who: Principal) -> Whoami:
    """Return what the server knows of a caller."""
    session = None if who.session is None else checks.session_id(who.session)
    principal, key = (None, None) if who.authority is None else who.authority[:2]
    return Whoami(who.name, who.role, who.space if who.role != "admin" else None, who.prefixes, principal, key, session)


def as_seen_by(who: Principal, outcome: Any) -> Any:  # noqa: ANN401 (each verb knows what it gives)
    """Return the outcome without principals and keys, which only admins see."""
    if who.role == "admin":
        return outcome
    if isinstance(outcome, Inspection):
        waiting = tuple(map(_nameless, outcome.waiting))
        leases, plans = tuple(map(_nameless, outcome.leases)), tuple(map(_nameless, outcome.plans))
        return outcome._replace(leases=leases, waiting=waiting, plans=plans)
    if isinstance(outcome, Planned):
        return outcome._replace(plan=_nameless(outcome.plan))
    if type(outcome) is tuple and outcome and isinstance(outcome[0], Lease | Session | Plan):
        return tuple(map(_nameless, outcome))
    return outcome


def _nameless(it: Any) -> Any:  # noqa: ANN401 (a lease, a plan, a waiting request or a session)
    return it._replace(principal=None, key=None)


def space_of(who: Principal, verb: str, space: str | None) -> str | None:
    """Return the space of a call; refuse one that the principal's key is not for."""
    if who.role == "admin":
        return space if space is not None or verb in EVERYWHERE else who.space
    if space is not None and space != who.space:
        raise Problem("not_allowed", f"this key is for the space {who.space}, not for {space[:100]}")
    return who.space


def check_names(who: Principal, resources: object) -> None:
    """Refuse names outside the principal's prefixes, as the rules see them: `path:docs/../secret` is `path:secret`.

    A pattern is allowed where all that it can match is.
    """
    for name in checks.resource_names(resources):
        if who.prefixes and not names.literal(name).startswith(who.prefixes):
            raise Problem("not_allowed", f"this key is only for names that begin with {' or '.join(who.prefixes)}")


def _as_session(who: Principal, verb: str, asked: dict[str, Any]) -> None:
    """Have a session act in its own name and on its own leases, with its secret as the proof in place of any token."""
    if "session" in asked:
        if asked["session"] not in (None, who.session):
            raise Problem("not_allowed", "a session acts in its own name only")
        asked["session"] = who.session
    if "holder" in asked and verb not in LOOKING:
        asked["holder"] = who.name
    if verb in PROVEN:
        asked["token"], asked["admin"] = None, None
    if verb in ("renew_session", "end_session"):
        asked["admin"] = None


def _choose_session(who: Principal, asked: dict[str, Any]) -> None:
    secret = asked.pop("secret", None)
    if secret is not None and asked["session"] is not None:
        raise Problem("invalid", "secret: is part of session, ID.SECRET: give one of them", field="secret")
    if secret is not None:
        asked["session"] = checks.BY_SECRET + secret
    if asked["session"] is not None and who.role != "admin":
        raise Problem("not_allowed", "only an admin chooses the id and the secret of a session", field="session")
    if asked["session"] is None and who.id != "open":
        asked["session"] = f"{session_id(who.principal, os.urandom(8).hex())}.{os.urandom(16).hex()}"


# ------------------------------------------------------------------------------------------ how often


class TokenBucket:
    """How many requests a principal has left, and since when they fill up again."""

    __slots__ = ("left", "since")

    def __init__(self, left: float, since: float) -> None:
        self.left = left
        self.since = since


class Rates:
    """Limits the requests of each principal to `rate` a second. A bucket holds one second's worth."""

    def __init__(self, rate: float = RATE) -> None:
        self._rate = float(rate)
        self._buckets: dict[str, TokenBucket] = {}

    def take(self, who: str) -> None:
        """Count one request; refuse it if there were too many."""
        rate = self._rate
        if not rate:
            return
        now = time.monotonic()
        bucket = self._buckets.get(who)
        if bucket is None:
            if len(self._buckets) >= RATED_MOST:  # a bucket unused for a second is full, and need not be kept
                self._buckets = {name: each for name, each in self._buckets.items() if now - each.since < 1}
            bucket = self._buckets[who] = TokenBucket(rate, now)
        left = min(rate, bucket.left + (now - bucket.since) * rate)
        if left < 1:
            raise Problem(
                "rate_limited",
                f"more than {rate:g} requests a second; slow down",
                retry_after_seconds=round((1 - left) / rate, 6),
            )
        bucket.left = left - 1
        bucket.since = now
