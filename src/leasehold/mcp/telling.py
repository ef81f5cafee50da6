"""Say an answer in one sentence or two for the model; programs read the structured content. It decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.domain.names import shown
from leasehold.wire.sentences import KEPT_ALIVE

if TYPE_CHECKING:
    from leasehold.mcp.shapes import Json

NAMED_MOST = 20
"""The most leases or events that one sentence names."""


def said(answer: Json) -> str:
    """Return what the text of a tool's result says."""
    data = answer.get("data", {})
    fact = _refusal(answer["error"]) if "error" in answer else _fact(data)
    return " ".join(filter(None, (fact, answer["advice"])))


def _refusal(error: Json) -> str:
    fact = error["message"].partition("; ")[0]  # the rest says in words for people what to do next; the advice follows
    return f"{shown(fact.rstrip('.'))}."


def _fact(data: Json) -> str:
    if "ticket" in data:
        return _waits(data)
    if "lease" in data and isinstance(data["lease"], dict):
        lease = data["lease"]
        token = "" if lease["session"] or "token" not in data else f", token {data['token']}"
        return f"You hold {_names(lease)} (lease {lease['id']}, fence {lease['fence']}{token})."
    if "free" in data:
        return _inspected(data)
    if "leases" in data:
        more = data.get("more", 0) + max(0, len(data["leases"]) - NAMED_MOST)
        return _listed([_held(each) for each in data["leases"][:NAMED_MOST]], more)
    if "events" in data:
        lines = [_event(each) for each in data["events"]]
        return _listed(lines[:NAMED_MOST], len(lines) - NAMED_MOST)
    return ""


def _waits(data: Json) -> str:
    queue = data.get("queue", {})
    place = f" at place {queue['position']} of {queue['length']}" if queue.get("position") else ""
    held = "; ".join(_held(each) for each in data.get("holders", ()))
    return f"You wait with the ticket {data['ticket']}{place}{f': {held}' if held else ''}."


def _inspected(data: Json) -> str:
    name = shown(data["resource"])
    held = "; ".join(_held(each) for each in data["leases"]) or f"{name} is {'free' if data['free'] else 'closed'}"
    waiting = ", ".join(shown(each["holder"]) for each in data["waiting"])
    return f"{held}{f'; in the queue: {waiting}' if waiting else ''}."


def _listed(lines: list[str], more: int) -> str:
    told = "; ".join(lines)
    return f"{told}{f'; and {more} more' if more > 0 else ''}." if told else ""


def _held(lease: Json) -> str:
    work = f" ({shown(lease['name'])})" if lease.get("name") else ""
    return f"{_names(lease)} is held by {shown(lease['holder'])}{work}, {left(lease)}"


def left(lease: Json) -> str:
    """Say how long a lease still lives. A session renews its leases, so their end is no time of day."""
    if lease["session"] is not None:
        return KEPT_ALIVE
    return f"for another {lease['expires_in_seconds']:.0f} s unless it is renewed"


def _event(event: Json) -> str:
    holder = f" by {shown(event['holder'])}" if event.get("holder") else ""
    return f"{event['at']} {event['kind']} {_names(event)}{holder}"


def _names(told: Any) -> str:  # noqa: ANN401 (any JSON)
    return shown(" + ".join(told.get("resources") or ()))
