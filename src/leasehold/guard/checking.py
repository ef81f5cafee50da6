"""Check whether a holder may change these paths, by the leases on them. It acquires nothing.

::

    verdicts = checking.verdicts(locks, ["path:src/a.py"], holder="coder-3", policy="require")
    checking.is_allowed(verdicts)          # False if one of them is not allowed
    verdicts[0].message                    # "path:src/a.py is held by coder-7 (refactoring)"

`resources_of` turns file names into names; `policy.find` returns the policy of an installation.
"""

from __future__ import annotations

import os

from leasehold.compat.steps import ask
from leasehold.config import paths as places
from leasehold.config.settings import POLICIES
from leasehold.domain import names
from leasehold.domain.leases import Inspection
from leasehold.domain.nouns import Noun
from leasehold.errors import InvalidInput
from leasehold.wire.sentences import sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import TypeAlias

    from leasehold.domain.leases import Blocker, Lease
    from leasehold.domain.plans import Plan
    from leasehold.locks.sync import Locks
    from leasehold.steps import Steps

    Resource: TypeAlias = "str | Nameless"
    Seen: TypeAlias = tuple[tuple[Lease, ...], tuple[Blocker, ...], tuple[Plan, ...]]


OFF, WARN, REQUIRE, REQUIRE_PLANS, REQUIRE_OWN = POLICIES
FREE, YOURS, HELD, CLOSED, NOT_YOURS = "free", "yours", "held", "closed", "not_yours"
PLANNED = "planned"
ROOT = "path:."
FEW = 3
"""Up to so many paths are inspected one by one; for more, the whole root is inspected once."""
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")
"""Characters that mean nothing to a shell."""
LONGEST = 4096
"""The longest path that systems allow, in characters."""


class Nameless(Noun):
    """A file whose path is no valid name: only a lease on a folder above can cover it."""

    folder: str
    """The name of the nearest folder that has one."""
    why: str
    """The rule that the file's own name breaks, as a sentence."""


class Verdict(Noun):
    """The result for one path."""

    resource: str
    state: str
    """`free`, `yours`, `held` (by another holder), `closed` (after an unclean end), `not_yours` (free, but the policy
    requires a lease of yours), `planned` (free, but another agent is about to touch it)."""
    allowed: bool
    """True if the policy allows a change; `warn` also allows it on a path that another holder has."""
    message: str
    """The problem as a sentence; empty if there is none."""
    leases: tuple[Lease, ...] = ()
    """Other holders' leases on it, on a part of it, or on a folder above."""
    own: tuple[Lease, ...] = ()
    """The caller's leases on it."""
    plans: tuple[Plan, ...] = ()
    """The plans that overlap with it, the caller's own included."""
    undo: str = ""
    """The shell command that restores it, where an agent changed it while another held it."""


def known_policy(policy: str) -> str:
    """Return the policy. Raises InvalidInput if there is no such policy."""
    if policy not in POLICIES:
        raise InvalidInput("policy", f"must be one of {', '.join(POLICIES)}")
    return policy


class LeaseOwner(Noun):
    """A caller that owns leases by its name, by its session, or by the fences it shows."""

    holder: str
    session: str | None = None
    """The id of the caller's session, if it has one."""
    fences: Collection[int] = ()
    is_hook: bool = False
    """True for an editor's hook: by its name it owns nothing that the hooks of another agent took."""
    others: Collection[int] = ()
    """Fences of leases that have its name and that another process is known to have taken."""
    hooks: str | None = None
    """The id of the session in which the hooks of the caller's own agent take leases, if it is known."""

    def owns(self, lease: Lease) -> bool:
        """True if the caller owns this lease."""
        if (self.session is not None and lease.session == self.session) or lease.fence in self.fences:
            return True
        if lease.holder != self.holder or lease.fence in self.others:
            return False
        is_anothers = self.is_hook or (self.hooks is not None and lease.session != self.hooks)
        return not (is_anothers and is_of_hook(lease.session))

    def plans(self, it: Plan) -> bool:
        """True if the plan has the caller's name or session: a plan keeps nobody out, so that a name may do."""
        return it.holder == self.holder or (self.session is not None and it.session == self.session)


HOOK_SESSION = "hook-"
"""How the ids of the sessions begin in which hooks take leases for their agents."""


def hook_session(editor: str, session: str, agent: str = "") -> str:
    """Return the id of the session in which the hooks of this agent take leases."""
    return f"{HOOK_SESSION}{places.digest(editor, session, agent)}"


def is_of_hook(session: str | None) -> bool:
    """True if hooks began the session with this id."""
    return session is not None and session.startswith(HOOK_SESSION)


