"""git-hook: what git's hooks call; `leasehold install git` sets them up."""

from __future__ import annotations

import os
import sys

from leasehold.cli.commands.guard import asker_of
from leasehold.cli.output import DONE, HELD, complain, step
from leasehold.compat.steps import ask
from leasehold.config.identity import Asker, is_of_run
from leasehold.domain import names
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.guard import checking
from leasehold.guard import git_changes as asking
from leasehold.guard import policy as policies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context
    from leasehold.guard.checking import Resource, Verdict


def git_hook(context: Context) -> int:
    """Judge what this hook is about; a no ends git's command."""
    name, words = context.values["name"], context.values["words"]
    if name not in _HOOKS:
        raise InvalidInput("name", f"must be one of {', '.join(_HOOKS)}")
    policy, _ = policies.find(context.choice, context.values["policy"])
    if policy == checking.OFF:
        return DONE
    try:
        return _HOOKS[name](context, policy, words)
    except LeaseholdError as error:
        if name == "pre-receive":
            raise  # the real boundary stays closed
        return _unchecked(context, policy, error)


def _unchecked(context: Context, policy: str, error: LeaseholdError) -> int:
    """Nobody could be asked: whoever would only be warned goes on, and is told."""
    if _may_block(context, policy):
        complain("leasehold: while this cannot be checked, it is not allowed; try again once it can be")
        raise error
    context.abandon()
    complain(f"leasehold: this could not be checked: {names.shown(str(error))}")
    complain(f"leasehold: this is a warning only\n{step('see what is wrong', 'leasehold doctor')}")
    return DONE


def _before_commit(context: Context, policy: str, _words: list[str]) -> int:
    """A no is told here, a warning by whoever is asked last: it would be told twice otherwise."""
    is_strict = _may_block(context, policy)
    if not is_strict and asking.is_asked_with_message():
        return DONE
    verdicts = _verdicts(context, policy, asking.staged())
    is_warning = checking.is_allowed(verdicts) and any(verdict.message for verdict in verdicts)
    if is_warning and asking.is_asked_with_message():
        return DONE
    return _tell(verdicts, is_strict=is_strict)


def _with_message(context: Context, policy: str, words: list[str]) -> int:
    """The same again, as this hook also runs with --no-verify; and the fences of what we hold go into the message."""
    code, verdicts = _judged(context, policy, asking.staged())
    fences = {lease.fence for verdict in verdicts for lease in verdict.own}
    if code == DONE and words:
        asking.add_fences(words[0], sorted(fences))
    return code


def _after_editing(_context: Context, _policy: str, words: list[str]) -> int:
    """Whoever left the message empty does not want this commit: our fences must not make one of it."""
    if words:
        asking.drop_lone_fences(words[0])
    return DONE


def _before_push(context: Context, policy: str, _words: list[str]) -> int:
    return _judged(context, policy, asking.pushed(sys.stdin.read()))[0]


def _received(context: Context, policy: str, _words: list[str]) -> int:
    """The real boundary: who pushes has no name here, but the fences in its commits tell which leases it had."""
    paths, fences = asking.received(sys.stdin.read())
    strict = checking.REQUIRE if policy == checking.WARN and context.values["policy"] is None else policy
    asker = checking.LeaseOwner("", None, fences)
    return _tell(ask(context.locks, checking.judged(_resources(paths), asker, strict)), is_strict=True)


_HOOKS = {
    "pre-commit": _before_commit,
    "prepare-commit-msg": _with_message,
    "commit-msg": _after_editing,
    "pre-push": _before_push,
    "pre-receive": _received,
}


def _judged(context: Context, policy: str, paths: list[str]) -> tuple[int, tuple[Verdict, ...]]:
    verdicts = _verdicts(context, policy, paths)
    return _tell(verdicts, is_strict=_may_block(context, policy)), verdicts


def _verdicts(context: Context, policy: str, paths: list[str]) -> tuple[Verdict, ...]:
    return ask(context.locks, checking.judged(_resources(paths), asker_of(context), policy))


def _may_block(context: Context, policy: str) -> bool:
    """Whoever has a name of its own is an agent; people have none, and are warned only, unless it was set otherwise."""
    if policy == checking.WARN:
        return False
    named = context.values["holder"] or os.environ.get("LEASEHOLD_HOLDER")
    session = os.environ.get("LEASEHOLD_SESSION") and not is_of_run(os.environ)
    is_agent = isinstance(context.asker, Asker) and context.asker.is_agent
    return bool(named or session) or is_agent or context.values["people"] == "block"


def _resources(paths: list[str]) -> list[Resource]:
    """Git's paths are relative to the root already."""
    return [checking.name_of(path) for path in paths]


def _tell(verdicts: tuple[Verdict, ...], *, is_strict: bool) -> int:
    """Say what is in the way; nothing where nothing is."""
    told = [verdict for verdict in verdicts if verdict.message]
    is_forbidden = is_strict and not checking.is_allowed(verdicts)
    for verdict in told:
        complain("\n".join([f"leasehold: {names.shown(verdict.message)}", *checking.ways_out(verdict)]))
    if is_forbidden:
        complain("leasehold: wait until it is released, or take these files out of this change")
    elif told:
        complain("leasehold: this is a warning only")
    return HELD if is_forbidden else DONE
