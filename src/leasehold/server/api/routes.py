"""Every route as one row: path, verb, what it takes, what it answers. The app and OpenAPI are made from this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold.requests import verbs
from leasehold.server.api import requests, workflows

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.server.access.principals import Principal
    from leasehold.steps import Steps


class Route(NamedTuple):
    """One route."""

    method: str
    path: str
    verb: str
    takes: type[requests.Body | requests.Query]
    gives: str
    """The name of a shape of ``wire.table``."""
    problems: tuple[str, ...] = ()
    """The refusals that it can answer besides those that every route has."""
    steps: Callable[[Principal, dict[str, Any]], Steps[Any]] | None = None
    """The conversation that it stands for, where that is more than one verb."""


def of_verb(
    name: str,
    problems: tuple[str, ...] = (),
    steps: Callable[[Principal, dict[str, Any]], Steps[Any]] | None = None,
) -> Route:
    """Return the route of a verb."""
    verb = verbs.verb(name)
    return Route(verb.method, verb.path, name, requests.TAKES[name], verb.answer, problems, steps)


TAKING = (
    *("held", "timeout", "deadlock", "slots_mismatch", "cancelled", "session_over", "spent", "paused", "conflict"),
    *("too_many", "not_found"),
)
TOUCHING = ("not_found", "lost")
_PROBLEMS = {
    **dict.fromkeys(("acquire", "steal"), TAKING),
    "plan": ("session_over", "too_many"),
    **dict.fromkeys(("renew", "update", "extend"), TOUCHING),
    **dict.fromkeys(("release", "rotate_key"), ("not_found",)),
    **dict.fromkeys(("start_session", "create_key"), ("conflict",)),
    "renew_session": ("lost",),
}
_STREAMS = ("events", "losses")
ROUTES = (
    *(
        of_verb(name, _PROBLEMS.get(name, ()))
        for name in verbs.NAMES
        if name not in _STREAMS and name not in workflows.STEPS
    ),
    *(of_verb(name, problems, steps) for name, (problems, steps) in workflows.STEPS.items()),
)
