"""Texts of refusals for people: what is in the way, and the next command to try."""

from __future__ import annotations

import os

from leasehold.cli.git_clocks import quicker, watch_lines
from leasehold.cli.output import clock, quoted, step
from leasehold.config.identity import GIVEN, CommandIdentity
from leasehold.domain.keys import is_lease_id
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Deadlock, Held, Lost, Refused, TimedOut
from leasehold.domain.timestamps import FOREVER
from leasehold.wire.sentences import KEPT_ALIVE, allows_less, on_own_leases, sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leasehold.cli.context import Context
    from leasehold.domain.leases import Blocker

_LEAVE = "if another agent of your session took it, leave it alone"
_WORDS = {"held": "holder", "waiting": "before you", "grace": "closed after", "quarantined": "quarantined after"}


def explain(outcome: Held | TimedOut | Deadlock | Lost | Refused, context: Context) -> str:
    """Return the whole text of a refusal."""
    if isinstance(outcome, Held | TimedOut):
        state = "Held" if isinstance(outcome, Held) else "Timed out"
        return "\n".join(
            [f"{state}: {shown(' '.join(outcome.resources))}", *_blockers(outcome), _next(outcome, context)]
        )
    text = shown(sentence(outcome))
    if isinstance(outcome, Deadlock):
        return f"Deadlock: {text}\n{step('see what you hold', context.suggest('list', more=' --mine'))}"
    if isinstance(outcome, Lost) and context.verb.startswith("session"):
        begin = step("begin another session", context.suggest("session start"))
        return f"Lost: the session is gone ({shown(outcome.reason)})\n{begin}"
    if isinstance(outcome, Lost) and context.verb.startswith("workflow"):
        return explain_lost_run(outcome, context, {})
    if isinstance(outcome, Lost):
        return f"Lost: {text}\n{step('acquire it again', context.suggest('acquire', *_names(context)))}"
    return f"leasehold {context.verb}: {text}{_advice(outcome, context)}"


def explain_lost_run(outcome: Lost, context: Context, run: dict[str, Any]) -> str:
    """Say that a workflow run is over and how to begin another on the same work; `run` may be empty."""
    kind, _, id_ = (run.get("resource") or "").partition(":")
    work = f" --{kind} {quoted((id_,))}" if kind in ("task", "work-unit") else ""
    if kind == "project" and context.values.get("project") is None:
        work = f" --project {quoted((id_,))}"
    more = f" --name {quoted((run.get('name') or '…',))}{work}{_scope(context)}"
    again = context.suggest("workflow create", more=more)
    return f"Lost: the run is over ({shown(outcome.reason)}); stop working on it\n{step('begin another run', again)}"


def _names(context: Context) -> list[str]:
    """Return the resources that the command line names."""
    values = context.values
    named = values.get("resources") or values.get("targets") or [values.get("target")]
    return [name for name in named if name is not None and not is_lease_id(name)]


def _blockers(outcome: Held | TimedOut) -> list[str]:
    lines = []
    for each in outcome.blockers:
        lines.append(f"  {_WORDS[each.state]:<12} {shown(each.holder)}  ({each.mode}, {shown(each.resource)})")
        if each.name or each.reason:
            lines.append(f"  {'work':<12} {shown(': '.join(filter(None, (each.name, each.reason))))}")
        lines.append(f"  {'since':<12} {clock(each.since_us, each.as_of_us)}")
        if each.until_us < FOREVER:
            lines.append(f"  {'until':<12} {_until(each)}")
        lines += watch_lines(each)
    if outcome.queue.position:
        lines.append(
            f"  {'queue':<12} {outcome.queue.length - 1} waiting; your place would be {outcome.queue.position}"
        )
    return lines


def _until(it: Blocker) -> str:
    if it.is_kept_alive:
        return f"released: {KEPT_ALIVE}"
    unless = ", unless it is renewed or released" if it.state == "held" else ""
    return f"{clock(it.until_us, it.as_of_us)}{unless}"


