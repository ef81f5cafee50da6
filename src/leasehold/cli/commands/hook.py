"""hook: editors call it before and after their agents change files, so it delays every edit."""

from __future__ import annotations

import os
import sys

from leasehold.cli.output import DONE, USAGE, complain
from leasehold.errors import InvalidInput, LeaseholdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from leasehold.cli.context import Context
    from leasehold.config.settings import Choice
    from leasehold.guard.editors.decision import Deciding, Decision, HookTerms
    from leasehold.guard.editors.payloads import HookCall
    from leasehold.guard.effects.trees import Tree

MOST = 64 * 1024 * 1024
"""The largest hook input in bytes: it may contain whole files."""


def hook(context: Context) -> int:
    """Answer one call of an editor's hook; print nothing if the change is allowed."""
    from leasehold.guard.editors import adapters, payloads  # noqa: PLC0415 (see the module)

    editor = context.values["editor"]
    if editor not in adapters.EDITORS:
        raise InvalidInput("editor", f"must be one of {', '.join(adapters.EDITORS)}")
    if sys.stdin is None or sys.stdin.isatty():
        raise InvalidInput(
            "stdin", "is a terminal: an editor calls this command and hands it JSON, see docs/how-to/agents.md"
        )
    text = sys.stdin.buffer.read(MOST).decode("utf-8", "replace")
    occasion = payloads.read(editor, text)
    if occasion.moment == adapters.START:
        _introduce(context, occasion)
    decision = _heard(occasion, _decide(context, occasion))
    _answer(context, occasion, decision, text)
    if adapters.ADAPTERS[editor].answer == adapters.WINDSURF and not decision.allowed:
        complain(decision.message)
        return USAGE  # 2, which is how such a hook refuses
    return DONE


def _heard(occasion: HookCall, decision: Decision) -> Decision:
    """Return what the agent will read: a refusal after a tool that it does not read is given before its next tool."""
    from leasehold.guard.editors.decision import Decision  # noqa: PLC0415

    if occasion.moment == "after" and not occasion.is_heard:
        if not decision.allowed:
            from leasehold.guard.editors.hook import keep_unheard  # noqa: PLC0415 (rare)

            keep_unheard(occasion, os.environ, decision.message)
        return decision._replace(allowed=True, message="")
    if occasion.moment != "before" or not occasion.session:
        return decision
    from leasehold.guard.editors.hook import take_unheard  # noqa: PLC0415

    kept = take_unheard(occasion, os.environ)
    return Decision(allowed=False, message=kept).joined(decision) if kept else decision


def _introduce(context: Context, occasion: HookCall) -> None:
    """Export the agent's holder name to the commands it runs, by the file that the editor loads for them."""
    path = os.environ.get("CLAUDE_ENV_FILE")
    if path is None or not occasion.session or os.environ.get("LEASEHOLD_HOLDER"):
        return
    from leasehold.guard.checking import typed  # noqa: PLC0415
    from leasehold.guard.editors.hook import holder_of  # noqa: PLC0415

    holder = holder_of(occasion, context.values["holder"])
    if context.values["holder"] is None and context.holder == holder:
        return  # its commands derive that name as this one does, and an agent that they start does not inherit it
    with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123 (pathlib costs more than all of this)
        file.write(f"export LEASEHOLD_HOLDER={typed(holder)}\n")


def _decide(context: Context, occasion: HookCall) -> Decision:
    from leasehold.guard.editors.decision import Decision  # noqa: PLC0415

    try:
        return _ask(context, occasion)
    except LeaseholdError as error:
        if isinstance(error, InvalidInput):
            raise
        if occasion.moment != "before":
            complain(f"leasehold hook: {error}")
            return Decision()
        if context.values["on_failure"] == "closed":
            return Decision(allowed=False, message=f"The locks cannot be asked, so nothing may be changed: {error}")
        return Decision(message=f"The locks cannot be asked, so this change is not protected: {error}")


def _ask(context: Context, occasion: HookCall) -> Decision:
    """Ask each store that the call concerns, until one of them denies a call that has not run yet."""
    from leasehold.guard.editors.decision import YES  # noqa: PLC0415

    cwd = occasion.cwd or os.getcwd()  # noqa: PTH109 (pathlib costs more than all of this)
    try:
        here = os.path.realpath(cwd)
    except ValueError:  # a NUL, or what cannot be encoded
        raise InvalidInput("stdin", "the cwd in the hook's input cannot be a folder") from None
    decision = YES
    for choice, trees in _stores(context, occasion, here):
        decision = decision.joined(_of_store(context, occasion, choice, trees))
        if not decision.allowed and occasion.moment == "before":
            break
    return decision


