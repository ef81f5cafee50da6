"""A hook on the machine where the files are: its words are checked before a tool runs, and its effects after it."""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH118

from __future__ import annotations

import os

from leasehold.config import paths as places
from leasehold.guard.checking import OFF, ROOT, WARN, name_of
from leasehold.guard.editors import decision as deciding
from leasehold.guard.editors import reach
from leasehold.guard.editors.adapters import AFTER, BEFORE, END
from leasehold.guard.editors.decision import YES, Decision
from leasehold.guard.editors.hook import session_id
from leasehold.guard.effects.trees import shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leasehold.guard.checking import Resource
    from leasehold.guard.editors.decision import Deciding, HookTerms
    from leasehold.guard.editors.payloads import HookCall
    from leasehold.guard.effects.scenes import Scene
    from leasehold.guard.effects.trees import Tree

_READING = ("get", "list", "read", "search", "find", "fetch", "query", "describe", "show", "view", "count", "status")
"""How the names of MCP tools begin that only read: a hook learns nothing else about a tool."""
_CHANGING = frozenset(
    (
        *(
            "add",
            "and",
            "apply",
            "create",
            "delete",
            "edit",
            "execute",
            "fix",
            "format",
            "insert",
            "into",
            "move",
            "or",
        ),
        *("patch", "put", "remove", "rename", "replace", "run", "save", "set", "then", "to", "update", "write"),
    )
)
"""Words in such names that write after all: `search_and_replace`."""


def writes_unseen(call: HookCall) -> bool:
    """Return True if this call may write files that its words do not name, so that trees are to be compared."""
    if call.command and not call.paths:
        from leasehold.guard.effects import reading  # noqa: PLC0415 (only for a command)

        return not reading.only_reads(call.command)
    name = call.mcp.lower()  # to match a regular expression would cost each edit 2 ms
    only_reads = any(name.startswith(word) and not "a" <= name[len(word) : len(word) + 1] <= "z" for word in _READING)
    return bool(name) and not (only_reads and _CHANGING.isdisjoint(name.replace("-", "_").split("_")))


def trees_of(call: HookCall, here: str, env: Mapping[str, str]) -> tuple[Tree, ...]:
    """Return the working trees that a call concerns, first the one that it runs in."""
    if call.moment == AFTER and (recorded := _recorded(call, env)):
        return recorded
    if call.moment == BEFORE and writes_unseen(call):
        from leasehold.guard.editors.mentions import mentioned  # noqa: PLC0415 (only for what may write)

        cwd = call.cwd or here
        return reach.of_command(here, cwd, _written(call) or (), mentioned(call.command, cwd))
    if call.moment in (BEFORE, AFTER) and call.paths:
        cwd = call.cwd or here
        return reach.of_paths(here, cwd, reach.with_targets(call.paths, cwd))
    return reach.of_paths(here, here, ())


def steps(call: HookCall, terms: HookTerms, found: Sequence[Tree], env: Mapping[str, str], scope: str) -> Deciding:
    """Ask what has to be asked of the one store in which the leases of these trees are."""
    if terms.policy == OFF or not call.session:
        return YES
    if call.moment in (BEFORE, AFTER):
        judge = _before if call.moment == BEFORE else _after
        decision = yield from judge(call, terms, found, env, scope)
        return decision.joined(_news(terms, found, env)) if call.is_heard else decision
    if call.moment == END:
        forget(call, env)
        return (yield from deciding.at_end(terms))
    return YES


def _before(call: HookCall, terms: HookTerms, found: Sequence[Tree], env: Mapping[str, str], scope: str) -> Deciding:
    """Decide about a tool call before it runs, and note what it may write if it is allowed."""
    if call.lock_tool:
        return Decision(agent_id=terms.holder)
    cwd = call.cwd or found[0].root
    if call.paths:
        said = reach.split(reach.with_targets(call.paths, cwd), cwd, found)
        decision = yield from deciding.before_edit(_names(said), terms)
        if decision.allowed and any(said.values()):
            from leasehold.guard.effects.scenes import announce  # noqa: PLC0415 (likewise)

            announce(_scene(call, found, env, scope), said, terms.holder, is_edit=True)
        return decision
    if not writes_unseen(call):
        return YES
    words = _written(call)
    said = reach.split(words or (), cwd, found)
    note = "The command is too long to parse, so all paths were checked: "
    names: tuple[Resource, ...] = (ROOT,)
    if words is not None:
        left, note = _without_undone(call, terms, said, found, env)
        names = _names(left)
    decision = yield from deciding.before_command(names, terms, note)
    if decision.allowed:
        from leasehold.guard.effects.guarding import begin  # noqa: PLC0415 (likewise)

        scene = _scene(call, found, env, scope)
        begun = yield from begin(scene._replace(earlier=_earlier(call, env, scope)), said, terms)
        return decision.joined(begun)
    return decision


def _without_undone(
    call: HookCall, terms: HookTerms, said: Mapping[str, Sequence[str]], found: Sequence[Tree], env: Mapping[str, str]
) -> tuple[Mapping[str, Sequence[str]], str]:
    """Leave out the files that this command restores as a hook asked this agent to; the effects are judged anyway.

    A file that was changed again stays in, with a note: its holder may have worked on it, and that is not to be undone.
    """
    folders = {tree.root: _trespasses(tree, env) for tree in found}
    there = {root: folder for root, folder in folders.items() if os.path.isdir(folder)}  # noqa: PTH112 (see the module)
    if not there:
        return said, ""
    from leasehold.guard.effects.trespasses import Trespasses  # noqa: PLC0415 (rare)

    undoing = [
        (root, trespass)
        for root, folder in there.items()
        for trespass in Trespasses(folder).of_agent(terms.holder).values()
        if trespass.undo and trespass.undo in call.command
    ]
    restored = {(root, each.path) for root, each in undoing if each.is_as_left}
    changed = [each.path for _, each in undoing if not each.is_as_left]
    note = f"{changed[0]} was changed again since, so leave it as it is: " if changed else ""
    return {root: [path for path in paths if (root, path) not in restored] for root, paths in said.items()}, note