def verdicts(
    locks: Locks, resources: Sequence[Resource], *, holder: str, policy: str, session: str | None = None
) -> tuple[Verdict, ...]:
    """Return a verdict for each resource."""
    return ask(locks, judged(resources, LeaseOwner(holder, session), policy))


def judged(resources: Sequence[Resource], owner: LeaseOwner, policy: str) -> Steps[tuple[Verdict, ...]]:
    """Judge each resource as a conversation, for callers that cannot block on `Locks` (see ``compat.steps``)."""
    known_policy(policy)
    wanted = list(dict.fromkeys(resources))
    if policy == OFF:
        return tuple(Verdict(place_of(resource), FREE, allowed=True, message="") for resource in wanted)
    seen = yield from _looked_at(list(dict.fromkeys(map(place_of, wanted))))
    return tuple(_with_plans(resource, seen[place_of(resource)], owner, policy) for resource in wanted)


def _with_plans(resource: Resource, seen: Seen, owner: LeaseOwner, policy: str) -> Verdict:
    """Judge by leases; where none is in the way, report other agents' plans, which only `require-plans` protects."""
    leases, closed, plans = seen
    verdict = _judged(resource, leases, closed, owner, policy)._replace(plans=plans)
    others = [each for each in plans if not owner.plans(each)]
    if verdict.state != FREE or not others or not isinstance(resource, str):
        return verdict
    work = f" ({others[0].name})" if others[0].name else ""
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    why = f"{resource} is planned by {others[0].holder}{work}{more}"
    return verdict._replace(state=PLANNED, allowed=policy != REQUIRE_PLANS, message=why)


def place_of(resource: Resource) -> str:
    """Return the name to inspect: the resource, or the folder of a file without a name."""
    return resource if isinstance(resource, str) else resource.folder


def is_allowed(found: Iterable[Verdict]) -> bool:
    """True if all of them may be changed."""
    return all(verdict.allowed for verdict in found)


def _looked_at(resources: Sequence[str]) -> Steps[dict[str, Seen]]:
    if len(resources) <= FEW:
        few: dict[str, Seen] = {}
        for resource in resources:
            seen = yield from _inspected(resource)
            few[resource] = (seen.leases, seen.closed, seen.plans)
        return few
    everything = yield from _inspected(ROOT)
    return {
        resource: (
            tuple(lease for lease in everything.leases if concerns(lease.resources, resource)),
            tuple(closed for closed in everything.closed if concerns((closed.resource,), resource)),
            tuple(plan for plan in everything.plans if concerns(plan.resources, resource)),
        )
        for resource in resources
    }


def _inspected(resource: str) -> Steps[Inspection]:
    seen = yield "inspect", {"resource": resource}
    if not isinstance(seen, Inspection):
        raise InvalidInput("paths", sentence(seen))
    return seen


def concerns(held: Iterable[str], resource: str) -> bool:
    """Return True if one of the held names overlaps the resource."""
    return any(names.overlaps(name, resource) for name in held)


def _judged(
    resource: Resource, leases: tuple[Lease, ...], closed: tuple[Blocker, ...], owner: LeaseOwner, policy: str
) -> Verdict:
    if isinstance(resource, str):
        return _verdict(resource, leases, closed, owner, policy)
    # Other holders' leases on its neighbours in the folder are not in the way.
    over = tuple(lease for lease in leases if _is_above(lease.resources, resource.folder))
    shut = tuple(blocker for blocker in closed if _is_above((blocker.resource,), resource.folder))
    verdict = _verdict(resource.folder, over, shut, owner, policy)
    if verdict.state == YOURS:
        return verdict
    told = verdict.message or f"only its folder was checked, {resource.folder}"
    return verdict._replace(message=f"{resource.why}, so nobody can hold this file by itself: {told}")


def _verdict(
    resource: str,
    leases: tuple[Lease, ...],
    closed: tuple[Blocker, ...],
    owner: LeaseOwner,
    policy: str,
) -> Verdict:
    """Judge a path by the leases that overlap it and by the policy."""
    own = tuple(lease for lease in leases if owner.owns(lease))
    others = tuple(lease for lease in leases if not owner.owns(lease))
    goes_on = policy == WARN
    if others:
        return Verdict(resource, HELD, goes_on, _held(resource, others), others)
    if closed:
        why = f"{resource} is closed after {closed[0].holder} ended uncleanly ({closed[0].state})"
        return Verdict(resource, CLOSED, goes_on, why)
    if any(_covers(lease, resource) for lease in own):
        return Verdict(resource, YOURS, allowed=True, message="", own=own)
    if policy == REQUIRE_OWN:
        why = f"{resource} is not held by you; acquire it first"
        return Verdict(resource, NOT_YOURS, allowed=False, message=why)
    return Verdict(resource, FREE, allowed=True, message="")


