"""Make the request of the server from a call of a verb. A call that no server would take is not sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from leasehold.domain import durations, keys
from leasehold.domain.nouns import masked
from leasehold.domain.timestamps import SECOND
from leasehold.requests import checks, verbs
from leasehold.requests import to_command as orders
from leasehold.requests.lookups import history_query

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.requests.calls import Call

_ANYTHING = checks.Settings(ttl_most=durations.LONGEST)
_PLAIN = {"resources": str, "ttl": int, "holder": str, "space": str, "host": str, "lease": str, "token": str}
_CHECKS: dict[str, Callable[[Any], object]] = {
    "resources": checks.resource,
    "ttl": lambda value: checks.ttl(value, _ANYTHING),
    "holder": lambda value: checks.text(value, "holder", 256),
    "space": checks.space,
    "host": lambda value: checks.text(value, "host", 255),
    "lease": checks.lease_id,
    "token": lambda value: checks.text(value, "token", 256),
}


class HttpRequest(NamedTuple):
    """One request."""

    method: str
    path: str
    body: dict[str, Any] | None
    secret: str | None = None
    """The secret from which the request_id of this acquire was drawn. It is sent only to cancel the request."""

    def __repr__(self) -> str:
        return masked(self)


class Form:
    """How a verb is sent."""

    __slots__ = ("defaults", "is_get", "path", "spelled")

    def __init__(self, name: str) -> None:
        verb = verbs.verb(name)
        self.path = verb.path
        self.is_get = verb.method == "GET"
        self.spelled = {each.name: each.spelled for each in verb.sent}
        """The name of each argument that is sent, in the request."""
        self.defaults = {each.name: each.default for each in verb.arguments}
        if name in ("renew_session", "end_session"):  # a body may leave it to the key; in Python it has no default
            self.defaults["session"] = ...


_forms: dict[str, Form] = {}


def form_of(verb: str) -> Form:
    """Return how this verb is sent."""
    found = _forms.get(verb)
    if found is None:
        found = _forms[verb] = Form(verb)
    return found


def request(call: Call) -> HttpRequest:
    """Return the request behind a call; an acquire always has a request_id, so that it can be sent again safely.

    One that is drawn here was never sent before, and says so (see ``again``).
    """
    form = form_of(call.verb)
    if form.is_get:
        _check_query(call.verb, dict(call.arguments))
        given = {form.spelled[key]: value for key, value in call.arguments.items() if value not in (None, ())}
        return HttpRequest("GET", f"{form.path}?{urlencode(given, doseq=True)}", None)
    body = _plain_body(call, form) if call.verb != "plan" else None
    if body is None:
        if call.verb != "gc":
            orders.check(call.verb, call.arguments)
        body = dict(
            _translated(key, form.spelled[key], value)
            for key, value in call.arguments.items()
            if key in form.spelled and value is not form.defaults[key]
        )
    if call.verb == "acquire" and body.get("request_id") is None:
        secret = orders.draw()
        body["request_id"], body["first"] = keys.secret_hash(secret), True
        return HttpRequest("POST", form.path, body, secret)
    return HttpRequest("POST", form.path, body)


def again(request: HttpRequest) -> HttpRequest:
    """Return the request as it is sent from the second time on."""
    if request.body is None or "first" not in request.body:
        return request
    return request._replace(body={key: value for key, value in request.body.items() if key != "first"})


def _plain_body(call: Call, form: Form) -> dict[str, Any] | None:
    """Return the body of a call of plain types, checked; None for others.

    Most calls are like that, and most of their arguments have their defaults: so one pass is enough.
    """
    body: dict[str, Any] = {}
    for key, value in call.arguments.items():
        if value is form.defaults[key]:
            continue
        if type(value) is not _PLAIN.get(key) or (isinstance(value, str) and not value.isascii()):
            return None
        if key == "lease" and keys.is_plan_id(value):
            return None
        _CHECKS[key](value)
        body[form.spelled[key]] = value
    return body


def _check_query(verb: str, given: dict[str, Any]) -> None:
    """Refuse here, in the same words, what every engine refuses."""
    if verb == "history":
        history_query(given)
        return
    if given.get("space") is not None:
        checks.space(given["space"])
    if verb == "graph":
        checks.number(given["limit"], "limit", 1, verbs.EDGES_MOST)
    if given.get("resource") is not None or verb == "inspect":
        checks.resource(given["resource"])
    if given.get("holder") is not None:
        checks.text(given["holder"], "holder", 256)


def _translated(key: str, spelled: str, value: object) -> tuple[str, object]:
    if key == "error":
        return key, checks.error_text(value)
    if spelled == key or type(value) is int or value is None:
        return spelled, value
    return spelled, durations.parse(value) / SECOND if spelled.endswith("_seconds") else value