def _after(call: HookCall, terms: HookTerms, found: Sequence[Tree], env: Mapping[str, str], scope: str) -> Deciding:
    decision = YES
    if call.paths or writes_unseen(call):
        from leasehold.guard.effects import guarding, reading, recording  # noqa: PLC0415 (only for what may write)

        scene = _scene(call, found, env, scope)
        if recording.is_recorded(scene.private):
            lasts = call.lasts or reading.may_last(call.command)
            decision = yield from guarding.end(scene, terms, lasts=lasts)
            if decision.message and not call.is_heard and terms.policy != WARN:
                decision = decision._replace(allowed=False)  # such an agent reads nothing but a refusal
        else:
            guarding.end_edit(scene, terms)
    renewed = yield from deciding.after_tool(terms if call.is_heard else terms._replace(known=()))
    return decision.joined(renewed)


def _news(terms: HookTerms, found: Sequence[Tree], env: Mapping[str, str]) -> Decision:
    """Tell the agent which of its files others changed."""
    own = {each.lease for each in terms.known}
    folders = [_trespasses(tree, env) for tree in found] if own else []
    there = [folder for folder in folders if os.path.isdir(folder)]  # noqa: PTH112 (see the module)
    if not there:
        return YES
    from leasehold.guard.effects.trespasses import Trespasses, report_to_holder  # noqa: PLC0415 (rare)

    return Decision(message=report_to_holder([each for folder in there for each in Trespasses(folder).unreported(own)]))


def _trespasses(tree: Tree, env: Mapping[str, str]) -> str:
    return shared(tree, "trespasses", places.state_home(env, "hooks"))


def _written(call: HookCall) -> tuple[str, ...] | None:
    """Return the paths that a command plainly writes; None if it is too long to parse."""
    if not call.command:
        return ()
    from leasehold.guard.editors.shell import MOST, written  # noqa: PLC0415 (only for a command)
    from leasehold.guard.editors.shell_words import TooMuch  # noqa: PLC0415 (likewise)

    try:
        found = written(call.command)
    except TooMuch:
        return None
    return found if len(found) <= MOST else None


def _names(said: Mapping[str, Sequence[str]]) -> tuple[Resource, ...]:
    return tuple(dict.fromkeys(name_of(path) for paths in said.values() for path in paths))


# ----------------------------------------------------------------------------------- where a call is recorded


def _scene(call: HookCall, found: Sequence[Tree], env: Mapping[str, str], scope: str) -> Scene:
    from leasehold.guard.effects.scenes import Scene  # noqa: PLC0415 (only for what may write)

    id_ = _id(call)
    private = os.path.join(_of_call(call, env), places.digest(scope))
    return Scene(id_, session_id(call), tuple(found), private, places.state_home(env, "hooks"))


def _id(call: HookCall) -> str:
    """Return the id of this use of a tool, which is the same before and after it."""
    return places.digest(session_id(call), call.call or f"{call.command} {' '.join(call.paths)}")


def _of_session(call: HookCall, env: Mapping[str, str]) -> str:
    return places.state_home(env, "hooks", "calls", session_id(call))


def _of_call(call: HookCall, env: Mapping[str, str]) -> str:
    return os.path.join(_of_session(call, env), _id(call))


def _recorded(call: HookCall, env: Mapping[str, str]) -> tuple[Tree, ...]:
    """Return the trees that were recorded before this call, of all stores."""
    folder = _of_call(call, env)
    try:
        scopes = sorted(os.listdir(folder))  # noqa: PTH208 (see the module)
    except FileNotFoundError:
        return ()
    from leasehold.guard.effects.recording import trees_in  # noqa: PLC0415 (only for what may write)

    return trees_in([os.path.join(folder, each) for each in scopes])


def _earlier(call: HookCall, env: Mapping[str, str], scope: str) -> tuple[tuple[str, str], ...]:
    """Return the agent's other calls that are recorded for this store and not over, each with its directory."""
    from leasehold.guard.effects.recording import is_recorded  # noqa: PLC0415 (only for what may write)

    top, mine = _of_session(call, env), _id(call)
    try:
        ids = sorted(os.listdir(top))  # noqa: PTH208 (see the module)
    except FileNotFoundError:
        return ()
    found = [(id_, os.path.join(top, id_, places.digest(scope))) for id_ in ids if id_ != mine]
    return tuple((id_, private) for id_, private in found if is_recorded(private))


def forget(call: HookCall, env: Mapping[str, str]) -> None:
    """Remove what was recorded for the calls of a session that ends."""
    import shutil  # noqa: PLC0415 (once a session)

    from leasehold.guard.effects.recording import FILE  # noqa: PLC0415 (once a session)

    for folder, _, files in os.walk(_of_session(call, env), topdown=False):
        if FILE in files:
            shutil.rmtree(folder)
            continue
        try:
            os.rmdir(folder)  # noqa: PTH106 (see the module)
        except OSError:
            continue  # it has copies that undo a trespass, which is not resolved yet
