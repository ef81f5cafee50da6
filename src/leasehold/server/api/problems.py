"""From a refusal or a breakage to a status and a problem+json body: the one table of HTTP."""

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
    "closed": "The server is going away",
}
RETRY_AFTER = {"rate_limited": 1, "too_many": 1}
TROUBLE = 503
SPELLED = {
    each.name: each.spelled
    for name in ("acquire", "rotate_key")
    for each in verbs.verb(name).arguments
    if each.kind.startswith("seconds")
}
"""Durations, which a request calls after their unit."""
encode = msgspec.json.Encoder().encode


class Problem(Exception):
    """A request ends here, with this answer."""

    def __init__(self, code: str, detail: str, **more: Any) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
        self.more = more


def of_refusal(outcome: object) -> Problem:
    """The problem that tells of a refusal."""
    told = wire.answer(outcome)
    code, detail = told.pop("code"), told.pop("message")
    if told.get("field") in SPELLED:
        return _of_field(code, told["field"], detail)
    return Problem(code, detail, **{name: value for name, value in told.items() if value is not None})


def of_error(error: LeaseholdError) -> Problem:
    """The problem that tells of a breakage."""
    if isinstance(error, InvalidInput):
        return _of_field("invalid", error.field, str(error))
    return Problem(error.code, str(error))


def as_refusal(problem: Problem) -> Refused:
    """The same for whoever is told outcomes, and not answers of HTTP."""
    return Refused(problem.code, str(problem.more.get("field") or ""), problem.detail)


def _of_field(code: str, field: str, detail: str) -> Problem:
    """The problem with a field, under the name that it has in a request."""
    spelled = SPELLED.get(field, field)
    if spelled != field:
        detail = detail.replace(durations.FORMS, "write a number of seconds")
    return Problem(code, f"{spelled}: {detail.removeprefix(f'{field}: ')}", field=spelled)


def body(problem: Problem) -> dict[str, Any]:
    """The problem as JSON values."""
    status = STATUS.get(problem.code, 400)
    return {
        "type": f"urn:leasehold:problem:{problem.code}",
        "title": TITLES.get(problem.code, problem.code.replace("_", " ").capitalize()),
        "status": status,
        "detail": problem.detail,
        "code": problem.code,
        **problem.more,
    }


def headers(problem: Problem) -> dict[str, str]:
    """What a client must know without reading the body."""
    told: dict[str, str] = {}
    status = STATUS.get(problem.code, 400)
    retry = problem.more.get("retry_after_seconds", RETRY_AFTER.get(problem.code, 1 if status == TROUBLE else None))
    if retry is not None:
        told["retry-after"] = str(math.ceil(retry))
    if problem.code == "unauthenticated":
        told["www-authenticate"] = "Bearer"
    if "allow" in problem.more:
        told["allow"] = problem.more.pop("allow")
    return told


def respond(problem: Problem) -> Response:
    """The whole answer."""
    told = headers(problem)
    content = encode(body(problem))
    return Response(content, STATUS.get(problem.code, 400), told, media_type="application/problem+json")


def as_bytes(response: Response) -> bytes:
    """A whole answer as it goes over the wire."""
    phrase = HTTPStatus(response.status_code).phrase.encode()
    head = b"".join(b"%b: %b\r\n" % pair for pair in response.raw_headers)
    return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (response.status_code, phrase, head, bytes(response.body))


def ok(content: Mapping[str, Any], status: int = 200) -> Response:
    """A yes."""
    return respond_json(content, status)


def respond_json(content: object, status: int, told: Mapping[str, str] | None = None) -> Response:
    """JSON, whatever it says."""
    return Response(encode(content), status, told, media_type="application/json")