def _next(outcome: Held | TimedOut, context: Context) -> str:
    """Return the next step after a request that another lease or waiter blocks."""
    closed = [each.resource for each in outcome.blockers if each.state == "quarantined"]
    if closed:
        what = "nobody gets it until a person has opened it again: ask for that, and see what happened"
        return step(what, context.suggest("history", closed[0]))
    if context.verb.startswith("worktree"):
        return step("wait until a member is free, and try again", context.suggest("wait", *outcome.resources))
    around = _next_in_run(outcome, context)
    if around:
        return around
    more = f"{_how(context)} --wait 10m{' -- …' if context.verb == 'run' else ''}"
    verb = "acquire" if context.verb == "wait" else context.verb  # `wait` has no place in the queue
    wait = context.suggest(verb, *outcome.resources, more=more)
    mine = _own(outcome, context)
    held = tuple(dict.fromkeys(each.resource for each in mine))
    if not mine:
        return step("go on with something else, or wait for it", wait) + quicker(outcome, context)
    if _may_be_of_sub_agent(context):
        since = clock(mine[0].since_us, mine[0].as_of_us)
        what = f"{shown(' '.join(held))} is yours since {since}: if you took it yourself, go on under it"
        return f"Next: {what} (or extend it with `--reentrant`, or release it first); {_LEAVE}"
    if len(mine) < len(outcome.blockers):  # a wait would not end before that
        back = context.suggest("release", *held)
        return f"{step('some of it is yours already, so release that first', back)}\nThen wait for the rest:\n  {wait}"
    return _go_on(outcome, context, mine[0], held)


def _next_in_run(outcome: Held | TimedOut, context: Context) -> str:
    """Return the next step within a `leasehold run`, which never offers to release leases of the run."""
    around = [each.resource for each in outcome.blockers if _is_around(each)]
    if around:
        held = shown(" ".join(dict.fromkeys(around)))
        is_exact = set(around) <= set(outcome.resources)
        rest = [name for name in outcome.resources if name not in around] if is_exact else []
        text = f"the `leasehold run` that this command is part of holds {held}: go on under that"
        return step(f"{text}, and ask for the rest", context.suggest("acquire", *rest)) if rest else f"Next: {text}"
    if any(each.yours and context.is_anothers(each.lease) for each in outcome.blockers):
        turns = context.suggest("run", *outcome.resources, more=f"{_how(context)} --wait 10m -- …")
        return step("another command of this session holds it; to take turns, give each a run of its own", turns)
    return ""


def _is_around(blocker: Blocker) -> bool:
    """True if this is the lease of the `leasehold run` that the command is part of."""
    return blocker.state == "held" and blocker.lease == os.environ.get("LEASEHOLD_LEASE")


def _go_on(outcome: Held | TimedOut, context: Context, first: Blocker, held: tuple[str, ...]) -> str:
    """Return the next step where only the caller's own leases are in the way."""
    since = f"yours since {clock(first.since_us, first.as_of_us)}"
    less = allows_less(_own(outcome, context))
    if less:
        what = f"what is in the way is {since}, but only {less}: release it before you ask for more"
        return step(what, context.suggest("release", *held))
    if set(held) == set(outcome.resources) and context.verb == "acquire":
        again = context.suggest("acquire", *outcome.resources, more=f"{_how(context)} --reentrant")
        return step(f"it is {since}: go on; or have the same lease extended", again)
    if set(held) == set(outcome.resources):
        return step(f"it is {since}: go on under that", context.suggest("renew", *held))
    what = f"what is in the way is {since}: go on under {shown(' '.join(held))} if that is enough, or release it first"
    return step(what, context.suggest("release", *held))


def _may_be_of_sub_agent(context: Context) -> bool:
    """True if an agent asks whose sub-agents share its process and its name."""
    identity = context.identity
    return isinstance(identity, CommandIdentity) and identity.layer != GIVEN and identity.is_agent


def _own(outcome: Held | TimedOut, context: Context) -> list[Blocker]:
    """Return the caller's own leases that are in the way, without those of another process in its session."""
    own = [each for each in outcome.blockers if each.yours or (each.state == "held" and each.lease in context.own)]
    return [each for each in own if not context.is_anothers(each.lease)]