def _stores(context: Context, occasion: HookCall, here: str) -> Iterable[tuple[Choice, list[Tree]]]:
    """Return each store that keeps leases of trees that this call concerns, with those trees."""
    from leasehold.config import settings as config  # noqa: PLC0415
    from leasehold.guard.editors import local  # noqa: PLC0415

    chosen: dict[str, Choice] = {}
    found: dict[str, tuple[Choice, list[Tree]]] = {}
    for tree in local.trees_of(occasion, here, os.environ):
        repository = tree.common or tree.root
        if repository not in chosen:
            chosen[repository] = config.find(context.values["url"], cwd=here if not chosen else tree.root)
        choice = chosen[repository]
        found.setdefault(choice.url, (choice, []))[1].append(tree)
    return found.values()


def _of_store(context: Context, occasion: HookCall, choice: Choice, trees: Sequence[Tree]) -> Decision:
    from leasehold.guard.editors import hook as hooking  # noqa: PLC0415
    from leasehold.guard.editors import local  # noqa: PLC0415
    from leasehold.guard.editors.decision import YES  # noqa: PLC0415

    terms = _terms(context, occasion, choice, trees[0])
    if occasion.moment != "before" and not hooking.is_known(occasion, os.environ, choice.url):
        return YES  # it took nothing: there is nothing to renew or to end
    decision = _asked(context, choice, terms, local.steps(occasion, terms, trees, os.environ, choice.url))
    hooking.remember(occasion, os.environ, choice.url, decision)
    if occasion.moment == "end":
        hooking.forget(occasion, os.environ, choice.url)
    return decision


def _terms(context: Context, occasion: HookCall, choice: Choice, tree: Tree) -> HookTerms:
    from leasehold.config import paths as places  # noqa: PLC0415
    from leasehold.guard.checking import OFF, REQUIRE, known_policy  # noqa: PLC0415
    from leasehold.guard.editors import hook as hooking  # noqa: PLC0415
    from leasehold.guard.editors.decision import HookTerms  # noqa: PLC0415

    given = context.values["policy"] or choice.settings.get("lock_policy")
    policy = known_policy(str(given or places.of_grite(tree.root, os.environ)[1] or REQUIRE))
    holder = hooking.holder_of(occasion, context.values["holder"] or choice.holder)
    is_asking = policy != OFF and occasion.session
    wants = is_asking and (occasion.moment == "before" or hooking.is_known(occasion, os.environ, choice.url))
    credential = hooking.credential(occasion, os.environ, choice.url) if wants else ""
    known = hooking.known(occasion, os.environ, choice.url) if wants else ()
    takes = not context.values["look_only"]
    terms = HookTerms(holder, credential, policy, choice.ttl, takes, known)
    return terms._replace(plan_tokens=lambda: _plan_tokens(context, choice, holder))


def _plan_tokens(context: Context, choice: Choice, holder: str) -> list[str]:
    """Return the tokens of the plans that the agent has announced by commands of its own."""
    from leasehold.cli.tokens import Tokens  # noqa: PLC0415 (only within a plan of the agent's own)
    from leasehold.domain.keys import is_plan_id  # noqa: PLC0415

    saved = Tokens(choice.url, context.values["space"] or choice.space, context.identity).every()
    return [line.token for line in saved if is_plan_id(line.lease) and line.holder == holder]


def _asked(context: Context, choice: Choice, terms: HookTerms, steps: Deciding) -> Decision:
    from leasehold.compat.steps import ask  # noqa: PLC0415
    from leasehold.locks.connect import connect  # noqa: PLC0415

    space = context.values["space"] or choice.space
    locks = connect(choice, holder=terms.holder, space=space, threaded=False)
    try:
        return ask(locks, steps)
    finally:
        locks.close()


def _answer(context: Context, occasion: HookCall, decision: Decision, text: str) -> None:
    if not decision.message and not decision.agent_id:
        return
    from leasehold.guard.editors.answers import answer  # noqa: PLC0415 (only where there is something to say)

    told = answer(occasion, decision, _tool_input(occasion.editor, text) if decision.agent_id else None)
    if told is not None:
        context.out.give(told)


def _tool_input(editor: str, text: str) -> dict[str, Any] | None:
    """Return the arguments of a Leasehold tool, which the answer repeats with one more."""
    import json  # noqa: PLC0415 (a denied edit does without)

    from leasehold.guard.editors.adapters import ADAPTERS  # noqa: PLC0415 (is loaded by now)

    document = json.loads(text)
    given = next((document[field] for field in ADAPTERS[editor].input if field in document), None)
    told: dict[str, Any] | None = json.loads(given) if isinstance(given, str) else given
    return told
