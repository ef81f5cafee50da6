"""One sentence of advice for each answer: what an agent should do next. It decides nothing."""

from __future__ import annotations

from leasehold.domain import durations
from leasehold.domain.leases import Inspection, Lease
from leasehold.domain.outcomes import Deadlock, Granted, Held, Lost, Planned, Refused, Released, Renewed, TimedOut
from leasehold.domain.timestamps import SECOND
from leasehold.wire import shapes as wire
from leasehold.wire.sentences import KEPT_ALIVE

_REFUSED = {
    "not_found": "There is no such lease: nothing to do. list_locks shows what is held.",
    "not_allowed": "This is not yours to do: leave it alone, and go on with something else.",
    "unreachable": "The locks cannot be reached: do not go on without the lock; tell a person, and try again later.",
    "unauthenticated": "Your key is not good any more: do not go on without the lock; ask a person for a new key.",
    "invalid": "Correct the argument that is named, and call again.",
}


CLOSED = "Skip it: it is closed after an unclean end, until a person has checked and opened it again."
_AGAIN = "It was yours already. If you did not acquire it, another agent has your agent_id: stop, and choose your own. "
HELD = "Do not touch it: skip it and go on with something else, or call wait_for_lock if you need this very one."
NOT_HELD = "You hold no lease on it: stop that work now, and acquire_lock it anew before you go on."
UNPROVEN = "If it is yours, call again with the token that came with it; otherwise leave it alone."


def on(outcome: object) -> str:
    """Return what to do after this answer."""
    if isinstance(outcome, Granted):
        return f"{'' if outcome.fresh else _AGAIN}{_on_granted(outcome.lease)}"
    if isinstance(outcome, Held | TimedOut):
        is_closed = any(each.state == "quarantined" for each in outcome.blockers)
        return CLOSED if is_closed else HELD
    if isinstance(outcome, Deadlock):
        return "Release what you hold with release_lock, then try again: waiting would never end."
    if isinstance(outcome, Lost):
        return "Stop that work now: another holder may have taken over. Acquire it anew before you go on."
    if isinstance(outcome, Refused):
        return _REFUSED.get(outcome.code, "Do not go on without the lock.")
    return _on_change(outcome)


def _on_granted(lease: Lease) -> str:
    if _session_left(lease):
        return f"Do the work now, and release_lock as soon as you are done. {_session_left(lease)}"
    left = durations.format(lease.ttl_us)
    return f"Do the work now, renew_lock before {left} are over, and release_lock as soon as you are done."


def _session_left(lease: Lease) -> str:
    """Say what keeps a lease alive whose session ends before its TTL does; empty for any other."""
    left = max(lease.expires_us - lease.as_of_us, 0)
    if lease.session is None or left + 2 * SECOND >= lease.ttl_us:
        return ""
    return "It is renewed while your session lives: `leasehold mcp` keeps it alive while you are connected."


def on_own(resources: tuple[str, ...], *, is_certain: bool) -> str:
    """Return the advice for a request that only the agent's own leases block, or those of its connection."""
    names = ", ".join(dict.fromkeys(resources))
    if not is_certain:
        return (
            f"A lease of this connection is in the way, on {names}. If you took it yourself, go on under it; "
            "if another agent of this connection did, leave it alone. An agent_id of your own tells you apart."
        )
    return (
        f"Your own lease is in the way, on {names}: if that covers what you need, go on under it; "
        "otherwise release_lock it first, and acquire all that you need in one call."
    )


def _on_change(outcome: object) -> str:
    if isinstance(outcome, Renewed):
        bound = _session_left(outcome.lease)
        return (
            f"Go on. {bound}" if bound else f"Go on; it is yours for another {durations.format(outcome.lease.ttl_us)}."
        )
    if isinstance(outcome, Planned):
        words = "Others plan or hold a part of it: see `overlaps`, and choose other work there if you can."
        each = "acquire_lock each part before you touch it: that takes it out of your plan."
        return f"{words} Otherwise {each}" if outcome.plan.overlaps else f"Nothing overlaps; {each}"
    if isinstance(outcome, Released):
        return _on_end(outcome)
    if isinstance(outcome, Inspection):
        free = not outcome.leases and not outcome.closed
        if free and outcome.plans:
            return "It is free, and planned: unless that is your own plan, agree on it, or go on with something else."
        return "It is free: acquire_lock before you touch it." if free else "Do not touch it unless you are its holder."
    return ""


def _on_end(outcome: Released) -> str:
    if outcome.released and outcome.reason.startswith("forced by "):  # else it was the caller's own, and another's now
        return "It is free now. Its holder may be at work all the same; acquire_lock before you touch it."
    if outcome.reason == "not held":
        return "Nobody held it: nothing changed."
    return "Done; do not touch it any more." if outcome.released else "It was not yours any more: nothing changed."


def on_ticket() -> str:
    """Return what to do with a ticket."""
    return (
        "You still wait. Call wait_for_lock again with this ticket within a minute to keep your place; "
        "or do something else, and your place is given up by itself."
    )


def place(seen: Inspection, position: int) -> str:
    """Return the state of a wait in a few words, for a progress line."""
    where = f"place {position} of {len(seen.waiting)}" if position else "waiting"
    if not seen.leases:
        return where
    first = seen.leases[0]
    if first.session is not None:
        return f"{where}; held by {first.holder}, {KEPT_ALIVE}"
    left = wire.seconds(max(0, first.expires_us - seen.now_us))
    return f"{where}; held by {first.holder} for another {left:.0f} s at most"
