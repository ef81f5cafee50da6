"""What the oracle knows: its own plain nouns, and who is in whose way. Only names that overlap, no nodes."""

from __future__ import annotations

from dataclasses import dataclass

from tests.domain import oracle_pools as pools
from tests.domain.oracle_patterns import covers, folder, is_pattern, overlaps


@dataclass(frozen=True)
class Who:
    """A holder, or a session of one."""

    holder: str
    session: str | None = None

    @property
    def actor(self) -> str:
        return f"session {self.session}" if self.session is not None else f"holder {self.holder}"


@dataclass(frozen=True)
class Want:
    """What is asked for: one of these options, whole."""

    options: tuple[tuple[str, ...], ...]
    mode: str = "exclusive"
    slots: int = 1
    ttl: int = 30_000_000
    grace: int = 0
    quarantine: bool = False


@dataclass(eq=False)
class Lease:
    number: int
    who: Who
    want: Want
    resources: tuple[str, ...]
    acquired_at: int
    expires_at: int
    tokens: set[str]
    context: str | None = None
    state: str = "live"
    """live, closed (nobody's, but nobody can have it yet) or gone"""
    closed_until: int = 0
    reason: str = ""
    """Why it is over."""
    ticket: Waiter | None = None
    """Whose it will be once that waiter's engine has come for it."""
    told: bool = False
    """Whether its holder has learned that it was lost."""


@dataclass(eq=False)
class Waiter:
    number: int
    who: Who
    want: Want
    priority: int
    deadline: int
    tokens: set[str]
    engine: str
    behind_all: bool = False
    """A wish: it stands behind everybody, and nobody behind it."""
    shown: frozenset[str] = frozenset()
    """Tokens that came with the request."""
    state: str = "waiting"
    """waiting, granted, timeout, cancelled or left"""
    lease: Lease | None = None

    @property
    def places(self) -> tuple[str, ...]:
        """Who has a choice stands in all queues at once."""
        return tuple(resource for option in self.want.options for resource in option)

    @property
    def order(self) -> tuple[int, int]:
        return (-self.priority, self.number)


@dataclass(eq=False)
class Session:
    who: Who
    ttl: int
    expires_at: int


@dataclass(eq=False)
class Request:
    want: Want
    became: Lease | Waiter | None
    """None once it was cancelled."""
    began_it: bool = True
    """Whether the lease began with it, rather than being extended by it."""
    manner: tuple[int, bool] = (0, False)
    """Its priority, and whether it was reentrant."""


@dataclass(frozen=True)
class Answer:
    """The name of the outcome, and what is to be compared of it."""

    kind: str
    detail: str | bool | None = None
    lease: Lease | None = None
    waiter: Waiter | None = None


@dataclass(frozen=True)
class Told:
    """An event: its kind, who it happened to, and the lease if there is one."""

    kind: str
    holder: str
    session: str | None
    lease: Lease | None = None


# ------------------------------------------------------------------------------------------ who is in whose way


def same_place(one: str, other: str) -> bool:
    """Whether slots of these two are counted together: all of `repo:` is one place."""
    return one == other or (one.startswith("repo:") and other.startswith("repo:"))


def is_part(resource: str, resources: tuple[str, ...]) -> bool:
    return any(same_place(resource, one) for one in resources)


def lies_in(resource: str, resources: tuple[str, ...]) -> bool:
    """Whether this is one of them, or below one of them."""
    return any(_is_below(resource, one) for one in resources)


def _is_below(resource: str, one: str) -> bool:
    if is_pattern(one):
        return covers(one, resource)
    return overlaps(resource, one) and (same_place(resource, one) or _upper(resource, one) == one)


def _upper(one: str, other: str) -> str:
    """The one of two overlapping resources that is above the other; of a pattern, the directory that it lies in."""
    if one.startswith("repo:") or other.startswith("repo:"):
        return one if one.startswith("repo:") else other
    return min(folder(one), folder(other), key=lambda name: 0 if name == "path:." else len(name))


def bars(resource: str, mine: tuple[str, ...], me: Want, others: tuple[str, ...], other: Want) -> bool:
    """Whether I cannot have this one of my resources together with what the other has, however few hold."""
    return any(overlaps(resource, b) and not _get_along(resource, mine, me, b, others, other) for b in others)


def _get_along(a: str, mine: tuple[str, ...], me: Want, b: str, others: tuple[str, ...], other: Want) -> bool:
    """Readers do. Takers of slots do where both take one of the same, or below a place where both do."""
    if me.mode == other.mode == "shared":
        return True
    if not me.mode == other.mode == "slots" or me.slots != other.slots:
        return False
    return same_place(a, b) or (is_part(_upper(a, b), mine) and is_part(_upper(a, b), others))


def clash(mine: tuple[str, ...], me: Want, others: tuple[str, ...], other: Want) -> bool:
    """Whether these two can never be held together, however few hold."""
    return any(bars(resource, mine, me, others, other) for resource in mine)


def counts_against(resource: str, me: Want, others: tuple[str, ...], other: Want) -> bool:
    """Whether the other takes (or wants) one of the slots that I want one of."""
    return me.mode == other.mode == "slots" and me.slots == other.slots and is_part(resource, others)


def touches(resources: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return any(overlaps(a, b) for a in resources for b in others)


# --------------------------------------------------------------------------------------------- what can be had


def is_free(option: tuple[str, ...], want: Want, holds: list[Lease], ahead: list[Waiter]) -> bool:
    """Whether this can be had, as far as those who hold and those who come before are concerned."""
    if pools.is_pool(option[0]):
        return free_member(option[0], holds, ahead) is not None
    if any(clash(option, want, lease.resources, lease.want) for lease in holds):
        return False
    if any(clash(option, want, one.places, one.want) for one in ahead):
        return False
    return all(has_slot(resource, want, holds, ahead) for resource in option)


def free_member(name: str, holds: list[Lease], ahead: list[Waiter]) -> str | None:
    taken = [resource for lease in holds for resource in lease.resources]
    wanted = [one.want.options[0][0] for one in ahead if pools.is_pool(one.want.options[0][0])]
    return pools.left_for(name, taken, wanted)


def has_slot(resource: str, want: Want, holds: list[Lease], ahead: list[Waiter]) -> bool:
    return want.mode != "slots" or taken(resource, want, holds, ahead) < want.slots


def taken(resource: str, want: Want, holds: list[Lease], ahead: list[Waiter]) -> int:
    """How many of the slots are taken, or spoken for by somebody who comes before."""
    held = sum(counts_against(resource, want, lease.resources, lease.want) for lease in holds)
    return held + sum(counts_against(resource, want, one.places, one.want) for one in ahead)
