"""Check a request for a pool, and name the members that it may get. Pure; most requests do without."""

from __future__ import annotations

from leasehold.domain import names, pools
from leasehold.domain.entries import EXCLUSIVE
from leasehold.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.requests.calls import Settings


DECLARED_MOST = 1_000
"""Members that a store keeps for a pool: they are read with each request for it."""
MEMBER_BYTES = 200


def declare(value: object) -> dict[str, tuple[str, ...]]:
    """Return the checked `[pools]` of a configuration: each member with its labels after it, separated by blanks."""
    if not isinstance(value, dict):
        raise InvalidInput("pools", 'must be a table, such as [pools] with staging = ["a", "b", "c"]')
    for pool, members in value.items():
        if not isinstance(members, list) or not members or not all(isinstance(each, str) for each in members):
            raise InvalidInput("pools", f'{pool}: must be a list of members, such as ["a", "b"]')
        for each in members:
            _check_member(pool, each.partition(" ")[0], "pools")
    return {pool.casefold(): tuple(members) for pool, members in value.items()}


def _check_member(pool: str, member: str, field: str) -> None:
    if "," in member:
        raise InvalidInput(field, f"{pool}: write {member} as several members")
    try:
        names.parse(f"pool://{pool}/{member}")
    except names.BadName as error:
        raise InvalidInput(field, f"{pool}: {error.message}") from None


def member_names(name: str, mode: str, settings: Settings) -> str:
    """Return the name of a pool that lists its members. Raises `InvalidInput` for other modes than exclusive."""
    if mode != EXCLUSIVE:
        raise InvalidInput("mode", "a pool gives each member to one holder: leave mode and slots out")
    if not pools.is_declared(name):
        return name
    try:
        pool = pools.declared(name)[0]
        # Without a declaration in the configuration, the rules look for one in the store.
        return pools.listed(name, settings.pools[pool]) if pool in settings.pools else name
    except names.BadName as error:
        raise InvalidInput("resources", error.message) from None


def pool_name(raw: object) -> str:
    """Return the checked name of a whole pool, such as `pool://gpu`."""
    from leasehold.requests import checks  # noqa: PLC0415 (it imports this module)

    name = checks.resource(raw)
    if not name.startswith(pools.PREFIX) or not pools.is_declared(name) or "?" in name:
        raise InvalidInput("resource", f"must be the name of a pool, such as pool://gpu, not {name[:80]!r}")
    return name


def members(value: object, pool: str) -> tuple[str, ...] | None:
    """Return the checked members of a pool, each with its labels after it; None if there are none to declare."""
    from leasehold.requests import checks  # noqa: PLC0415 (it imports this module)

    if value is None:
        return None
    if not isinstance(value, list | tuple) or len(value) > DECLARED_MOST:
        raise InvalidInput("members", f"must be a list of at most {DECLARED_MOST} members, such as 'g0 a100'")
    found = tuple([checks.text(each, "members", MEMBER_BYTES) for each in value])
    for each in found:
        _check_member(pool[len(pools.PREFIX) :], each.partition(" ")[0], "members")
    return found
