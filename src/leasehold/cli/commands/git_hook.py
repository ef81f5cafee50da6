"""git-hook: git's hooks call it; `leasehold install git` sets them up."""

from __future__ import annotations

import os
import sys
from functools import partial

from leasehold.cli.commands.guard import owner_of
from leasehold.cli.output import DONE, HELD, complain, step
from leasehold.compat.steps import ask
from leasehold.config import paths as places
from leasehold.config.identity import CommandIdentity, is_of_run
from leasehold.domain import names
from leasehold.domain.patterns import escaped
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.guard import checking
from leasehold.guard import git_changes as asking
from leasehold.guard import policy as policies
from leasehold.guard.effects.trees import containing, shared
from leasehold.guard.effects.trespasses import Trespasses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasehold.cli.context import Context
    from leasehold.guard.checking import Resource, Verdict
    from leasehold.guard.effects.trespasses import Trespass


def git_hook(context: Context) -> int:
    """Check the changes that this hook is about. A failure stops git's command."""
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
    """Report that the locks could not be asked. A caller that would only be warned goes on."""
    if _may_block(context, policy):
        complain("leasehold: while this cannot be checked, it is not allowed; try again once it can be")
        raise error
    context.abandon()
    complain(f"leasehold: this could not be checked: {names.shown(str(error))}")
    complain(f"leasehold: this is a warning only\n{step('see what is wrong', 'leasehold doctor')}")
    return DONE


def _before_commit(context: Context, policy: str, _words: list[str]) -> int:
    """Refuse here; leave a warning to prepare-commit-msg, which runs later, so that it is printed once."""
    is_strict = _may_block(context, policy)
    if not is_strict and asking.is_asked_with_message():
        return DONE
    verdicts = _verdicts(context, policy, asking.staged())
    is_warning = checking.is_allowed(verdicts) and any(verdict.message for verdict in verdicts)
    if is_warning and asking.is_asked_with_message():
        return DONE
    return _tell(verdicts, is_strict=is_strict)


def _with_message(context: Context, policy: str, words: list[str]) -> int:
    """Check again, since this hook also runs with --no-verify, and add the fences of the caller's leases."""
    code, verdicts = _judged(context, policy, asking.staged())
    fences = {lease.fence for verdict in verdicts for lease in verdict.own}
    if code == DONE and words:
        asking.add_fences(words[0], sorted(fences))
    return code


def _after_editing(_context: Context, _policy: str, words: list[str]) -> int:
    """Empty a message of nothing but fences: the user left it empty to abort the commit."""
    if words:
        asking.drop_lone_fences(words[0])
    return DONE


def _before_push(context: Context, policy: str, _words: list[str]) -> int:
    return _judged(context, policy, asking.pushed(sys.stdin.read()))[0]


def _received(context: Context, policy: str, _words: list[str]) -> int:
    """Check a received push. The pusher has no holder name here; the fences in its commits prove its leases."""
    paths, fences = asking.received(sys.stdin.read())
    strict = checking.REQUIRE if policy == checking.WARN and context.values["policy"] is None else policy
    owner = checking.LeaseOwner("", None, fences)
    return _tell(ask(context.locks, checking.judged(_resources(paths), owner, strict)), is_strict=True)


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
    verdicts = ask(context.locks, checking.judged(_resources(paths), owner_of(context), policy))
    held = {lease.id for verdict in verdicts for lease in (*verdict.leases, *verdict.own)}
    trespasses: list[Trespass] = []
    if held:
        tree = containing(os.getcwd())  # noqa: PTH109 (pathlib costs more than all of this)
        trespasses = Trespasses(shared(tree, "trespasses", places.state_home(os.environ, "hooks"))).unresolved(held)
    return tuple(map(partial(_with_trespass, {f"path:{escaped(each.path)}": each for each in trespasses}), verdicts))


def _with_trespass(found: Mapping[str, Trespass], verdict: Verdict) -> Verdict:
    """Add to the verdict on a file that one agent changed while another held it, until that is resolved."""
    trespass = found.get(verdict.resource)
    if trespass is None:
        return verdict
    changed = f"{verdict.resource} was changed by {trespass.by} while {trespass.holder} held it"
    return verdict._replace(message=f"{verdict.message}; {changed}" if verdict.message else changed, undo=trespass.undo)


def _may_block(context: Context, policy: str) -> bool:
    """True if a violation blocks this caller: an agent, or with `--people block` a person, who is else only warned."""
    if policy == checking.WARN:
        return False
    named = context.values["holder"] or os.environ.get("LEASEHOLD_HOLDER")
    session = os.environ.get("LEASEHOLD_SESSION") and not is_of_run(os.environ)
    is_agent = isinstance(context.identity, CommandIdentity) and context.identity.is_agent
    return bool(named or session) or is_agent or context.values["people"] == "block"


def _resources(paths: list[str]) -> list[Resource]:
    """Return the names of git's paths, which are relative to the root already."""
    return [checking.name_of(path) for path in paths]


def _tell(verdicts: tuple[Verdict, ...], *, is_strict: bool) -> int:
    """Print the leases that are in the way, if any. Return the exit code."""
    told = [verdict for verdict in verdicts if verdict.message]
    is_forbidden = is_strict and not checking.is_allowed(verdicts)
    for verdict in told:
        complain("\n".join([f"leasehold: {names.shown(verdict.message)}", *checking.ways_out(verdict)]))
    if is_forbidden:
        complain("leasehold: wait until it is released, or take these files out of this change")
    elif told:
        complain("leasehold: this is a warning only")
    return HELD if is_forbidden else DONE
