"""Refusals and errors as answers of HTTP: the one table of statuses, and problem+json bodies."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from leasehold.domain import durations
from leasehold.domain.outcomes import Refused
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.requests import verbs
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from collections.abc import Mapping

STATUS = {
    "invalid": 400,
    "unauthenticated": 401,
    "not_allowed": 403,
    "not_found": 404,
    "method": 405,
    "slow": 408,
    "held": 409,
    "timeout": 409,
    "deadlock": 409,
    "slots_mismatch": 409,
    "cancelled": 409,
    "spent": 409,
    "conflict": 409,
    "paused": 409,
    "lost": 410,
    "session_over": 410,
    "too_large": 413,
    "media_type": 415,
    "misdirected": 421,
    "too_many": 429,
    "rate_limited": 429,
    "internal": 500,
    "unsupported": 501,
    "error": 503,
    "store": 503,
    "store_behind": 503,
    "store_unsuitable": 503,
    "unreachable": 503,
    "closed": 503,
    "outcome_unknown": 503,
}
TITLES = {
    "held": "Somebody else has it",
    "timeout": "The wait is over",
    "deadlock": "Waiting would never end",
    "lost": "The lease is gone",
    "invalid": "The request cannot be understood",
    "unauthenticated": "A valid key is needed",
    "not_allowed": "Not allowed",
    "not_found": "Not found",
    "rate_limited": "Too many requests",
    "closed": "The server is stopping",
}
RETRY_AFTER = {"rate_limited": 1, "too_many": 1}
TROUBLE = 503
SPELLED = {
    each.name: each.spelled
    for name in ("acquire", "rotate_key")
    for each in verbs.verb(name).arguments
    if each.kind.startswith("seconds")
}
"""Durations, whose names end with their unit in a request."""
encode = msgspec.json.Encoder().encode


class HttpAnswer(msgspec.Struct, gc=False):
    """A status, a body that can be encoded as JSON, and headers besides those that every answer has."""

    status: int
    body: object
    headers: dict[str, str] | None = None


class Problem(Exception):
    """Ends a request with this answer."""

    def __init__(self, code: str, detail: str, **more: Any) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
        self.more = more


def of_refusal(outcome: object) -> Problem:
    """Return the problem that reports a refusal."""
    told = wire.answer(outcome)
    code, detail = told.pop("code"), told.pop("message")
    if told.get("field") in SPELLED:
        return _of_field(code, told["field"], detail)
    return Problem(code, detail, **{name: value for name, value in told.items() if value is not None})


def of_error(error: LeaseholdError) -> Problem:
    """Return the problem that reports an error."""
    if isinstance(error, InvalidInput):
        return _of_field("invalid", error.field, str(error))
    return Problem(error.code, str(error))


def as_refusal(problem: Problem) -> Refused:
    """Return the problem as an outcome, for conversations, which know no HTTP."""
    return Refused(problem.code, str(problem.more.get("field") or ""), problem.detail)


def _of_field(code: str, field: str, detail: str) -> Problem:
    """Return the problem with a field, under the name that it has in a request."""
    spelled = SPELLED.get(field, field)
    if spelled != field:
        detail = detail.replace(durations.FORMS, "write a number of seconds")
    return Problem(code, f"{spelled}: {detail.removeprefix(f'{field}: ')}", field=spelled)


def answer(problem: Problem) -> HttpAnswer:
    """Return the answer to a request that ends with this problem."""
    code, more = problem.code, dict(problem.more)
    status = STATUS.get(code, 400)
    headers: dict[str, str] = {}
    retry = more.get("retry_after_seconds", RETRY_AFTER.get(code, 1 if status == TROUBLE else None))
    if retry is not None:
        headers["retry-after"] = str(math.ceil(retry))
    if code == "unauthenticated":
        headers["www-authenticate"] = "Bearer"
    if "allow" in more:
        headers["allow"] = more.pop("allow")
    title = TITLES.get(code, code.replace("_", " ").capitalize())
    kind = f"urn:leasehold:problem:{code}"
    body = {"type": kind, "title": title, "status": status, "detail": problem.detail, "code": code, **more}
    return HttpAnswer(status, body, headers)


def respond(answer: HttpAnswer) -> Response:
    """Return the answer for ASGI."""
    kind = "application/problem+json" if answer.status >= 400 else "application/json"
    return Response(encode(answer.body), answer.status, answer.headers, media_type=kind)


def as_bytes(response: Response) -> bytes:
    """Return a whole answer as it is sent over HTTP/1.1."""
    phrase = HTTPStatus(response.status_code).phrase.encode()
    head = b"".join(b"%b: %b\r\n" % pair for pair in response.raw_headers)
    return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (response.status_code, phrase, head, bytes(response.body))


def ok(content: Mapping[str, Any]) -> Response:
    """Return a successful answer for ASGI."""
    return respond_json(content, 200)


def respond_json(content: object, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Return JSON for ASGI, whatever the status."""
    return Response(encode(content), status, headers, media_type="application/json")
