"""Decide whether an agent may make a change: acquire or inspect leases, and turn the outcomes into a decision.

Both a hook process and a hook request at a server drive the same conversation (see ``compat.steps``).
"""

from __future__ import annotations

from leasehold.domain.names import is_pattern, lies_in, shown
from leasehold.domain.nouns import Noun
from leasehold.domain.outcomes import Deadlock, Granted, Held, Lost, Refused, TimedOut
from leasehold.domain.sessions import SessionRenewed
from leasehold.guard.checking import (
    NOT_YOURS,
    PLANNED,
    REQUIRE,
    REQUIRE_OWN,
    REQUIRE_PLANS,
    WARN,
    LeaseOwner,
    judged,
    place_of,
    typed,
)
from leasehold.requests.checks import session_id
from leasehold.wire.sentences import sentence, told_lost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from leasehold.guard.checking import Resource, Verdict
    from leasehold.steps import Steps

    Deciding: TypeAlias = "Steps[Decision]"


NAMED = 5
"""The most lost leases that are named in one message."""


class KnownLease(Noun):
    """A lease that a hook acquired for its agent."""

    lease: str
    name: str


class Decision(Noun):
    """The answer to the editor."""

    allowed: bool = True
    message: str = ""
    """Empty: no output at all."""
    agent_id: str = ""
    """The agent's name, to add to a call of a Leasehold tool."""
    taken: tuple[KnownLease, ...] = ()
    """Leases to remember for the next hooks of this agent."""
    lost: tuple[str, ...] = ()
    """Ids of leases to forget, since the message reports their loss."""

    def joined(self, other: Decision) -> Decision:
        """Return one decision for both: allowed if both are, with the messages of both."""
        message = "\n".join(filter(None, (self.message, other.message)))
        whole = (self.taken + other.taken, self.lost + other.lost)
        return Decision(self.allowed and other.allowed, message, self.agent_id or other.agent_id, *whole)


class HookTerms(Noun):
    """The caller of a hook, and the policy."""

    holder: str
    credential: str
    """`ID.SECRET` of the agent's session, which starts when it is first needed."""
    policy: str
    ttl: float | str
    takes: bool = True
    """Lock on first edit: acquire the lease instead of only checking for others'."""
    known: tuple[KnownLease, ...] = ()
    """Leases that earlier hooks of this agent acquired, without those whose loss was reported."""
    plan_tokens: Callable[[], Sequence[str]] = tuple
    """Returns the saved tokens of the agent's own plans: proof that an edit turns a part of one into a lease."""


YES = Decision()


def before_edit(paths: tuple[Resource, ...], terms: HookTerms) -> Deciding:
    """Decide whether these resources may be written. Acquires their leases, unless the terms say otherwise."""
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
    """Take or check each path in turn; the first one that is in the way decides."""
    note, verb = "", "inspect"
    for path in paths:
        if terms.takes and isinstance(path, str):
            # An earlier hook of this agent that acquired this very path has looked at its plans.
            is_known = any(each.name == path for each in terms.known)
            planned = None if is_known else (yield from _look(path, terms, must_own=False))
            if planned is not None and planned.state == PLANNED and terms.policy == REQUIRE_PLANS:
                return _no(terms, path, planned.message)
            outcome = yield from take(path, terms, planned)
            if isinstance(outcome, Granted):
                taken.append(KnownLease(outcome.lease.id, " + ".join(outcome.lease.resources)))
                note = note or (planned.message if planned is not None and planned.state == PLANNED else "")
                continue
            trouble = yield from _in_the_way(path, outcome, terms)
        else:
            verdict = yield from _look(path, terms, must_own=terms.policy == REQUIRE_OWN)
            trouble = None if verdict.allowed else verdict.message
            note = note or verdict.message
            verb = "acquire" if verdict.state == NOT_YOURS else "inspect"
        if trouble is not None:
            return _no(terms, path, trouble, verb)
    return Decision(message=shown(f"Careful: {note}.")) if note else YES


def before_command(paths: tuple[Resource, ...], terms: HookTerms, note: str = "") -> Deciding:
    """Decide whether a shell command may write these, by the leases of others. It acquires none."""
    for path in paths:
        verdict = yield from _look(path, terms, must_own=False)
        if not verdict.allowed:
            return _no(terms, path, note + verdict.message)
    return YES


def after_tool(terms: HookTerms) -> Deciding:
    """Reset the TTL of the agent's session and leases, and report which of them are lost."""
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
    """Put a report of lost leases before the decision's message."""
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
    """End the agent's session, which releases everything."""
    yield "end_session", {"session": terms.credential}
    return YES


def take(path: str, terms: HookTerms, planned: Verdict | None = None) -> Steps[Any]:
    """Acquire a path for the agent's session, which is started if it is new; within a plan of its own, out of that."""
    asked: dict[str, Any] = {"resources": path, "ttl": terms.ttl, "session": terms.credential, "holder": terms.holder}
    asked |= {"reentrant": True, "intent": True, "name": "editing"}
    if planned is not None and any(each.holder == terms.holder for each in planned.plans):
        asked["token"] = list(terms.plan_tokens())
    outcome = yield "acquire", asked
    if isinstance(outcome, Refused) and outcome.field == "session":
        begun = yield "start_session", {"session": terms.credential, "ttl": terms.ttl, "holder": terms.holder}
        if isinstance(begun, Refused) and begun.code != "conflict":  # another hook of this agent was quicker
            return begun
        outcome = yield "acquire", asked
    return outcome


def _in_the_way(path: str, outcome: Held | TimedOut | Deadlock | Refused, terms: HookTerms) -> Steps[str | None]:
    """Return why not; None if only this agent's own leases are in the way, acquired under its name by other means."""
    told = sentence(outcome)
    if not isinstance(outcome, Held | TimedOut) or not outcome.blockers:
        return told
    found = outcome.blockers
    if all(each.state == "held" and is_pattern(each.resource) and not lies_in(path, each.resource) for each in found):
        return None  # the store takes it for a directory that may have matches in it, but an editor writes files
    if all(each.holder == terms.holder and each.state == "held" for each in found):
        verdict = yield from _look(path, terms, must_own=False)
        if verdict.allowed:
            return None
    return told.partition("; ")[0]  # `_no` adds the next step


def _look(path: Resource, terms: HookTerms, *, must_own: bool) -> Steps[Verdict]:
    strict = REQUIRE_OWN if must_own else REQUIRE_PLANS if terms.policy == REQUIRE_PLANS else REQUIRE
    # `_no` applies any other policy
    owner = LeaseOwner(terms.holder, session_id(terms.credential), is_hook=True)
    (verdict,) = yield from judged([path], owner, strict)
    return verdict


def _no(terms: HookTerms, path: Resource, why: str, verb: str = "inspect") -> Decision:
    """Return a refusal under a policy that forbids, else a warning."""
    if terms.policy == WARN:
        return Decision(message=shown(f"Careful: {why}. Others may be changing it right now."))
    todo = "Do not change it: go on with something else, and come back later. See who has it:"
    if verb == "acquire":
        todo = "Do not change it before that:"
    command = f"leasehold {verb} {typed(place_of(path))}"
    return Decision(allowed=False, message=f"{shown(f'{why}. {todo}')}\n  {shown(command)}")
