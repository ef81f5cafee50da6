"""What the gateway's routes take and answer, as types for OpenAPI. It decodes nothing: more fields are fine."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

Seconds: TypeAlias = int | float
Ref: TypeAlias = dict[str, Any]


class Spelled(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Names as the gateway has them."""


class GatewayLock(Spelled):
    """A run's secret, and the URI that it is about."""

    secret: str
    resource_key: str
    ttl: Seconds | None = None
    space: str | None = None


class GatewayAcquired(Spelled):
    """It is yours."""

    ok: Literal[True]
    resource_key: str


class GatewayReleased(Spelled):
    """It is free."""

    ok: Literal[True]


class GatewayBeaten(Spelled):
    """It is yours until then, in milliseconds since 1970."""

    ok: Literal[True]
    expires_at: int


class GatewayRefusal(Spelled):
    """Somebody else has it, or waiting for it would be a deadlock, or there is no such lock."""

    ok: Literal[False]
    holder: str | None = None
    held_since: int | None = None
    reason: str | None = None
    deadlock: bool | None = None
    cycle: list[str] | None = None


class GatewayError(Spelled):
    """The request cannot be served as it stands."""

    error: str


class GatewayOwnLock(Spelled):
    """A lock of this run."""

    resource_key: str
    holder: str
    held_since: int
    expires_at: int


class GatewayAnyLock(Spelled):
    """A lock of anybody."""

    resource_key: str
    agent_name: str
    holder: str
    held_since: int


class GatewayLocks(Spelled):
    """Every lock."""

    locks: list[GatewayAnyLock]


TYPES: tuple[type, ...] = (
    GatewayLock,
    GatewayAcquired,
    GatewayReleased,
    GatewayBeaten,
    GatewayRefusal,
    GatewayError,
    GatewayOwnLock,
    GatewayLocks,
)
ERRORS = {
    "400": "the body, the secret, the resourceKey or the ttl cannot be understood",
    "403": "no live run has this secret, or its key is not for this name",
    "408": "the body did not arrive",
    "413": "the body is too large",
    "415": "the body does not say that it is JSON",
    "421": "without keys, the `Host` is another",
    "429": "too many requests, or too many locks",
    "500": "a bug; the server's log tells what",
    "503": "the store does not answer, or the server goes away",
}


def paths(ref: str) -> dict[str, Any]:
    """The operations, by path."""
    return {
        "/locks/acquire": _post("gatewayAcquire", "Take the lock on a URI.", GatewayAcquired, ref, "409"),
        "/locks/release": _post("gatewayRelease", "Give it back.", GatewayReleased, ref, "404", "409"),
        "/locks/heartbeat": _post("gatewayHeartbeat", "Another full TTL.", GatewayBeaten, ref, "404", "409"),
        "/locks/list": _get(
            "gatewayList",
            "The locks of one run.",
            {"type": "array", "items": _of(GatewayOwnLock, ref)},
            ref,
            ("secret", "space"),
        ),
        "/locks/status": _get("gatewayStatus", "Every lock.", _of(GatewayLocks, ref), ref, ("space",)),
    }


def _of(kind: type, ref: str) -> Ref:
    return {"$ref": ref.format(name=kind.__name__)}


def _answer(says: str, schema: Ref) -> Ref:
    return {"description": says, "content": {"application/json": {"schema": schema}}}


def _noes(ref: str) -> dict[str, Ref]:
    return {status: _answer(says, _of(GatewayError, ref)) for status, says in ERRORS.items()}


def _post(name: str, says: str, gives: type, ref: str, *refusals: str) -> Ref:
    yes = {"200": _answer((gives.__doc__ or "").strip(), _of(gives, ref))}
    no = {status: _answer((GatewayRefusal.__doc__ or "").strip(), _of(GatewayRefusal, ref)) for status in refusals}
    noes = _noes(ref)
    either = {"anyOf": [_of(GatewayError, ref), _of(GatewayRefusal, ref)]}
    noes |= {status: _answer(ERRORS[status], either) for status in ("403", "429")}
    body = {"required": True, "content": {"application/json": {"schema": _of(GatewayLock, ref)}}}
    responses = dict(sorted({**yes, **no, **noes}.items()))
    return {"post": {"operationId": name, "summary": says, "security": [], "requestBody": body, "responses": responses}}


def _get(name: str, says: str, schema: Ref, ref: str, given: tuple[str, ...]) -> Ref:
    parameters = [{"name": each, "in": "query", "required": False, "schema": {"type": "string"}} for each in given]
    responses = {"200": _answer(says, schema), **_noes(ref)}
    return {"get": {"operationId": name, "summary": says, "parameters": parameters, "responses": responses}}
