"""The oracle's own idea of pools: plain lists of members, given out one by one. It shares no code with the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def is_pool(name: str) -> bool:
    return name.startswith("pool://")


def is_undeclared(name: str) -> bool:
    return is_pool(name) and "/" not in name.removeprefix("pool://")


def members(name: str) -> list[str]:
    """`pool://p/1-2,x` is `pool://p/1`, `pool://p/2`, `pool://p/x`."""
    pool, _, listed = name.removeprefix("pool://").partition("/")
    found: list[str] = []
    for item in listed.split(","):
        first, is_range, last = item.partition("-")
        found += [str(number) for number in range(int(first), int(last) + 1)] if is_range else [item]
    return [f"pool://{pool}/{each}" for each in found]


def named(name: str, declared: dict[str, list[str]]) -> str | None:
    """The name with the members that are declared, those with its label only; None if there are none."""
    pool, _, label = name.partition("?label=")
    words = [each.split() for each in declared.get(pool, [])]
    found = [each[0] for each in words if not label or label in each[1:]]
    return f"{pool}/{','.join(found)}" if found else None


def overlap(one: str, other: str) -> bool:
    return any(member in members(other) for member in members(one))


def left_for(name: str, taken: Iterable[str], ahead: Iterable[str]) -> str | None:
    """The first member that nobody has once everybody who comes before, each in turn, was given one."""
    gone = set(taken)
    for wanted in ahead:
        gone.update([member for member in members(wanted) if member not in gone][:1])
    return next((member for member in members(name) if member not in gone), None)


def has_way_out(name: str, taken: list[str], ahead: list[str]) -> bool:
    """Whether one could get a member some day, if these keep what they have and get what they come first for.

    Each of them takes one, so it is enough if they are fewer than the members. And it is enough if there is a member
    that none of them has or wants.
    """
    wanted = members(name)
    rivals = [one for one in (*taken, *ahead) if is_pool(one) and overlap(one, name)]
    return len(rivals) < len(wanted) or any(not any(overlap(one, each) for one in rivals) for each in wanted)
