"""OpenAPI 3.1: the routes, with the bodies and queries of the verbs and the shapes of the answers."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import leasehold
from leasehold.config.settings import POLICIES
from leasehold.guard.editors.adapters import SERVED
from leasehold.requests import verbs
from leasehold.requests.descriptions import words
from leasehold.server.api import events, gateway_schema, losses
from leasehold.server.api.problems import STATUS, TROUBLE
from leasehold.server.api.requests import CALLS, type_name
from leasehold.server.api.routes import ROUTES, Route
from leasehold.wire import schemas, table

if TYPE_CHECKING:
    from leasehold.requests.verbs import Argument, Verb
    from leasehold.wire.schemas import Schema

TROUBLES = tuple(code for code, status in STATUS.items() if status == TROUBLE)
ANY_ROUTE = (
    *("invalid", "unauthenticated", "not_allowed", "slow", "too_large", "media_type", "misdirected", "rate_limited"),
    *("internal", *TROUBLES),
)
REF = "#/components/schemas/{}"
TAGS = {
    "leases": "Acquire, renew and release.",
    "sessions": "The life of one agent run.",
    "queries": "Leases, queues, and the history.",
    "admin": "For admins: end, take over and clear what others hold.",
    "keys": "Keys of this server, and their roles.",
    "workflows": "Runs: leases with a name, a context and an outcome.",
    "hooks": "For editors: may this agent change that now?",
    "gateway": "The routes of Action Llama's gateway.",
    "server": "The server itself.",
}
_TAGS = {
    **dict.fromkeys(("acquire", "renew", "release", "batch", "update", "cancel", "plan"), "leases"),
    **dict.fromkeys(("start_session", "renew_session", "end_session", "sessions"), "sessions"),
    **dict.fromkeys(("force_release", "steal", "clear", "extend", "note", "declare_pool", "gc"), "admin"),
    **dict.fromkeys(("keys", "create_key", "rotate_key", "revoke_key"), "keys"),
    **dict.fromkeys(("inspect", "list", "plans", "graph", "history", "events", "losses", "whoami"), "queries"),
}
"""By verb; all others are of workflows."""
LOOKS = {
    "/healthz": ("healthy", "Tell that the server runs.", "application/json", "Health"),
    "/readyz": ("ready", "Tell that the server can serve: its store answers.", "application/json", "Health"),
    "/metrics": ("metrics", "Return metrics in the text format of Prometheus.", "text/plain", ""),
    "/openapi.json": ("describe", "Return this document.", "application/json", ""),
}
"""Routes that anybody may ask: the operation, what it does, the media type, and the shape of the answer."""
_INTEGER: Schema = {"type": "integer"}
_KINDS: dict[str, Schema] = {
    "names": {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "maxItems": verbs.RESOURCES_MOST}]
    },
    "seconds": {"type": "number"},
    "calls": {"type": "array", "items": {"anyOf": [{"$ref": REF.format(call.__name__)} for call in CALLS]}},
}
"""Kinds of arguments that no field has."""


@cache
def document() -> dict[str, Any]:
    """Return the whole document."""
    routes = (*ROUTES, events.ROUTE, losses.ROUTE)
    shapes = schemas.referred((*(route.gives for route in routes), "Problem", "Ticket", "Health"))
    bodies = [verbs.verb(route.verb) for route in routes if route.method == "POST"]
    components = {
        **{name: schemas.of_shape(table.shape(name), REF, is_closed=True) for name in shapes},
        **{type_name(verb.name): _body(verb) for verb in bodies},
        **{call.__name__: _call(verb) for call, verb in CALLS.items()},
        **gateway_schema.components(REF),
    }
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    paths.update(gateway_schema.paths(REF))
    for editor in SERVED:
        paths[f"/v1/hooks/{editor}"] = {"post": _hook(editor)}
    for path, look in LOOKS.items():
        paths[path] = {"get": _look(*look)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Leasehold", "version": leasehold.__version__, "description": "A lock service for agents."},
        "servers": [{"url": "/", "description": "The server of this document."}],
        "tags": [{"name": name, "description": says} for name, says in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "lh_… or ID.SECRET"}},
        },
        "security": [{"key": []}, {}],
    }


# ---------------------------------------------------------------------------------------------- arguments


def _argument(verb: Verb, it: Argument) -> Schema:
    """Return the schema of an argument, with its bounds, its default and an example."""
    kind = it.kind.removesuffix("?")
    schema = dict(_KINDS[kind]) if kind in _KINDS else schemas.of_kind(kind, REF)
    bounds = {"minimum": it.least, "maximum": it.most}
    schema |= {name: bound for name, bound in bounds.items() if bound is not None}
    if it.kind.endswith("?"):
        schema = schemas.nullable(schema)
    if it.default not in (..., None):
        schema["default"] = list(it.default) if isinstance(it.default, tuple) else it.default
    return schemas.described(schema, *words(verb.name, it.name))


def _body(verb: Verb) -> Schema:
    return {
        "type": "object",
        "description": verb.says,
        "required": [each.spelled for each in verb.sent if each.is_needed],
        "properties": {each.spelled: _argument(verb, each) for each in verb.sent},
        "additionalProperties": False,
    }


def _call(name: str) -> Schema:
    """Return the schema of a call in a batch: a body that names its verb."""
    body = _body(verbs.verb(name))
    verb = schemas.described({"const": name}, "The verb.", name)
    return {**body, "required": ["verb", *body["required"]], "properties": {"verb": verb, **body["properties"]}}


def _parameter(verb: Verb, it: Argument) -> dict[str, Any]:
    description, example = words(verb.name, it.name)
    required = it._replace(kind=it.kind.removesuffix("?"))  # in a query there is no null: a parameter is left out
    schema = _argument(verb, required)
    del schema["description"]
    told = {"name": it.spelled, "in": "query", "required": it.is_needed, "description": description}
    return {**told, "schema": schema, "example": example}


# --------------------------------------------------------------------------------------------- operations


def _content(name: str, media: str = "application/json") -> dict[str, Any]:
    return {media: {"schema": {"$ref": REF.format(name)}}}


def _response(name: str, media: str = "application/json") -> dict[str, Any]:
    return {"description": table.shape(name).says, "content": _content(name, media)}


def _operation(route: Route) -> dict[str, Any]:
    verb = verbs.verb(route.verb)
    media = "text/event-stream" if route.verb in ("events", "losses") else "application/json"
    responses = {"200": _response(route.gives, media), **_problems((*route.problems, *ANY_ROUTE))}
    if route.verb == "acquire":
        responses["202"] = _response("Ticket")
    told: dict[str, Any] = {
        "operationId": route.verb,
        "summary": verb.says,
        "tags": [_TAGS.get(route.verb, "workflows")],
        "responses": responses,
    }
    if route.method == "GET":
        return {**told, "parameters": [_parameter(verb, each) for each in verb.sent]}
    needed = any(each.is_needed for each in verb.sent)  # no body is an empty object
    return {**told, "requestBody": {"required": needed, "content": _content(type_name(route.verb))}}


def _problems(codes: tuple[str, ...]) -> dict[str, Any]:
    by_status: dict[str, list[str]] = {}
    for code in codes:
        by_status.setdefault(str(STATUS[code]), []).append(code)
    return {
        status: {"description": f"code: {', '.join(found)}", "content": _content("Problem", "application/problem+json")}
        for status, found in sorted(by_status.items())
    }


def _hook(editor: str) -> dict[str, Any]:
    """Return the operation of an editor's hook, whose bodies the editor defines."""
    thing = {"application/json": {"schema": {"type": "object"}}}
    policy = {"name": "policy", "description": "How to treat changes of files that others hold.", "example": "warn"}
    root = {"name": "root", "description": "Top directory of the working copy.", "example": "/home/ada/app"}
    query = {"in": "query", "required": False}
    return {
        "operationId": f"hook_{editor}",
        "summary": f"Answer a hook of {editor.capitalize()}: may this agent change that now?",
        "tags": ["hooks"],
        "parameters": [
            {**policy, **query, "schema": {"enum": list(POLICIES)}},
            {**root, **query, "schema": {"type": "string"}},
        ],
        "requestBody": {"required": True, "content": thing},
        "responses": {
            "200": {"description": "The answer for the editor; {} allows the change.", "content": thing},
            **_problems(("invalid", "not_allowed", *ANY_ROUTE)),
        },
    }


def _look(name: str, says: str, media: str, gives: str) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": says,
        "tags": ["server"],
        "security": [],
        "responses": {
            "200": _response(gives, media) if gives else {"description": says, "content": {media: {}}},
            **_problems(("not_allowed", "misdirected", *TROUBLES)),
        },
    }
