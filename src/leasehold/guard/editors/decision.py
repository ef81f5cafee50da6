"""May this agent change that now? Asks for leases and turns the answers into a decision; pure but for what it asks.

The same conversation (see ``compat.steps``) serves a hook that is a process of its own and one that is a request.
"""

from __future__ import annotations

from leasehold.domain.names import shown
from leasehold.domain.nouns import Noun
from leasehold.domain.outcomes import Deadlock, Granted, Held, Lost, Refused, TimedOut
from leasehold.domain.sessions import SessionRenewed
from leasehold.guard.checking import NOT_YOURS, REQUIRE, REQUIRE_OWN, WARN, LeaseOwner, judged, place_of, typed
from leasehold.wire.sentences import sentence, told_lost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from leasehold.guard.checking import Resource, Verdict
    from leasehold.steps import Steps

    Deciding: TypeAlias = "Steps[Decision]"


NAMED = 5
"""So many lost leases are named in one message."""


class KnownLease(Noun):
    """A lease that a hook took for its agent."""

    lease: str
    name: str


class Decision(Noun):
    """What the editor is told."""

    allowed: bool = True
    message: str = ""
    """Empty: nothing at all is said."""
    agent_id: str = ""
    """The name to put into a call of one of our own tools."""
    taken: tuple[KnownLease, ...] = ()
    """Leases to remember for the next hooks of this agent."""
    lost: tuple[str, ...] = ()
    """Ids of leases to forget: this message tells the agent that they were taken from it."""


class HookTerms(Noun):
    """Who asks, and how strict we are."""

    holder: str
    credential: str
    """`ID.SECRET` of the agent's session: chosen by us, and begun when it is first needed."""
    policy: str
    ttl: float | str
    takes: bool = True
    """Lock on first edit: the lease is taken, not only looked for."""
    known: tuple[KnownLease, ...] = ()
    """Leases that earlier hooks of this agent took, and of whose loss it was not told."""


YES = Decision()


def before_edit(paths: tuple[Resource, ...], terms: HookTerms) -> Deciding:
    """May these resources be written? The leases are taken on the way, unless the terms say otherwise."""
    taken: list[KnownLease] = []
    decision = yield from _edit(paths, terms, taken)
    held = [each.lease for each in taken]
    doubted = [each for each in terms.known if each.name in paths and each.lease not in held]
    lost: list[tuple[KnownLease, str]] = []
    for each in doubted:
        answer = yield "renew", {"lease": each.lease, "session": terms.credential}
        if isinstance(answer, Lost):
            lost.append((each, answer.reason))
    new = tuple(each for each in taken if each not in terms.known)
    return _tell_lost(decision._replace(taken=new), lost)


def _edit(paths: tuple[Resource, ...], terms: HookTerms, taken: list[KnownLease]) -> Deciding:
    note, verb = "", "inspect"
    for path in paths:
        if terms.takes and isinstance(path, str):
            outcome = yield from _take(path, terms)
            if isinstance(outcome, Granted):
                taken.append(KnownLease(outcome.lease.id, " + ".join(outcome.lease.resources)))
                continue
            trouble = _in_the_way(outcome, terms)
        else:
            verdict = yield from _look(path, terms, must_own=terms.policy == REQUIRE_OWN)
            trouble = None if verdict.allowed else verdict.message
            note = note or verdict.message
            verb = "acquire" if verdict.state == NOT_YOURS else "inspect"
        if trouble is not None:
            return _no(terms, path, trouble, verb)
    return Decision(message=shown(f"Careful: {note}.")) if note else YES


def before_command(paths: tuple[Resource, ...], terms: HookTerms, note: str = "") -> Deciding:
    """May a shell command write these? It is checked against others' leases; none is taken."""
    for path in paths:
        verdict = yield from _look(path, terms, must_own=False)
        if not verdict.allowed:
            return _no(terms, path, note + verdict.message)
    return YES


def after_tool(terms: HookTerms) -> Deciding:
    """The agent lives: a full TTL again for its session and all of its leases. It is told which of them it has lost."""
    outcome = yield "renew_session", {"session": terms.credential}
    if isinstance(outcome, Lost):
        return _tell_lost(YES, [(each, outcome.reason) for each in terms.known])
    alive = [each.id for each in outcome.leases] if isinstance(outcome, SessionRenewed) else None
    lost: list[tuple[KnownLease, str]] = []
    for each in terms.known:
        if alive is None or each.lease in alive:
            continue
        answer = yield "renew", {"lease": each.lease, "session": terms.credential}
        if isinstance(answer, Lost):  # else another hook of this agent took it meanwhile
            lost.append((each, answer.reason))
    return _tell_lost(YES, lost)


def _tell_lost(decision: Decision, lost: list[tuple[KnownLease, str]]) -> Decision:
    """The decision, and before it which leases were taken from the agent."""
    if not lost:
        return decision
    told = [told_lost(each.name, reason) for each, reason in lost[:NAMED]]
    if len(lost) > NAMED:
        told.append(f"So are {len(lost) - NAMED} more.")
    again = [each.name for each in decision.taken if each.name in {gone.name for gone, _ in lost}]
    if again:
        told.append(f"You hold {' + '.join(again)} again: read it anew before you change it.")
    message = " ".join((*told, decision.message)).rstrip()
    return decision._replace(message=message, lost=tuple(each.lease for each, _ in lost))


def at_end(terms: HookTerms) -> Deciding:
    """The agent is done: everything is released."""
    yield "end_session", {"session": terms.credential}
    return YES


def _take(path: str, terms: HookTerms) -> Steps[Any]:
    asked = {"resources": path, "ttl": terms.ttl, "session": terms.credential, "holder": terms.holder}
    asked |= {"reentrant": True, "intent": True, "name": "editing"}
    outcome = yield "acquire", asked
    if isinstance(outcome, Refused) and outcome.field == "session":
        begun = yield "start_session", {"session": terms.credential, "ttl": terms.ttl, "holder": terms.holder}
        if isinstance(begun, Refused) and begun.code != "conflict":  # another hook of this agent was quicker
            return begun
        outcome = yield "acquire", asked
    return outcome


def _in_the_way(outcome: Held | TimedOut | Deadlock | Refused, terms: HookTerms) -> str | None:
    """Why not; None if whatever is in the way is this agent's own, taken under its name by other means."""
    told = sentence(outcome)
    if not isinstance(outcome, Held | TimedOut) or not outcome.blockers:
        return told
    own = all(each.holder == terms.holder and each.state == "held" for each in outcome.blockers)
    return None if own else told.partition("; ")[0]  # what to do next is told in the words of an editor


def _look(path: Resource, terms: HookTerms, *, must_own: bool) -> Steps[Verdict]:
    strict = REQUIRE_OWN if must_own else REQUIRE  # what a no means is decided by `_no`
    (verdict,) = yield from judged([path], LeaseOwner(terms.holder), strict)
    return verdict


def _no(terms: HookTerms, path: Resource, why: str, verb: str = "inspect") -> Decision:
    """A no under a policy that forbids; else a warning."""
    if terms.policy == WARN:
        return Decision(message=shown(f"Careful: {why}. Others may be changing it right now."))
    todo = "Do not change it: go on with something else, and come back later. See who has it:"
    if verb == "acquire":
        todo = "Do not change it before that:"
    command = f"leasehold {verb} {typed(place_of(path))}"
    return Decision(allowed=False, message=f"{shown(f'{why}. {todo}')}\n  {shown(command)}")
