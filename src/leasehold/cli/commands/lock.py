"""lock acquire, renew, release, status, gc: grite's commands with grite's answers, on any store."""

from __future__ import annotations

import os

from leasehold.cli import output
from leasehold.cli.context import accepted
from leasehold.cli.git_clocks import not_removed, watch_lines
from leasehold.cli.output import moment
from leasehold.compat import grite
from leasehold.domain import durations
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Granted, Held, Refused, Renewed, TimedOut
from leasehold.domain.timestamps import FOREVER, SECOND
from leasehold.errors import InvalidInput
from leasehold.requests import checks
from leasehold.wire import sentences
from leasehold.wire import shapes as wire
from leasehold.wire.shapes import SCHEMA_VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leasehold.cli.context import Context
    from leasehold.compat.grite import GriteLock
    from leasehold.domain.leases import Blocker, Lease
    from leasehold.domain.outcomes import Acquired, Lost

COLUMN = 15
"""The least width of the column of names, as on grite's page."""
_ID_LENGTH = 32
_DIGITS = frozenset("0123456789abcdef")


def _resource(context: Context) -> str:
    """Return the resource, given as an argument or by --resource."""
    word, option = context.values.get("name"), context.values.get("resource")
    if word is not None and option is not None and word != option:
        raise InvalidInput("resource", "is named twice: write it as a word or with --resource, not both")
    if word is None and option is None:
        raise InvalidInput("resource", "is missing: name one, such as issue:42, as a word or with --resource")
    return checks.resource(word if word is not None else option)


def _of_grite() -> list[GriteLock]:
    """Return the locks of grite itself in this repository."""
    from leasehold.compat import grite_refs  # noqa: PLC0415
    from leasehold.config import paths as places  # noqa: PLC0415
    from leasehold.config.settings import working_directory  # noqa: PLC0415

    copy = places.working_copy(working_directory(), os.environ)
    return grite_refs.live(copy.common) if copy is not None else []


# ------------------------------------------------------------------------------------------------ answers


def _yes(context: Context, data: dict[str, Any], text: str) -> int:
    if context.out.json:
        context.out.give({"schema_version": SCHEMA_VERSION, "ok": True, "data": data})
    else:
        context.out.say(text)
    return output.DONE


def _conflict(context: Context, verb: str, resource: str, lock: GriteLock, blocker: Blocker | None = None) -> int:
    """Report a conflict: with --json on standard output, for people on standard error."""
    if context.out.json:
        error = grite.conflict(verb, resource, lock)
        if blocker is not None and blocker.watched_us is not None:
            error["lock"] |= {name: wire.blocker(blocker)[name] for name in ("watched_since", "recorded_until")}
        context.out.give({"schema_version": SCHEMA_VERSION, "ok": False, "error": error})
    else:
        context.deny(
            f"Error: Lock conflict\n  Resource: {shown(resource)}\n  Owner: {shown(lock.owner)}\n"
            + "\n".join([f"  Expires: {_until(lock)}", *_more(context, resource, lock, blocker)])
        )
    return output.HELD


def _more(context: Context, resource: str, lock: GriteLock, blocker: Blocker | None) -> list[str]:
    """Return lines that grite's page lacks: the overlapping name, the work, and how this machine counts the lease."""
    lines = [f"  Held as: {shown(lock.resource)}"] if lock.resource != resource else []
    if lines and lock.owner == context.holder:
        lines.append("  Yours: go on under that if it is enough, or release it first")
    lines += [f"  Work: {shown(lock.work)}"] if lock.work else []
    if blocker is None or not sentences.is_quicker_by_the_wall(blocker):
        return lines  # as short as on grite's page
    return lines + watch_lines(blocker)


def _until(lock: GriteLock) -> str:
    return moment(lock.expires_at) if lock.expires_at < FOREVER else "never: it is quarantined"


def _taken(context: Context, resource: str, outcome: Granted, headline: str) -> int:
    lease = outcome.lease
    if outcome.token:
        context.tokens.remember(lease.resources, lease.id, outcome.token)
    lock = grite.of_lease(lease, resource)
    text = f"{headline}\n  Resource: {shown(resource)}\n  Expires: {_until(lock)}"
    return _yes(context, grite.granted(lock, lease.ttl_us), text)


# ------------------------------------------------------------------------------------------------ the verbs


def acquire(context: Context) -> int:
    """Acquire a lock; extend it if the caller has it."""
    return _take(context, "acquire", "Lock acquired")


def renew(context: Context) -> int:
    """Reset a lock to this TTL, even a shorter one; acquire it if it is free."""
    return _take(context, "renew", "Lock renewed")


def _take(context: Context, verb: str, headline: str) -> int:
    """Acquire as grite does, whose leases conflict by its own rules. `renew` also shortens a lease."""
    resource = _resource(context)
    context.hint_at_paths([resource])
    rules = context.choice.rules()
    other = grite.in_the_way(resource, context.holder, _of_grite(), rules.hierarchical)
    if other is not None:
        return _conflict(context, verb, resource, other)
    ttl = context.values["ttl"]
    outcome: Acquired | Lost = _acquired(context, resource, ttl)
    if isinstance(outcome, Granted) and verb == "renew" and outcome.lease.ttl_us > durations.parse(ttl):
        # A repeated acquire never shortens a lease; `lock renew` does.
        # One that was taken elsewhere under this name has no token here.
        proof = {"token": outcome.token} if outcome.token else {"admin": context.holder}
        renewed = context.locks.renew(outcome.lease.id, **proof, ttl=ttl)
        outcome = outcome._replace(lease=renewed.lease) if isinstance(renewed, Renewed) else renewed
    if isinstance(outcome, Granted):
        context.caution()
        return _taken(context, resource, outcome, headline)
    if isinstance(outcome, Held | TimedOut) and outcome.blockers:
        first = outcome.blockers[0]
        return _conflict(context, verb, resource, grite.of_blocker(first), first)
    return context.end(outcome, "")


