"""OpenAPI of the gateway's routes, in the words of Action Llama. It decodes nothing: more fields are fine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.wire import schemas
from leasehold.wire.table import Field, Shape

if TYPE_CHECKING:
    from leasehold.wire.schemas import Schema

_WORDS: dict[str, tuple[str, object]] = {
    "secret": ("The secret of the run.", "5f0c9a1e-5f0c-9a1e"),
    "resourceKey": ("URI of what is locked.", "github://acme/app/issues/42"),
    "ttl": ("Seconds that the lock lives.", 1800),
    "space": ("The tenant that the URI lives in.", "default"),
    "ok": ("True if it worked.", True),
    "GatewayRefusal.ok": ("False: nothing was changed.", False),
    "expiresAt": ("When it expires, in milliseconds since 1970.", 1763199000000),
    "heldSince": ("Since when it is held, in milliseconds since 1970.", 1763197200000),
    "holder": ("The agent that holds it.", "coder-3"),
    "agentName": ("The agent that holds it.", "coder-3"),
    "reason": ("Why it did not work.", "not the lock holder"),
    "deadlock": ("True if waiting for it would never end.", True),
    "cycle": ("The cycle that waiting would close.", ["coder-3", "github://acme/app/issues/42"]),
    "error": ("The reason why the request failed.", "invalid secret"),
    "locks": ("Every lock.", None),
}
_SHAPES: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "GatewayLock": (
        "The secret of a run, and the URI of what it locks.",
        (("secret", "text"), ("resourceKey", "text"), ("ttl?", "seconds?"), ("space?", "text?")),
    ),
    "GatewayAcquired": ("The run has the lock.", (("ok", "true"), ("resourceKey", "text"))),
    "GatewayReleased": ("The lock is released.", (("ok", "true"),)),
    "GatewayBeaten": ("The run has the lock for another full TTL.", (("ok", "true"), ("expiresAt", "integer"))),
    "GatewayRefusal": (
        "Another run has the lock, or waiting for it would never end, or there is no such lock.",
        (
            *(("ok", "false"), ("holder?", "text?"), ("heldSince?", "integer?"), ("reason?", "text?")),
            *(("deadlock?", "flag?"), ("cycle?", "text[]?")),
        ),
    ),
    "GatewayError": ("The request cannot be served as it stands.", (("error", "text"),)),
    "GatewayOwnLock": (
        "A lock of this run.",
        (("resourceKey", "text"), ("holder", "text"), ("heldSince", "integer"), ("expiresAt", "integer")),
    ),
    "GatewayAnyLock": (
        "A lock.",
        (("resourceKey", "text"), ("agentName", "text"), ("holder", "text"), ("heldSince", "integer")),
    ),
    "GatewayLocks": ("Every lock.", (("locks", "GatewayAnyLock[]"),)),
}
"""By name: what it is, and its fields; one that ends in `?` may be left out."""
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


def components(ref: str) -> dict[str, Schema]:
    """Return the schemas, by name."""
    found = {}
    for name, (says, rows) in _SHAPES.items():
        fields = [Field(each.rstrip("?"), kind, each, "?" if each.endswith("?") else "") for each, kind in rows]
        found[name] = schemas.of_shape(Shape(name, says, tuple(fields), ""), ref, _WORDS)
    return found


def paths(ref: str) -> dict[str, Any]:
    """Return the operations, by path."""
    own = {"type": "array", "items": schemas.of_kind("GatewayOwnLock", ref)}
    return {
        "/locks/acquire": _post("gatewayAcquire", "Take the lock on a URI.", "GatewayAcquired", ref, "409"),
        "/locks/release": _post("gatewayRelease", "Release the lock.", "GatewayReleased", ref, "404", "409"),
        "/locks/heartbeat": _post("gatewayHeartbeat", "Reset the TTL of the lock.", "GatewayBeaten", ref, "404", "409"),
        "/locks/list": _get("gatewayList", "The locks of one run.", own, ref, "secret", "space"),
        "/locks/status": _get("gatewayStatus", "Every lock.", schemas.of_kind("GatewayLocks", ref), ref, "space"),
    }


def _answer(says: str, schema: Schema) -> Schema:
    return {"description": says, "content": {"application/json": {"schema": schema}}}


def _post(name: str, says: str, gives: str, ref: str, *refusals: str) -> Schema:
    error, refusal = schemas.of_kind("GatewayError", ref), schemas.of_kind("GatewayRefusal", ref)
    either = {"anyOf": [error, refusal]}
    told = {
        "200": _answer(_SHAPES[gives][0], schemas.of_kind(gives, ref)),
        **{status: _answer(_SHAPES["GatewayRefusal"][0], refusal) for status in refusals},
        **{status: _answer(why, either if status in ("403", "429") else error) for status, why in ERRORS.items()},
    }
    body = {"required": True, "content": {"application/json": {"schema": schemas.of_kind("GatewayLock", ref)}}}
    words = {"operationId": name, "summary": says, "tags": ["gateway"], "security": []}
    return {"post": {**words, "requestBody": body, "responses": dict(sorted(told.items()))}}


def _get(name: str, says: str, schema: Schema, ref: str, *given: str) -> Schema:
    parameters = [
        {
            "name": each,
            "in": "query",
            "required": False,
            "schema": {"type": "string"},
            "description": _WORDS[each][0],
            "example": _WORDS[each][1],
        }
        for each in given
    ]
    error = schemas.of_kind("GatewayError", ref)
    responses = {"200": _answer(says, schema), **{status: _answer(why, error) for status, why in ERRORS.items()}}
    words = {"operationId": name, "summary": says, "tags": ["gateway"]}
    return {"get": {**words, "parameters": parameters, "responses": responses}}
