"""From a call of a verb to a request of the server. A call that no server would take is not sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from leasehold.domain import durations
from leasehold.domain.nouns import masked
from leasehold.domain.timestamps import SECOND
from leasehold.requests import checks
from leasehold.requests import to_command as orders
from leasehold.requests.lookups import EDGES_MOST, history_query

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.requests.calls import Call

_POSTS = {
    "acquire": "/v1/acquire",
    "renew": "/v1/renew",
    "release": "/v1/release",
    "update": "/v1/update",
    "cancel": "/v1/cancel",
    "start_session": "/v1/sessions",
    "renew_session": "/v1/sessions/renew",
    "end_session": "/v1/sessions/end",
    "force_release": "/v1/force-release",
    "steal": "/v1/steal",
    "clear": "/v1/clear",
    "gc": "/v1/gc",
    "create_key": "/v1/keys",
    "rotate_key": "/v1/keys/rotate",
    "revoke_key": "/v1/keys/revoke",
}
_GETS = {
    "inspect": "/v1/inspect",
    "list": "/v1/leases",
    "graph": "/v1/graph",
    "sessions": "/v1/sessions",
    "history": "/v1/history",
    "keys": "/v1/keys",
    "whoami": "/v1/whoami",
}
_DURATIONS = ("ttl", "wait", "grace", "overlap")
_ANYTHING = checks.Settings(ttl_most=durations.LONGEST)
_RENAMED = {"revoke_key": {"key": "id"}, "rotate_key": {"key": "id"}}
"""What a body calls otherwise than the verb does."""
_SERVER_KNOWS = ("admin",)
"""Who is an admin is decided by the key, not by the caller."""


_USUAL: dict[str, dict[str, object]] = {
    "acquire": {
        "wait": 0,
        "mode": None,
        "slots": 1,
        "any_of": False,
        "holder": None,
        "session": None,
        "space": None,
        "name": None,
        "context": None,
        "reason": None,
        "priority": 0,
        "reentrant": False,
        "grace": 0,
        "on_expiry": "free",
        "request_id": None,
        "intent": False,
        "token": None,
    },
    "renew": {"ttl": None, "token": None, "session": None, "admin": None},
    "release": {"token": None, "status": "completed", "error": None, "session": None, "admin": None},
}
"""What need not be sent, because the server takes it for granted: most of what there is to say."""
_PLAIN = {"resources": str, "ttl": int, "holder": str, "space": str, "lease": str, "token": str}
_CHECKS: dict[str, Callable[[Any], object]] = {
    "resources": checks.resource,
    "ttl": lambda value: checks.ttl(value, _ANYTHING),
    "holder": lambda value: checks.text(value, "holder", 256),
    "space": checks.space,
    "lease": checks.lease_id,
    "token": lambda value: checks.text(value, "token", 256),
}
_SPELLED = {**dict(zip(_PLAIN, _PLAIN, strict=True)), "ttl": "ttl_seconds"}


class Request(NamedTuple):
    """What is sent."""

    method: str
    path: str
    body: dict[str, Any] | None

    def __repr__(self) -> str:
        return masked(self)


def request(call: Call) -> Request:
    """The request behind a call; an acquire always has a request_id, so that it can be sent again safely.

    One that is drawn here was never sent before, and says so (see ``again``).
    """
    verb = call.verb
    body = _plain_body(call)
    if body is None:
        _check(call)
        if verb in _GETS:
            given = {_query_name(key): value for key, value in call.arguments.items() if value not in (None, ())}
            return Request("GET", f"{_GETS[verb]}?{urlencode(given, doseq=True)}", None)
        body = _body(call)
    if verb == "acquire" and body.get("request_id") is None:
        body["request_id"], body["first"] = orders.draw(), True
    return Request("POST", _POSTS[verb], body)


def again(request: Request) -> Request:
    """The request as it is sent from the second time on."""
    if request.body is None or "first" not in request.body:
        return request
    return request._replace(body={key: value for key, value in request.body.items() if key != "first"})


def _plain_body(call: Call) -> dict[str, Any] | None:
    """The body of a call of plain types, checked; None for others.

    Most calls are like that, and most of what they could say is as usual: so they are gone through once.
    """
    usual = _USUAL.get(call.verb)
    if usual is None:
        return None
    body: dict[str, Any] = {}
    for key, value in call.arguments.items():
        if key in usual and value is usual[key]:
            continue
        if type(value) is not _PLAIN.get(key) or (isinstance(value, str) and not value.isascii()):
            return None
        _CHECKS[key](value)
        body[_SPELLED[key]] = value
    return body


def _body(call: Call) -> dict[str, Any]:
    """The body of any other call; it has been checked."""
    usual, renamed = _USUAL.get(call.verb, {}), _RENAMED.get(call.verb, {})
    return dict(
        _translated(renamed.get(key, key), value)
        for key, value in call.arguments.items()
        if key not in _SERVER_KNOWS and (key not in usual or value is not usual[key])
    )


def _check(call: Call) -> None:
    """What every engine refuses is refused here already, in the same words; what is allowed there the server says."""
    if call.verb in _GETS:
        _check_look(call.verb, dict(call.arguments))
        return
    if call.verb == "gc":
        return
    orders.check(call.verb, call.arguments)


def _check_look(verb: str, given: dict[str, Any]) -> None:
    if verb == "history":
        history_query(given)
        return
    if given.get("space") is not None:
        checks.space(given["space"])
    if verb == "graph":
        checks.number(given["limit"], "limit", 1, EDGES_MOST)
    if given.get("resource") is not None or verb == "inspect":
        checks.resource(given["resource"])
    if given.get("holder") is not None:
        checks.text(given["holder"], "holder", 256)


def _query_name(key: str) -> str:
    return "kind" if key == "kinds" else key


def _translated(key: str, value: object) -> tuple[str, object]:
    if key == "error":
        return key, checks.error_text(value)
    if key not in _DURATIONS:
        return key, value
    if value is None:
        return f"{key}_seconds", None
    return f"{key}_seconds", value if type(value) is int else durations.parse(value) / SECOND
