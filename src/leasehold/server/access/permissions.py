"""What a principal may do: which verbs, in which space, on which names. One table, and the bounds of each call."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from leasehold.domain.api_keys import Whoami
from leasehold.domain.leases import Inspection, Lease
from leasehold.domain.sessions import Session
from leasehold.requests import checks
from leasehold.server.access.keys import session_id
from leasehold.server.access.principals import OPEN
from leasehold.server.api.problems import Problem

if TYPE_CHECKING:
    from leasehold.server.access.principals import Principal

LOOKING: Final = frozenset({"whoami", "inspect", "list", "graph", "history", "sessions", "events", "losses"}) | {
    "get_run",
    "check_run",
    "list_runs",
}
RUNNING = frozenset({"create_run", "update_run", "beat_run", "release_run"})
OWN = frozenset({"acquire", "renew", "release", "batch", "update", "cancel", "renew_session", "end_session"}) | RUNNING
RULING = frozenset({"force_release", "steal", "clear", "gc", "keys", "create_key", "rotate_key", "revoke_key"})
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
    "start_session": "start a session",
    "renew_session": "renew a session",
    "end_session": "end a session",
} | {verb: f"{verb.partition('_')[0].replace('beat', 'renew')} a run" for verb in RUNNING}
"""Verbs whose names are no words of a sentence."""
NAME_BYTES: Final = 256
"""How long a name may be, and two of them together."""
PROVEN: Final = ("renew", "release", "update")
EVERYWHERE = ("list", "graph", "history", "sessions", "events", "losses")
"""Where an admin who names no space means all of them."""


def allow(who: Principal, verb: str) -> None:
    """Whether this role has this verb at all."""
    if verb not in ROLES[who.role]:
        does = _DOES.get(verb, verb.replace("_", "-"))
        raise Problem("not_allowed", f"{_a(who.role)} may not {does}; it takes another key")


def _a(role: str) -> str:
    return {"session": "a session", "viewer": "a viewer", "agent": "an agent"}.get(role, role)


def bound(who: Principal, verb: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The call as this principal may make it: its space, its names, its own name."""
    if "space" in asked:
        asked["space"] = space_of(who, verb, asked["space"])
    if "by" in asked:
        asked["by"] = _told_as(who, asked["by"])
    if "holder" in asked and asked["holder"] is None and verb not in LOOKING:
        asked["holder"] = who.name
    if verb in ("acquire", "steal") and who.prefixes:
        check_names(who, asked["resources"])
    if who.session is not None:
        _as_session(who, verb, asked)
    elif verb in PROVEN:
        asked["admin"] = who.name if who.role == "admin" and not asked["token"] and not asked["session"] else None
    elif verb in ("renew_session", "end_session"):
        _of_session(who, asked)
    elif verb == "start_session":
        _start(who, asked)
    return asked


def _told_as(who: Principal, by: str | None) -> str:
    """Who does it, for the history: always the name of the key, and who says to use it."""
    if by is None:
        return who.name
    told = checks.text(by, "by", NAME_BYTES)
    if who is OPEN or told == who.name:
        return told
    both = f"{who.name} ({told})"
    return both if len(both.encode()) <= NAME_BYTES else who.name


def bounded(who: Principal, verb: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The call as this principal may make it, if it may make it at all."""
    allow(who, verb)
    asked = bound(who, verb, asked)
    if verb in PROVEN:
        del asked["space"]  # it only told where a session lives: a lease's id is enough
    return asked


def whoami(who: Principal) -> Whoami:
    """What a caller is told of itself."""
    session = None if who.session is None else checks.session_id(who.session)
    principal, key = (None, None) if who.authority is None else who.authority[:2]
    return Whoami(who.name, who.role, who.space if who.role != "admin" else None, who.prefixes, principal, key, session)


def as_seen_by(who: Principal, outcome: Any) -> Any:  # noqa: ANN401 (each verb knows what it gives)
    """The outcome without the principals and keys of others, unless an admin asks."""
    if who.role == "admin":
        return outcome
    if isinstance(outcome, Inspection):
        waiting = tuple(map(_nameless, outcome.waiting))
        return outcome._replace(leases=tuple(map(_nameless, outcome.leases)), waiting=waiting)
    if type(outcome) is tuple and outcome and isinstance(outcome[0], Lease | Session):
        return tuple(map(_nameless, outcome))
    return outcome


def _nameless(it: Any) -> Any:  # noqa: ANN401 (a lease, a waiting request or a session)
    return it._replace(principal=None, key=None)


def space_of(who: Principal, verb: str, space: str | None) -> str | None:
    """The space that this principal means, if it may."""
    if who.role == "admin":
        return space if space is not None or verb in EVERYWHERE else who.space
    if space is not None and space != who.space:
        raise Problem("not_allowed", f"this key is for the space {who.space}, not for {space[:100]}")
    return who.space


def check_names(who: Principal, resources: object) -> None:
    """Names are compared as the rules see them, or `path:docs/../secret` would begin with `path:docs`."""
    for name in checks.resource_names(resources):
        if who.prefixes and not name.startswith(who.prefixes):
            raise Problem("not_allowed", f"this key is only for names that begin with {' or '.join(who.prefixes)}")


def _as_session(who: Principal, verb: str, asked: dict[str, Any]) -> None:
    """A session acts in its own name, on its own leases: its secret is the proof, and no token stands in for it."""
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


def _of_session(who: Principal, asked: dict[str, Any]) -> None:
    if asked["session"] is None:
        raise Problem("invalid", "session: is missing: which one? ID.SECRET, or for admins its id", field="session")
    asked["admin"] = who.name if who.role == "admin" and not checks.is_credential(asked["session"]) else None


def _start(who: Principal, asked: dict[str, Any]) -> None:
    secret = asked.pop("secret", None)
    if secret is not None and asked["session"] is not None:
        raise Problem("invalid", "secret: is part of session, ID.SECRET: give one of them", field="secret")
    if secret is not None:
        asked["session"] = checks.BY_SECRET + secret
    if asked["session"] is not None and who.role != "admin":
        raise Problem("not_allowed", "only an admin chooses the id and the secret of a session", field="session")
    if asked["session"] is None and who.id != "open":
        asked["session"] = f"{session_id(who.principal, os.urandom(8).hex())}.{os.urandom(16).hex()}"