def _covers(lease: Lease, resource: str) -> bool:
    """True if this lease covers the whole resource, not only a part of it."""
    return lease.mode == "exclusive" and _is_above(lease.resources, resource)


def _is_above(held: Iterable[str], resource: str) -> bool:
    """True if one of these is the resource, a folder above it, or a pattern that matches it."""
    return any(names.lies_in(resource, name) for name in held)


def ways_out(verdict: Verdict) -> list[str]:
    """Return the command that helps, if there is one, on a line of its own."""
    if verdict.undo:
        return [f"    {verdict.undo}"]
    return [f"    leasehold acquire {typed(verdict.resource)}"] if verdict.state == NOT_YOURS else []


def typed(name: str) -> str:
    """Quote the name for a shell."""
    if name and PLAIN.issuperset(name):
        return name
    from shlex import quote  # noqa: PLC0415 (imports `re`, which takes as long as the rest of a hook that denies)

    return quote(name)


def _held(resource: str, others: tuple[Lease, ...]) -> str:
    lease = others[0]
    work = f" ({': '.join(filter(None, (lease.name, lease.reason)))})" if lease.name or lease.reason else ""
    what = "" if resource in lease.resources else f", by way of {' '.join(lease.resources)}"
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return f"{resource} is held by {lease.holder}{work}{more}{what}"


# --------------------------------------------------------------------------------------------- from file names


def resources_of(paths: Iterable[str], root: str, here: str) -> dict[str, Resource]:
    """Map each path, as it was given, to its name relative to the root of the project."""
    below = Below(root, here)
    return {path: _resource_of(path, below) for path in paths}


def _resource_of(path: str, below: Below) -> Resource:
    found = below.find(path)
    if found is None:
        raise InvalidInput("paths", f"{names.shown(path)} is outside of {below.root}: only what is in there has a name")
    return name_of(found)


def name_of(path: str) -> Resource:
    """Return the name of the file at this path, relative to the root."""
    try:
        return names.path(path)
    except names.BadName as error:
        return Nameless(_folder_of(path), error.message)


def _folder_of(path: str) -> str:
    """Return the name of the nearest folder above that has one."""
    above = path[: names.MAX_NAME]  # a longer one has no name
    while "/" in above:
        above = above.rpartition("/")[0]
        try:
            return names.path(above)
        except names.BadName:
            continue  # the next one above may do
    return ROOT


class Below:
    """Finds paths below a root. The result for a folder is reused for all files in it."""

    def __init__(self, root: str, here: str) -> None:
        self.root = root
        self._here = here
        self._real_root = _real(root)
        self._folders: dict[str, str] = {}

    def find(self, path: str) -> str | None:
        """Return the file's path relative to the root; None if it is outside."""
        # Links are followed in the folder only: if the file itself is a link, the change replaces that link.
        whole = os.path.join(self._here, path)  # noqa: PTH118 (paths of git and of editors, unchanged)
        folder, name = os.path.split(whole)
        real = _real(whole) if name in _STEPS else os.path.join(self._real(folder), name)  # noqa: PTH118
        found = os.path.relpath(real, self._real_root)
        return None if found == ".." or found.startswith("../") else found

    def _real(self, folder: str) -> str:
        """Resolve a folder, starting from the nearest folder above that is resolved already."""
        ahead: list[str] = []
        above = folder
        while len(folder) <= LONGEST and above not in self._folders:
            upper, name = os.path.split(above)
            if name in _STEPS:
                break
            ahead.append(name)
            above = upper
        real = self._folders.get(above) or _real(above)
        self._folders[folder] = real = _real_in(real, ahead[::-1])
        return real


_STEPS = ("", ".", "..")


def _real_in(real: str, names_: list[str]) -> str:
    """Resolve the links in these names, below a folder without links."""
    for at, name in enumerate(names_):
        real = os.path.join(real, name)  # noqa: PTH118
        try:
            os.readlink(real)  # noqa: PTH115
        except FileNotFoundError:  # nor is there anything below
            return os.path.join(real, *names_[at + 1 :])  # noqa: PTH118
        except (OSError, ValueError):
            continue  # no link
        real = _real(real)
    return real


def _real(path: str) -> str:
    """Resolve links; return the path as it is spelled if no file can have that name."""
    if len(path) > LONGEST:
        return os.path.abspath(path)  # noqa: PTH100
    try:
        return os.path.realpath(path)
    except ValueError:  # a NUL, or what cannot be encoded
        return os.path.abspath(path)  # noqa: PTH100