def in_your_own_way(outcome: object, context: Context) -> dict[str, Any] | None:
    """Return what JSON says instead of "wait for it" to a caller that would wait for itself; None otherwise."""
    if not isinstance(outcome, Held | TimedOut):
        return None
    mine = _own(outcome, context)
    if not mine:
        is_neighbours = any(each.yours for each in outcome.blockers)
        said = "is held by another command of your session: leave it alone until that has released it"
        return {"message": f"{' + '.join(outcome.resources)} {said}", "yours": False} if is_neighbours else None
    if len(mine) < len(outcome.blockers) and any(map(_is_around, mine)):
        said = "is held in part by the `leasehold run` that you are part of: go on under that, and ask for the rest"
        return {"message": f"{' + '.join(outcome.resources)} {said}", "yours": False}
    if len(mine) == len(outcome.blockers):
        more = f"; {_LEAVE}" if _may_be_of_sub_agent(context) else ""
        return {"message": f"{on_own_leases(outcome.resources, mine)}{more}", "yours": True}
    names = " + ".join(dict.fromkeys(each.resource for each in mine))
    said = f"is held by you, as {names}, and by others: release that before you wait for the rest"
    return {"message": f"{' + '.join(outcome.resources)} {said}", "yours": False}


def _how(context: Context) -> str:
    """Return the options of this command that a suggestion must repeat."""
    values = context.values
    flags = ["--shared"] if values.get("shared") or values.get("mode") == "shared" else []
    if str(values.get("slots") or 1) != "1" or values.get("mode") == "slots":
        flags.append(f"--slots {values['slots']}")
    if values.get("max_skew") is not None:
        flags.append(f"--max-skew {quoted((values['max_skew'],))}")
    return "".join(f" {flag}" for flag in (*flags, *(["--any-of"] if values.get("any_of") else [])))


def _advice(outcome: Refused, context: Context) -> str:
    """Return the next step after a refusal by its code, with its command; empty if there is none."""
    if outcome.code == "invalid" and (context.verb, outcome.field) == ("session end", "id"):
        return f"\n{step('see which sessions live', context.suggest('session list'))}"
    of_session = _on_session(outcome, context) if outcome.field == "session" else ""
    if of_session:
        return f"\n{of_session}"
    if outcome.code == "invalid":
        return f"\n{step('see its options and examples', f'leasehold {context.verb} --help')}"
    if outcome.code == "not_found" and context.verb.startswith("keys"):
        return f"\n{step('see which keys there are', context.suggest('keys list'))}"
    if outcome.code == "not_found" and context.verb.startswith("workflow"):
        return f"\n{step('see which runs there are', context.suggest('workflow list', more=_scope(context)))}"
    if outcome.code == "not_found":
        return f"\n{step('see what is held', context.suggest('list'))}"
    if outcome.code == "unauthenticated":
        return f"\n{step('give a key that the server knows, and try again', 'export LEASEHOLD_API_KEY=lh_…')}"
    names = _names(context)[:1]
    if outcome.code == "slots_mismatch":
        return f"\n{step('see who holds it, and with how many slots', context.suggest('inspect', *names))}"
    if outcome.code == "not_allowed" and outcome.field == "token" and names:
        return f"\n{step('see who holds it', context.suggest('inspect', *names))}"
    served = context.choice.url.startswith("http") if outcome.code == "not_allowed" else False
    if served and not outcome.field:  # what a key is for: another space, other names, less
        return f"\n{step('see what your key allows (docs/how-to/server.md#not-allowed)', context.suggest('doctor'))}"
    return ""


def _on_session(outcome: Refused, context: Context) -> str:
    """Return the next step where a session is missing, over or not the caller's; empty for other mistakes in it."""
    if outcome.code == "session_over" and context.is_of_run:
        return step("the `leasehold run` that set the session has ended; act without it", "unset LEASEHOLD_SESSION")
    is_missing = outcome.code == "invalid" and outcome.message.startswith("is missing")
    if is_missing or outcome.code in ("session_over", "not_allowed"):
        return step("begin a session", context.suggest("session start"))
    return ""


def _scope(context: Context) -> str:
    """Return the options that say where this command looked for runs."""
    given = ((flag, context.values.get(flag)) for flag in ("org", "project"))
    return "".join(f" --{flag} {quoted((value,))}" for flag, value in given if value is not None)
