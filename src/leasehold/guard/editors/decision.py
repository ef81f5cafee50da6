"""May this agent change that now? Asks for leases and turns the answers into a decision; pure but for what it asks.

The same conversation (see ``compat.steps``) serves a hook that is a process of its own and one that is a request.
"""

from __future__ import annotations

from leasehold.domain.names import shown
from leasehold.domain.nouns import Noun
from leasehold.domain.outcomes import Deadlock, Granted, Held, Refused, TimedOut
from leasehold.guard.checking import NOT_YOURS, REQUIRE, REQUIRE_OWN, WARN, LeaseOwner, judged, place_of, typed
from leasehold.wire.sentences import sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from leasehold.guard.checking import Resource, Verdict
    from leasehold.steps import Steps

    Deciding: TypeAlias = "Steps[Decision]"


class Decision(Noun):
    """What the editor is told."""

    allowed: bool = True
    message: str = ""
    """Empty: nothing at all is said."""
    agent_id: str = ""
    """The name to put into a call of one of our own tools."""


class HookTerms(Noun):
    """Who asks, and how strict we are."""

    holder: str
    credential: str
    """`ID.SECRET` of the agent's session: chosen by us, and begun when it is first needed."""
    policy: str
    ttl: float | str
    takes: bool = True
    """Lock on first edit: the lease is taken, not only looked for."""


YES = Decision()


def before_edit(paths: tuple[Resource, ...], terms: HookTerms) -> Deciding:
    """May these resources be written? The leases are taken on the way, unless the terms say otherwise."""
    note, verb = "", "inspect"
    for path in paths:
        if terms.takes and isinstance(path, str):
            outcome = yield from _take(path, terms)
            trouble = None if isinstance(outcome, Granted) else _in_the_way(outcome, terms)
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
    """The agent lives: a full TTL again for its session and all of its leases."""
    yield "renew_session", {"session": terms.credential}
    return YES


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
