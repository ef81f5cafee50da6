"""The client behind `leasehold workflow` at a server: its answers have the form of the embedded store's."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from leasehold.client import decoding
from leasehold.client.one_request import ask
from leasehold.compat import agiflow
from leasehold.domain import durations
from leasehold.domain.outcomes import Held
from leasehold.domain.timestamps import SECOND
from leasehold.errors import Unreachable
from leasehold.requests import checks

if TYPE_CHECKING:
    from leasehold.cli.context import Context

TRIES = 3
PAUSE = 0.2
ANSWER_WITHIN = 10.0
_BUSY = (429, 503)
_ANY_TTL = checks.Settings(ttl_most=durations.LONGEST)
"""The server checks its own limit."""


def ask_server(context: Context, route: tuple[str, str], asked: dict[str, Any]) -> Any:  # noqa: ANN401 (a run, or why not)
    """Send a request to one of the server's routes. Retrying is safe: the client chooses a run's id."""
    url, method = context.choice.url, route[0]
    key = os.environ.get("LEASEHOLD_API_KEY") or os.environ.get("AGIFLOW_API_KEY")
    given = {name: value for name, value in asked.items() if value is not None}
    if "ttl_seconds" in given:
        given["ttl_seconds"] = checks.ttl(given["ttl_seconds"], _ANY_TTL) / SECOND
    path = f"/v1/workflows{route[1]}"
    if method == "POST" and route[1] == "":
        given["holder"] = context.holder
    body = given if method == "POST" else None
    status, told = _patiently(url, method, path if body is not None else f"{path}?{urlencode(given)}", body, key)
    if status == 200:
        return _yes(told)
    problem = decoding.refusal(told)
    return agiflow.RunConflict(problem, told.get("workflow")) if isinstance(problem, Held) else problem


def _patiently(url: str, method: str, path: str, body: dict[str, Any] | None, key: str | None) -> tuple[int, Any]:
    for again in range(TRIES, 0, -1):
        try:
            status, told = ask(url, method, path, body, within=ANSWER_WITHIN, api_key=key)
        except Unreachable:
            if again == 1:
                raise
        else:
            if status not in _BUSY or again == 1:
                return status, told
        time.sleep(PAUSE)
    raise AssertionError("the last try returns or raises")


def _yes(told: dict[str, Any]) -> dict[str, Any]:
    """Return the run itself, as ``compat.agiflow`` returns it."""
    if "workflows" in told:
        return told
    released = {"released": told["released"]} if "released" in told else {}
    return {**(told["workflow"] or {}), **released}