def _acquired(context: Context, resource: str, ttl: str) -> Acquired:
    """Acquire. As in grite, the owner's name is enough to extend what the owner has, where the store allows it."""
    known = context.tokens.recall(resource)
    token = None if known is None else known[1]
    outcome = context.locks.acquire(
        resource, ttl=ttl, session=context.session, reentrant=True, intent=True, token=token
    )
    if not isinstance(outcome, Held) or any(each.holder != context.holder for each in outcome.blockers):
        return outcome
    held = _held(context, resource)
    if isinstance(held, Refused) or not held or not context.is_mine(held[0]):
        return outcome
    renewed = context.locks.renew(
        held[0].id, admin=context.holder, ttl=max(durations.parse(ttl), held[0].ttl_us) / SECOND
    )
    return Granted(renewed.lease, "", fresh=False) if isinstance(renewed, Renewed) else outcome


def _held(context: Context, resource: str) -> list[Lease]:
    """Return the leases on exactly this name."""
    return [lease for lease in accepted(context.locks.inspect(resource)).leases if resource in lease.resources]


def release(context: Context) -> int:
    """Release a lock. A free one is no error; another owner's is refused."""
    resource = _resource(context)
    known = context.tokens.recall(resource)
    if known is not None:
        ended = context.locks.release(*known)
        if not isinstance(ended, Refused):
            context.tokens.forget(known[0])
            if ended.released:
                return _released(context, resource, is_done=True)
    return _release_by_name(context, resource)


def _release_by_name(context: Context, resource: str) -> int:
    """Release by owner's name, without a token, if the lock is the caller's."""
    held = _held(context, resource)
    if not held:
        other = grite.in_the_way(resource, context.holder, _of_grite())
        return (
            _released(context, resource, is_done=False)
            if other is None
            else _conflict(context, "release", resource, other)
        )
    if not context.is_mine(held[0]):
        return _conflict(context, "release", resource, grite.of_lease(held[0], resource))
    # The lock was taken under this name elsewhere: in grite, the owner's name is enough.
    accepted(context.locks.release(held[0].id, admin=context.holder))
    return _released(context, resource, is_done=True)


def _released(context: Context, resource: str, *, is_done: bool) -> int:
    text = f"Lock released\n  Resource: {shown(resource)}" if is_done else f"No lock on {shown(resource)}"
    return _yes(context, {"resource": resource, "released": is_done}, text)


def status(context: Context) -> int:
    """Print every lock, or those about one name, grite's own included."""
    listed = _leases(context)
    hierarchical = context.choice.rules().hierarchical
    ours, theirs = listed, _of_grite()
    if context.values.get("name") is not None or context.values.get("resource") is not None:
        name = _resource(context)
        theirs = [lock for lock in theirs if grite.in_the_way(name, "", [lock], hierarchical) is not None]
    locks = [*ours, *theirs]
    return _yes(context, grite.status(locks, grite.clashes(ours, theirs, hierarchical)), _table(locks))


def _leases(context: Context) -> list[GriteLock]:
    """Return the leases as locks; for one name by one inspection, not from a whole list."""
    if context.values.get("name") is None and context.values.get("resource") is None:
        leases = tuple(accepted(context.locks.list(space=context.space)))
    else:
        leases = accepted(context.locks.inspect(_resource(context))).leases
    return [grite.of_lease(lease, resource) for lease in leases for resource in lease.resources]


def _table(locks: list[GriteLock]) -> str:
    if not locks:
        return "No active locks"  # Ids of grite's are shortened, as grite does; other names are shown in full.
    are_ids = (len(lock.owner) == _ID_LENGTH and _DIGITS.issuperset(lock.owner) for lock in locks)
    owners = [lock.owner[:8] if is_id else shown(lock.owner) for lock, is_id in zip(locks, are_ids, strict=True)]
    wide = max(COLUMN, *(len(shown(lock.resource)) for lock in locks))
    who = max(map(len, owners))
    lines = [
        f"  {shown(lock.resource):<{wide}} {owner:<{who}}  expires in {_left(lock)}"
        f"{'' if lock.fence is not None else '  (grite)'}"
        for lock, owner in zip(locks, owners, strict=True)
    ]
    return "\n".join(["Active Locks:", *lines])


def _left(lock: GriteLock) -> str:
    """Format the time left in whole minutes, or in seconds below one minute."""
    left = max(lock.left, 0)
    unit = 60 * SECOND if left >= 60 * SECOND else SECOND
    return durations.format(left // unit * unit)


def gc(context: Context) -> int:
    """Remove expired leases of all owners. Grite's own refs are left to grite."""
    collected = accepted(context.locks.gc())
    kept = accepted(context.locks.list())
    data = {"removed": collected.swept, "kept": len(kept)}
    lines = [f"Removed {data['removed']} expired, kept {data['kept']}", *not_removed(collected.kept, context)]
    return _yes(context, {**data, "not_removed": list(map(wire.blocker, collected.kept))}, "\n".join(lines))
