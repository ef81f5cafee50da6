"""Is there one order of tries, renewals and releases that explains all answers? A search, after Wing, Gong and Lowe.

Each register (one resource, exclusive, no waiting) is judged by itself. Its state is the lease that holds it, or none.
Every answered call takes effect at one moment between call and reply:

===========  ==============================================================
granted L    nobody holds it; then L does
held         a lease holds it
L renewed    L holds it
L lost       L does not hold it
L released   L holds it; then nobody. Or an earlier release of L got no answer
L gone       L does not hold it
===========  ==============================================================

A lease may also end by itself, no earlier than its TTL after the call of its grant or of its last renewal, or at any
time after the call of a release that got no answer. An acquire without an answer may have been granted at any time
after its call, and that lease may end at any time, since a grant that reaches nobody is released.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from leasehold.domain.nouns import Noun
from leasehold.testing.invariants.wants import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from leasehold.testing.faults.recording import Invocation

SECOND = 1_000_000_000
MOST_STATES = 200_000
"""A search that sees more states is given up, and says so."""


class RegisterCall(Noun):
    """One answered call on one register."""

    call: int
    reply: int
    kind: str
    """granted, held, renewed, lost, released or gone."""
    lease: str
    ttl: int = 0
    """Of the lease, in nanoseconds."""


class LockRegister(Noun):
    """The calls of one register, and when its leases may end."""

    calls: list[RegisterCall]
    """By the time of the call."""
    may_end: dict[str, int]
    """From when on a lease may be gone, because a release of it got no answer."""
    may_be_held: list[int]
    """When acquires were called that got no answer."""


class RegisterState(Noun):
    """Where the search is."""

    first: int
    """All calls before this one have taken effect."""
    done: frozenset[int]
    """Later calls that have taken effect as well."""
    holder: str
    expires: int
    """The holder's lease ends by itself no earlier than this."""
    now: int
    """No call that is still to come takes effect before this."""


def check_registers(calls: Iterable[Invocation], share: float, prefix: str = "register ") -> list[Violation]:
    """Judge every register in this history: the resources with this prefix, by this share of their TTLs."""
    found: list[Violation] = []
    for name, register in registers(calls, prefix).items():
        stuck = explain(register, share)
        if stuck is not None:
            found.append(Violation("linear", f"{name}: {stuck}", ()))
    return found


def registers(calls: Iterable[Invocation], prefix: str) -> dict[str, LockRegister]:
    """Sort calls by the register that they are about."""
    found: dict[str, LockRegister] = defaultdict(lambda: LockRegister([], {}, []))
    ordered = sorted(calls, key=lambda each: each.call)
    asked_first: dict[str, int] = {}
    where: dict[str, tuple[LockRegister, int]] = {}
    holders: dict[str, str] = {}
    for call in ordered:
        what = call.asked.get("what")
        if call.verb != "acquire" or not isinstance(what, str) or not what.startswith(prefix):
            continue
        register = found[what]
        begun = asked_first.setdefault(call.asked["request_id"], call.call)  # a retry may bring the first one's lease
        if call.reply is None or call.kind == "unknown":
            register.may_be_held.append(call.call)
        elif call.kind == "granted":
            ttl = round(call.asked["ttl"] * SECOND)
            where[call.lease], holders[call.lease] = (register, ttl), call.client
            register.calls.append(RegisterCall(begun, call.reply, "granted", call.lease, ttl))
        elif call.kind == "held":
            register.calls.append(RegisterCall(call.call, call.reply, "held", ""))
    for call in ordered:
        if call.verb in ("renew", "release") and call.asked["what"][0] in where:
            lease = call.asked["what"][0]
            is_foreign = call.kind == "released" and holders[lease] != call.client
            _add(*where[lease], call._replace(kind="gone") if is_foreign else call, lease)
    return {name: each._replace(calls=sorted(each.calls, key=lambda call: call.call)) for name, each in found.items()}


def _add(register: LockRegister, ttl: int, call: Invocation, lease: str) -> None:
    if call.reply is None or call.kind == "unknown":
        if call.verb == "release":
            register.may_end[lease] = min(call.call, register.may_end.get(lease, call.call))
    elif call.kind in ("renewed", "lost", "released", "gone"):
        register.calls.append(RegisterCall(call.call, call.reply, call.kind, lease, ttl))


def explain(register: LockRegister, share: float = 1.0) -> str | None:
    """Return None if there is an order that explains all answers; else how far the search got."""
    calls = register.calls
    start = RegisterState(0, frozenset(), "", 0, 0)
    todo, seen, furthest = [start], {start}, start
    while todo:
        state = todo.pop()
        if state.first == len(calls):
            return None
        if state.first + len(state.done) > furthest.first + len(furthest.done):
            furthest = state
        if len(seen) > MOST_STATES:
            return f"the search was given up after {MOST_STATES} states, at {calls[furthest.first]}"
        for following in _next(register, state, share):
            if following not in seen:
                seen.add(following)
                todo.append(following)
    return f"nothing explains {calls[furthest.first]} while {furthest.holder or 'nobody'} holds it"


def _next(register: LockRegister, state: RegisterState, share: float) -> Iterator[RegisterState]:
    """States after one more call."""
    calls = register.calls
    latest = calls[state.first].reply
    for number in range(state.first, len(calls)):
        call = calls[number]
        if call.call > latest:
            return  # a call before it must take effect first
        if number in state.done:
            continue
        latest = min(latest, call.reply)
        for holder, expires, now in _moments(register, state, call):
            after = _effect(register, call, holder, expires, round(call.ttl * share))
            if after is not None and now <= call.reply:
                yield _advanced(calls, state, number, after, now)


def _moments(register: LockRegister, state: RegisterState, call: RegisterCall) -> Iterator[tuple[str, int, int]]:
    """Yield the leases that may hold the register when this call takes effect, each with its end and that moment."""
    now = max(state.now, call.call)
    yield state.holder, state.expires, now
    if state.holder:
        ends = min(state.expires, register.may_end.get(state.holder, state.expires))
        yield "", 0, max(now, ends)


def _effect(register: LockRegister, call: RegisterCall, holder: str, expires: int, ttl: int) -> tuple[str, int] | None:
    """Return the holder and the end of its lease after this call, or None if this answer is impossible then."""
    if call.kind == "granted":
        return None if holder else (call.lease, call.call + ttl)
    if call.kind == "held":
        is_held = bool(holder) or any(each <= call.reply for each in register.may_be_held)
        return (holder, expires) if is_held else None
    if call.kind == "renewed":
        return (holder, max(expires, call.call + ttl)) if holder == call.lease else None
    if call.kind == "released" and holder == call.lease:
        return "", 0
    if call.kind == "released":  # a retry that finds the lease released is answered as the lost first call would be
        return (holder, expires) if register.may_end.get(call.lease, call.reply) < call.reply else None
    return (holder, expires) if holder != call.lease else None


def _advanced(
    calls: Sequence[RegisterCall], state: RegisterState, number: int, after: tuple[str, int], now: int
) -> RegisterState:
    done = state.done | {number}
    first = state.first
    while first in done:
        done -= {first}
        first += 1
    return RegisterState(first, done, after[0], after[1], now if first < len(calls) else 0)
