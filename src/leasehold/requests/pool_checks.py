"""Check a request for a pool, and name the members that it may get. Pure; most requests do without."""

from __future__ import annotations

from leasehold.domain import names, pools
from leasehold.domain.entries import EXCLUSIVE
from leasehold.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.requests.calls import Settings


def declare(value: object) -> dict[str, tuple[str, ...]]:
    """Return the checked `[pools]` of a configuration: each member with its labels after it, separated by blanks."""
    if not isinstance(value, dict):
        raise InvalidInput("pools", 'must be a table, such as [pools] with staging = ["a", "b", "c"]')
    for pool, members in value.items():
        if not isinstance(members, list) or not members or not all(isinstance(each, str) for each in members):
            raise InvalidInput("pools", f'{pool}: must be a list of members, such as ["a", "b"]')
        for each in members:
            _check_member(pool, each.partition(" ")[0])
    return {pool.casefold(): tuple(members) for pool, members in value.items()}


def _check_member(pool: str, member: str) -> None:
    if "," in member:
        raise InvalidInput("pools", f"{pool}: write {member} as several members")
    try:
        names.parse(f"pool://{pool}/{member}")
    except names.BadName as error:
        raise InvalidInput("pools", f"{pool}: {error.message}") from None


def member_names(name: str, mode: str, settings: Settings) -> str:
    """Return the name of a pool that lists its members. Raises `InvalidInput` for other modes than exclusive."""
    if mode != EXCLUSIVE:
        raise InvalidInput("mode", "a pool gives each member to one holder: leave mode and slots out")
    if not pools.is_declared(name):
        return name
    try:
        pool, label = pools.declared(name)
    except names.BadName as error:
        raise InvalidInput("resources", error.message) from None
    if pool not in settings.pools:
        from leasehold.requests.checks import BeyondSettings  # noqa: PLC0415 (it imports this module)

        hint = f"name its members, as in pool://{pool}/a,b,c, or declare them under [pools] in leasehold.toml"
        raise BeyondSettings("resources", f"no pool {pool} is declared where these locks live: {hint}")
    found = [words[0] for words in map(str.split, settings.pools[pool]) if label is None or label in words[1:]]
    if not found:
        raise InvalidInput("resources", f"no member of pool {pool} has the label {label}")
    return f"pool://{pool}/{','.join(found)}"
