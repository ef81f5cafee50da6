"""Every route as one row: path, verb, what it takes, what it answers. The app and OpenAPI are made from this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from leasehold.server.api import answers as a
from leasehold.server.api import requests as r
from leasehold.server.api import workflows
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.server.access.principals import Principal
    from leasehold.steps import Steps


class Route(msgspec.Struct, frozen=True):
    """One way in."""

    method: str
    path: str
    verb: str
    takes: type[r.Body | r.Query]
    gives: type[a.Answer]
    problems: tuple[str, ...] = ()
    """Which refusals it can answer besides those that every route has."""
    shape: Callable[[Any], dict[str, Any]] = wire.answer
    rename: dict[str, str] = {}
    """Where the verb calls an argument by another name."""
    steps: Callable[[Principal, dict[str, Any]], Steps[Any]] | None = None
    """The conversation that it stands for, where that is more than one verb."""

    @property
    def says(self) -> str:
        """What it is for."""
        return (self.takes.__doc__ or "").strip()


def _listed(shape: str) -> Callable[[Any], dict[str, Any]]:
    return lambda they: wire.encoded(shape, they)


TAKING = (
    "held",
    "timeout",
    "deadlock",
    "slots_mismatch",
    "cancelled",
    "session_over",
    "spent",
    "paused",
    "conflict",
    "too_many",
    "not_found",
)
TOUCHING = ("not_found", "lost")
ROUTES = (
    Route("POST", "/v1/acquire", "acquire", r.Acquire, a.Granted, TAKING),
    Route("POST", "/v1/renew", "renew", r.Renew, a.Renewed, TOUCHING),
    Route("POST", "/v1/release", "release", r.Release, a.Released, ("not_found",)),
    Route("POST", "/v1/batch", "batch", r.Calls, a.Answers),
    Route("POST", "/v1/update", "update", r.Update, a.Renewed, TOUCHING),
    Route("POST", "/v1/cancel", "cancel", r.Cancel, a.Cancelled),
    Route("POST", "/v1/sessions", "start_session", r.StartSession, a.SessionStarted, ("conflict",)),
    Route("POST", "/v1/sessions/renew", "renew_session", r.OfSession, a.SessionRenewed, ("lost",)),
    Route("POST", "/v1/sessions/end", "end_session", r.EndSession, a.SessionEnded),
    Route(
        "GET",
        "/v1/sessions",
        "sessions",
        r.InSpace,
        a.Sessions,
        (),
        _listed("Sessions"),
    ),
    Route("POST", "/v1/force-release", "force_release", r.ForceRelease, a.Released),
    Route("POST", "/v1/steal", "steal", r.Steal, a.Granted, TAKING),
    Route("POST", "/v1/clear", "clear", r.Clear, a.Cleared),
    Route("POST", "/v1/gc", "gc", r.Collect, a.Collected, ()),
    Route("GET", "/v1/inspect", "inspect", r.Inspect, a.Inspection),
    Route("GET", "/v1/leases", "list", r.Listing, a.Leases, (), wire.leases),
    Route("GET", "/v1/graph", "graph", r.WhoWaits, a.Graph),
    Route("GET", "/v1/history", "history", r.History, a.Events, (), wire.events, {"kind": "kinds"}),
    Route("GET", "/v1/keys", "keys", r.Nothing, a.Keys, (), _listed("Keys")),
    Route("POST", "/v1/keys", "create_key", r.CreateKey, a.KeyCreated, ("conflict",)),
    Route(
        "POST", "/v1/keys/rotate", "rotate_key", r.RotateKey, a.KeyRotated, ("not_found",), wire.answer, {"id": "key"}
    ),
    Route("GET", "/v1/whoami", "whoami", r.Nothing, a.Whoami, (), wire.answer),
    Route("POST", "/v1/keys/revoke", "revoke_key", r.RevokeKey, a.KeyRevoked, (), wire.answer, {"id": "key"}),
    *(
        Route(row.method, row.path, row.verb, row.takes, row.gives, row.problems, steps=row.steps)
        for row in workflows.TABLE
    ),
)
