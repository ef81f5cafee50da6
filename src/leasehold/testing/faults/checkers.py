"""Checks of the recorded history of clients, each in O(n log n). Must do no I/O, and must not ask the store.

============  ================================================================================================
`overlap`     two clients were in incompatible critical sections at a time (`leasehold.testing.observations`)
`fence`       a later grant of a resource has no larger fence, or one lease has two fences
`identity`    two clients were granted the same lease, or one acted for another
`kept`        a renewal was answered `lost` while the holder could count on its lease: an acknowledged grant is gone
`wait`        a call of a client that lives got no answer, or a wait took far longer than it may
`lost_update` two writers wrote the same number, or an element that was written is not in the list
`linear`      no order of tries, renewals and releases explains the answers (`linearizability`)
`broken`      an error that no fault explains
`complaint`   something that a client itself found wrong
============  ================================================================================================

The events that the store recorded have a checker of their own, `leasehold.testing.checker`, which also judges first
come first served, the ends of waits, and residue.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from leasehold.domain.names import parse
from leasehold.testing.faults.linearizability import check_registers
from leasehold.testing.invariants.wants import Violation
from leasehold.testing.observations import check_observations

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from leasehold.testing.faults.recording import ClientHistory, Invocation, Writing

SECOND = 1_000_000_000
FOREVER = 1 << 63
PATIENCE = 60.0
"""Seconds that an answer may take beyond its wait: retries while a server is away, on a busy machine."""


def check_clients(
    history: ClientHistory,
    *,
    share: float,
    killed: Collection[str] = (),
    lists: Mapping[str, Sequence[int]] | None = None,
) -> list[Violation]:
    """Return everything in this history that must not be. `killed` are clients that were ended by SIGKILL.

    `share` is the part of a TTL that a holder counts on, `lists` what the guarded lists hold in the end.
    """
    calls = history.invocations
    found = [Violation("complaint", each, ()) for each in history.complaints]
    found += [Violation("broken", f"{each}", ()) for each in calls if each.kind == "broken"]
    parsed = {name: parse(name) for name in {each.resource for each in history.sections}}
    found += check_observations(each._replace(resource=parsed[each.resource]) for each in history.sections)
    found += check_fences(calls)
    found += check_identity(calls)
    found += check_kept(calls, share)
    found += check_waits(calls, frozenset(killed))
    found += check_writings(history.writings, lists or {})
    return found + check_registers(calls, share)


def _granted(calls: Iterable[Invocation]) -> list[Invocation]:
    return [each for each in calls if each.kind == "granted"]


def asked_first(calls: Iterable[Invocation]) -> dict[str, int]:
    """Return when each request_id was first sent: a retry may bring the lease of the first copy."""
    first: dict[str, int] = {}
    for call in calls:
        if call.verb == "acquire":
            request = call.asked["request_id"]
            first[request] = min(call.call, first.get(request, call.call))
    return first


def check_fences(calls: Collection[Invocation]) -> list[Violation]:
    """Report grants whose fence is not larger than that of an earlier grant, answered before the request."""
    first = asked_first(calls)
    found: list[Violation] = []
    by_resource: dict[str, list[Invocation]] = defaultdict(list)
    fences: dict[str, int] = {}
    leases: dict[int, str] = {}
    for call in _granted(calls):
        if fences.setdefault(call.lease, call.fence) != call.fence:
            found.append(Violation("fence", f"lease {call.lease} has fences {fences[call.lease]} and {call.fence}", ()))
        if leases.setdefault(call.fence, call.lease) != call.lease:
            found.append(Violation("fence", f"fence {call.fence} is of {leases[call.fence]} and {call.lease}", ()))
        what = call.asked["what"]
        for name in [what] if isinstance(what, str) else what:
            by_resource[name].append(call._replace(call=first[call.asked["request_id"]]))
    for name, of_name in by_resource.items():
        found += _inverted(name, of_name)
    return found


def _inverted(name: str, calls: list[Invocation]) -> list[Violation]:
    """Sweep over calls in order of time, with the largest fence that was answered before each."""
    found: list[Violation] = []
    answered = sorted(calls, key=lambda each: each.reply or 0)
    newest: Invocation | None = None
    at = 0
    for call in sorted(calls, key=lambda each: each.call):
        while at < len(answered) and (answered[at].reply or 0) < call.call:
            if newest is None or answered[at].fence > newest.fence:
                newest = answered[at]
            at += 1
        if newest is not None and newest.fence >= call.fence and newest.lease != call.lease:
            message = f"{name}: fence {newest.fence} was answered before fence {call.fence} was asked for"
            found.append(Violation("fence", f"{message}: {newest}, {call}", ()))
    return found


def check_identity(calls: Sequence[Invocation]) -> list[Violation]:
    """Report leases that two clients were granted, or that another client renewed or released.

    A release whose first answer was lost counts as its caller's if a retry finds the lease released: so a release by
    another client is judged only if the holder had not released the lease itself, or ended its session.
    """
    found: list[Violation] = []
    owners: dict[str, str] = {}
    granted_or_used = [each for each in calls if each.kind in ("granted", "renewed", "released")]
    found += [
        Violation("identity", f"lease {call.lease} was granted to {owners[call.lease]} and {call.client}", ())
        for call in _granted(granted_or_used)
        if owners.setdefault(call.lease, call.client) != call.client
    ]
    ended = _ended_by_owners(calls)
    for call in granted_or_used:
        lease = call.lease or str(call.asked["what"][0])
        is_over = call.kind == "released" and call.reply is not None and ended.get(lease, call.reply) < call.reply
        if call.kind != "granted" and owners.get(lease, call.client) != call.client and not is_over:
            found.append(Violation("identity", f"{call.client} could {call.verb} {lease} of {owners[lease]}", ()))
    return found


def _ended_by_owners(calls: Iterable[Invocation]) -> dict[str, int]:
    """Return when each holder first asked for the end of its lease, or of the session that it had then."""
    ended: dict[str, int] = {}
    mine: dict[str, set[str]] = defaultdict(set)
    for call in sorted(calls, key=lambda each: each.call):
        if call.kind == "granted":
            mine[call.client].add(call.lease)
        elif call.verb == "end_session":
            ended.update((lease, call.call) for lease in mine.pop(call.client, ()))
        elif call.verb == "release" and (lease := str(call.asked["what"][0])) in mine[call.client]:
            mine[call.client].discard(lease)
            ended[lease] = call.call
    return ended


def check_kept(calls: Collection[Invocation], share: float) -> list[Violation]:
    """Report renewals that were answered `lost` while the holder could count on its lease, and on its session."""
    first = asked_first(calls)
    found: list[Violation] = []
    good: dict[str, dict[str, int]] = defaultdict(dict)  # until when, by client and lease
    lives: dict[str, int] = {}
    sessions: dict[str, int] = {}  # until when a client could count on the session that it was in
    for call in sorted(calls, key=lambda each: each.call):
        mine, lease = good[call.client], call.lease or str(next(iter(call.asked["what"]), ""))
        ends = sessions.get(call.client, FOREVER)
        if call.kind == "started":
            sessions[call.client] = call.call + round(call.asked["ttl"] * share * SECOND)
        elif call.verb == "end_session":
            mine.clear()
            sessions.pop(call.client, None)
        elif call.verb == "release":
            mine.pop(lease, None)
        elif call.kind == "granted":
            lives[lease] = round(call.asked["ttl"] * share * SECOND)
            if not call.asked["wait"]:
                mine[lease] = min(ends, first[call.asked["request_id"]] + lives[lease])
        elif call.kind == "renewed":
            mine[lease] = min(ends, call.call + lives[lease])
        elif call.kind == "lost" and call.reply is not None and call.reply < mine.get(lease, 0):
            found.append(Violation("kept", f"an acknowledged lease was lost early: {call}", ()))
    return found


def check_waits(calls: Iterable[Invocation], killed: frozenset[str]) -> list[Violation]:
    """Report calls without an answer, of clients that were not killed, and waits that took far longer than they may."""
    found: list[Violation] = []
    for call in calls:
        longest = float(call.asked.get("wait", 0)) + PATIENCE
        if call.reply is None:
            if call.client.rpartition("-")[0] not in killed:
                found.append(Violation("wait", f"no answer ever came: {call}", ()))
        elif call.reply - call.call > longest * SECOND and call.client.rpartition("-")[0] not in killed:
            found.append(Violation("wait", f"it took {(call.reply - call.call) / SECOND:.1f} s: {call}", ()))
    return found


def check_writings(writings: Sequence[Writing], lists: Mapping[str, Sequence[int]]) -> list[Violation]:
    """Report lost updates: every one by a fence, and without a fence those not due to a write after its lease."""
    found: list[Violation] = []
    by_resource: dict[str, list[Writing]] = defaultdict(list)
    for writing in writings:
        by_resource[writing.resource].append(writing)
    for name, of_name in by_resource.items():
        late = [] if name.startswith("fenced") else [each for each in of_name if each.is_late]
        found += _lost_elements(name, of_name, late, lists) if name in lists else _lost_counts(name, of_name, late)
    return found


def _lost_counts(name: str, writings: Sequence[Writing], late: Sequence[Writing]) -> list[Violation]:
    """Numbers that were written grow with time: each writer adds one to what it read."""
    found: list[Violation] = []
    newest: Writing | None = None
    for writing in sorted(writings, key=lambda each: each.written):
        if newest is not None and writing.value <= newest.value and not _excused((newest, writing), late):
            found.append(Violation("lost_update", f"{name}: {newest}, then {writing}", ()))
        newest = writing
    return found


def _lost_elements(
    name: str, writings: Sequence[Writing], late: Sequence[Writing], lists: Mapping[str, Sequence[int]]
) -> list[Violation]:
    there = set(lists[name])
    return [
        Violation("lost_update", f"{name} lacks {each}", ())
        for each in writings
        if each.value not in there and not _excused((each,), late)
    ]


def _excused(writings: Sequence[Writing], late: Sequence[Writing]) -> bool:
    """True if a late write was under way at the same time as one of these: that is what a lease alone cannot stop."""
    return any(each.read <= writing.written and writing.read <= each.written for each in late for writing in writings)
