"""Messages about wrong arguments of a tool, which an agent can act on. It decides nothing."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from leasehold.domain.names import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

EVERYWHERE = "agent_id"
"""An argument that every tool takes: an agent with a name tends to give it in every call."""
ALIKE = 0.7
"""Least similarity of two names, from 0 to 1, for one to be suggested for the other."""
_AGAIN = "Nothing was changed: correct that, and call again."


def unknown(tool: str, given: Iterable[str], known: Iterable[str]) -> str:
    """Return the refusal of unknown arguments. Ignoring them would do something else than the agent asked for."""
    there = list(known)
    told = "; ".join(f"there is no argument {shown(each)[:100]}{_meant(each, there)}" for each in given)
    return f"{tool}: {told}; there are {', '.join(there)}. {_AGAIN}"


def _meant(given: str, there: list[str]) -> str:
    near = [each for each in there if given.startswith(each) or each.startswith(given)]
    found = near or get_close_matches(given, there, 1, ALIKE)
    return f" (did you mean {found[0]}?)" if found else ""


def wrong(tool: str, error: ValidationError) -> str:
    """Return the refusal of arguments that are missing or out of bounds, with what is allowed."""
    told: dict[str, list[str]] = {}
    for each in error.errors(include_url=False):
        said = told.setdefault(str(each["loc"][0]) if each["loc"] else "arguments", [])
        if _said(each) not in said:
            said.append(_said(each))
    lines = (f"{name}: {', or '.join(said)}" for name, said in told.items())
    return f"{tool}: {'; '.join(lines)}. {_AGAIN}"


def _said(each: ErrorDetails) -> str:
    if each["type"] == "missing":
        return "is missing"
    must = each["msg"].replace("Input should", "must").replace(" should ", " must ")
    return f"{must[:1].lower()}{must[1:]}, not {shown(repr(each['input']))[:60]}"
