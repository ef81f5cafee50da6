"""OpenAPI 3.1, generated from the very types that decode the requests."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

import leasehold
from leasehold.config.settings import POLICIES
from leasehold.guard.editors.payloads import EDITORS
from leasehold.server.api import answers, events, gateway_schema, losses
from leasehold.server.api.problems import STATUS, TROUBLE
from leasehold.server.api.requests import Query
from leasehold.server.api.routes import ROUTES, Route

TROUBLES = tuple(code for code, status in STATUS.items() if status == TROUBLE)
ANY_ROUTE = (
    "invalid",
    "unauthenticated",
    "not_allowed",
    "slow",
    "too_large",
    "media_type",
    "misdirected",
    "rate_limited",
    "internal",
    *TROUBLES,
)
REF = "#/components/schemas/{name}"
LOOKS = {
    "/healthz": ("healthy", "The server is there.", "application/json", answers.Health),
    "/readyz": ("ready", "The server can serve: the store answers.", "application/json", answers.Health),
    "/metrics": ("metrics", "Prometheus text.", "text/plain", None),
    "/openapi.json": ("describe", "This document.", "application/json", None),
}


@cache
def document() -> dict[str, Any]:
    """The whole document."""
    routes = (*ROUTES, events.ROUTE, losses.ROUTE)
    types: list[type] = [answers.Problem, answers.Ticket, answers.Health, *gateway_schema.TYPES]
    for route in routes:
        types += [route.takes, route.gives]
    _, components = msgspec.json.schema_components(dict.fromkeys(types), ref_template=REF)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, components)
    paths.update(gateway_schema.paths(REF))
    for editor in EDITORS:
        paths[f"/v1/hooks/{editor}"] = {"post": _hook(editor)}
    for path, (name, says, media, gives) in LOOKS.items():
        paths[path] = {"get": _look(name, says, media, gives)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Leasehold", "version": leasehold.__version__, "description": "A lock service for agents."},
        "paths": paths,
        "components": {
            "schemas": {name: components[name] for name in sorted(components)},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "lh_… or ID.SECRET"}},
        },
        "security": [{"key": []}, {}],
    }


def _ref(kind: type) -> dict[str, Any]:
    return {"$ref": REF.format(name=kind.__name__)}


def _content(kind: type, media: str = "application/json") -> dict[str, Any]:
    return {media: {"schema": _ref(kind)}}


def _operation(route: Route, components: dict[str, Any]) -> dict[str, Any]:
    media = "text/event-stream" if route.verb in ("events", "losses") else "application/json"
    done = {"description": (route.gives.__doc__ or "").strip(), "content": _content(route.gives, media)}
    told: dict[str, Any] = {
        "operationId": route.verb,
        "summary": route.says,
        "responses": {"200": done, **_problems((*route.problems, *ANY_ROUTE))},
    }
    if route.verb == "acquire":
        told["responses"]["202"] = {
            "description": (answers.Ticket.__doc__ or "").strip(),
            "content": _content(answers.Ticket),
        }
    if issubclass(route.takes, Query):
        told["parameters"] = _parameters(components[route.takes.__name__])
    else:
        needed = bool(components[route.takes.__name__].get("required"))  # no body is an empty object
        told["requestBody"] = {"required": needed, "content": _content(route.takes)}
    return told


def _parameters(schema: dict[str, Any]) -> list[dict[str, Any]]:
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _plain(each)}
        for name, each in schema["properties"].items()
    ]


def _hook(editor: str) -> dict[str, Any]:
    """What an editor sends and understands is the editor's to say."""
    thing = {"application/json": {"schema": {"type": "object"}}}
    return {
        "operationId": f"hook_{editor}",
        "summary": f"Answer a hook of {editor.capitalize()}: may this agent change that now?",
        "parameters": [
            {"name": "policy", "in": "query", "required": False, "schema": {"enum": list(POLICIES)}},
            {"name": "root", "in": "query", "required": False, "schema": {"type": "string"}},
        ],
        "requestBody": {"required": True, "content": thing},
        "responses": {
            "200": {"description": "What the editor is told; {} is a yes.", "content": thing},
            **_problems(("invalid", "not_allowed", *ANY_ROUTE)),
        },
    }


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """In a query there is no null: a parameter is left out."""
    if "anyOf" in schema:
        return next(each for each in schema["anyOf"] if each != {"type": "null"})
    return schema


def _problems(codes: tuple[str, ...]) -> dict[str, Any]:
    by_status: dict[str, list[str]] = {}
    for code in codes:
        by_status.setdefault(str(STATUS[code]), []).append(code)
    return {
        status: {
            "description": f"code: {', '.join(found)}",
            "content": _content(answers.Problem, "application/problem+json"),
        }
        for status, found in sorted(by_status.items())
    }


def _look(name: str, says: str, media: str, gives: type | None) -> dict[str, Any]:
    schema: dict[str, Any] = _ref(gives) if gives is not None else {}
    return {
        "operationId": name,
        "summary": says,
        "security": [],
        "responses": {
            "200": {"description": says, "content": {media: {"schema": schema} if schema else {}}},
            **_problems(("not_allowed", "misdirected", *TROUBLES)),
        },
    }
