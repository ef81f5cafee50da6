"""Agiflow's runs over HTTP, `/v1/workflows`: from a request to a conversation of several verbs.

``compat.agiflow`` says what the routes mean. A run belongs to the principal or the session that began it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.compat import agiflow
from leasehold.errors import InvalidInput
from leasehold.requests import checks
from leasehold.server.access import permissions
from leasehold.server.api import problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.server.access.principals import Principal
    from leasehold.steps import Steps

    Asked = dict[str, Any]


# --------------------------------------------------------------------------------------------- who, and what


def _who(principal: Principal, asked: Asked) -> agiflow.AgiflowCaller:
    session = principal.session
    is_admin = principal.role == "admin"
    return agiflow.AgiflowCaller(
        (asked.get("holder") if is_admin else None) or principal.name,
        asked["space"],
        session,
        None if session is None else checks.session_id(session),
        is_admin,
        None if principal.authority is None else principal.authority.principal,
    )


def _locked(asked: Asked) -> str:
    given = {kind: asked[kind] for kind in ("project", "work_unit", "task") if asked.get(kind) is not None}
    return agiflow.resource(**{kind: checks.text(value, kind, 100) for kind, value in given.items()})


def _id(asked: Asked) -> str:
    return agiflow.run_id(asked["id"])


def _create(who: Principal, asked: Asked) -> Steps[Any]:
    id_ = agiflow.new_id() if asked["id"] is None else _id(asked)
    name, context = checks.text(asked["name"], "name", 256), asked["context"]
    locked = _locked(asked)
    permissions.check_names(who, locked)
    return agiflow.create(_who(who, asked), id_, locked, name=name, ttl=asked["ttl"], context=context)


def _get(who: Principal, asked: Asked) -> Steps[Any]:
    return agiflow.get(_who(who, asked), _id(asked))


def _check(who: Principal, asked: Asked) -> Steps[Any]:
    return agiflow.check(_who(who, asked), _locked(asked))


def _beat(who: Principal, asked: Asked) -> Steps[Any]:
    return agiflow.heartbeat(_who(who, asked), _id(asked), asked["ttl"])


def _release(who: Principal, asked: Asked) -> Steps[Any]:
    if asked["status"] not in ("completed", "failed"):
        raise InvalidInput("status", "must be one of completed, failed")
    return agiflow.release(_who(who, asked), _id(asked), outcome=asked["status"], error=asked["error"])


def _update(who: Principal, asked: Asked) -> Steps[Any]:
    return agiflow.update(_who(who, asked), _id(asked), asked["context"], merge=asked["merge"])


def _list(who: Principal, asked: Asked) -> Steps[Any]:
    locked = _locked(asked) if asked["work_unit"] is not None or asked["task"] is not None else None
    limit = checks.number(asked["limit"], "limit", 1, agiflow.PAGE)
    return agiflow.runs(_who(who, asked), wanted=agiflow.status(asked["status"]), locked=locked, limit=limit)


TAKING = ("held", "conflict", "too_many", "spent", "slots_mismatch", "not_found")
TOUCHING = ("not_found", "lost")
STEPS: dict[str, tuple[tuple[str, ...], Callable[[Principal, Asked], Steps[Any]]]] = {
    "create_run": (TAKING, _create),
    "list_runs": ((), _list),
    "get_run": (("not_found",), _get),
    "check_run": ((), _check),
    "update_run": (TOUCHING, _update),
    "beat_run": (TOUCHING, _beat),
    "release_run": (TOUCHING, _release),
}
"""By verb: the refusals of its route besides those that every route has, and the conversation that answers it."""


def shaped(told: Any, gives: str) -> dict[str, Any]:  # noqa: ANN401 (a run, or why not)
    """Return the body of the answer. Raises `Problem` for a refusal."""
    if isinstance(told, agiflow.RunConflict):
        problem = problems.of_refusal(told.held)
        if told.run is not None:
            problem.more["workflow"] = told.run
        raise problem
    if not isinstance(told, dict):
        raise problems.of_refusal(told)
    if gives == "Workflows":
        return told
    released = {"released": told.pop("released")} if gives == "ReleasedWorkflow" else {}
    return {"workflow": told or None, **released}
