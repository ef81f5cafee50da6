"""Which member of a pool is free, and who is in the way if none is. Pure.

A request for a pool stands alone in its lease, so each hold and each waiter on the pool's node is in its home there.
"""

from __future__ import annotations

from itertools import islice

from leasehold.domain.entries import PoolMembers
from leasehold.domain.events import Event
from leasehold.domain.outcomes import PoolDeclared, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Final

    from leasehold.domain.commands import DeclarePool
    from leasehold.domain.entries import Alternative, Hold, LeaseRequest, Record, Waiter
    from leasehold.domain.rules import Draft

MEMBERS: Final = "members"
"""Id of the entry of which the node of a declared pool has one."""
PARTS_MOST: Final = 20_000
"""Comparisons of members with requests, at most, for one wait in a search for deadlocks: it stays below a second."""


def with_members(draft: Draft, ask: LeaseRequest) -> LeaseRequest | Refused:
    """Return the request with the members of a declared pool in place of its name."""
    from leasehold.domain import pools  # noqa: PLC0415 (rare)
    from leasehold.domain.names import BadName  # noqa: PLC0415

    option = ask.options[0]
    name = option.resources[0]
    if not pools.is_declared(name):
        return ask
    known = draft.record(option.claims[0].node).notes.get(MEMBERS)
    if not isinstance(known, PoolMembers):
        pool = pools.declared(name)[0]
        hint = f"name its members, as in pool://{pool}/a,b,c, or have them declared: leasehold pool {pool} a b c"
        return Refused("invalid", "resources", f"no pool {pool} is declared where these locks live: {hint}")
    try:
        listed = pools.listed(name, known.members)
    except BadName as error:
        return Refused("invalid", "resources", error.message)
    return ask._replace(options=(option._replace(resources=(listed,)),))


def declare(draft: Draft, command: DeclarePool) -> PoolDeclared:
    """Declare the members of a pool, or say which are declared. Leases on members that are left out go on."""
    known = draft.record(command.node).notes.get(MEMBERS)
    if command.members is None:
        return PoolDeclared(command.resource, known.members if isinstance(known, PoolMembers) else ())
    if command.members:
        draft.put(command.node, PoolMembers(MEMBERS, command.members))
    else:
        draft.discard(command.node, MEMBERS)
    detail: dict[str, object] = {"by": command.by, "note": f"members: {', '.join(command.members) or 'none'}"[:1024]}
    if command.authority is not None:
        detail |= {"principal": command.authority.principal, "key": command.authority.key}
    about = (command.space, (command.resource,), command.by, None, None, 0)
    draft.events.append(Event("noted", draft.now, *about, detail))
    return PoolDeclared(command.resource, command.members)


def rivals_if_full(rivals: list[Hold], names: tuple[str, ...]) -> list[Hold]:
    """Return the live holds on the members that are wanted if no member is free; otherwise nothing is in the way."""
    wanted = _members(names[0])
    found = [hold for hold in rivals if _member(hold) in wanted]
    return found if len(found) >= len(wanted) else []


def waiters_if_full(draft: Draft, record: Record, ahead: list[Waiter], names: tuple[str, ...]) -> list[Waiter]:
    """Return the waiters ahead that want the same members if none of those is left once each waiter has one."""
    taken = {_member(hold) for hold in record.holds.values() if hold.expires_at > draft.now}
    left = [member for member in _members(names[0]) if member not in taken]
    if left:
        _serve_in_order(taken, ahead)
    return ahead if taken.issuperset(left) else []


def _serve_in_order(taken: set[str], ahead: list[Waiter]) -> None:
    """Add the member that each waiter would get. Those that want the same go on where the one before them ended."""
    rest: dict[str, Iterator[str]] = {}
    for waiter in ahead:
        if waiter.ask is None:
            raise AssertionError(f"{waiter.id} waits for a pool and is not in its home there")
        name = waiter.ask.options[0].resources[0]
        members = rest[name] if name in rest else rest.setdefault(name, iter(_members(name)))
        taken.update(islice((member for member in members if member not in taken), 1))


def with_free_member(draft: Draft, option: Alternative) -> Alternative:
    """Return this way to satisfy a request with the first member that is free in place of the pool."""
    holds = draft.record(option.claims[0].node).holds.values()
    taken = {_member(hold) for hold in holds if hold.expires_at > draft.now}
    free = next(member for member in _members(option.resources[0]) if member not in taken)
    return option._replace(resources=(free,))


def size(name: str) -> int:
    """Return the number of members that this name stands for."""
    return len(_members(name))


def parts(name: str, others: Iterable[str]) -> list[str]:
    """Return names that divide its members by which of the others want them; none if those want all or none of them."""
    wanted = _members(name)
    sets = [_members(other) for other in dict.fromkeys(others) if other != name]
    if not sets or len(sets) * len(wanted) > PARTS_MOST:
        return []
    found: dict[tuple[bool, ...], list[str]] = {}
    for member in wanted:
        found.setdefault(tuple([member in each for each in sets]), []).append(member)
    pool = name[: name.index("/", len("pool://")) + 1]
    return (
        [pool + ",".join(member[len(pool) :] for member in part) for part in found.values()] if len(found) > 1 else []
    )


def has_one_of(held: Alternative, option: Alternative) -> bool:
    """Return True if this lease has one of the members that are wanted."""
    return held.resources[0] in _members(option.resources[0])


def _members(name: str) -> dict[str, None]:
    from leasehold.domain import pools  # noqa: PLC0415 (rare)

    return pools.members(name)


def _member(hold: Hold) -> str:
    if hold.ask is None:
        raise AssertionError(f"{hold.id} is on a pool and is not in its home there")
    return hold.ask.options[0].resources[0]
