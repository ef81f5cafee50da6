"""Guard a tool call by its effects: record the trees before it, and judge after it what it changed.

A call whose end is never reported (the user interrupted it), or that left something running, is judged when the agent's
next call begins. Nothing is undone for the agent.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH108, PTH118, PTH120

from __future__ import annotations

import os
import shutil

from leasehold.domain.names import file_of
from leasehold.domain.patterns import folder
from leasehold.guard.checking import ROOT
from leasehold.guard.editors.decision import YES, Decision
from leasehold.guard.effects import picture, recording, undoing
from leasehold.guard.effects.calls import Register
from leasehold.guard.effects.judging import ENDED, LEFT_RUNNING, UNENDED, Judging, holding, on_record, owner_of
from leasehold.guard.effects.picture import TreePicture
from leasehold.guard.effects.recording import Recorded
from leasehold.guard.effects.scenes import announce, withdraw
from leasehold.guard.effects.trees import around

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from leasehold.domain.leases import Lease
    from leasehold.guard.editors.decision import Deciding, HookTerms
    from leasehold.guard.effects.scenes import Scene
    from leasehold.guard.effects.trees import Tree

OPEN_NS = 600 * 10**9
"""So long a call without a reported end may still be running, in nanoseconds: agents end their commands before."""
LEFT_NS = 3600 * 10**9
"""So long the effects of what a call left running are looked for, in nanoseconds."""
_TOLD = "told-many"
"""File in the directory of an agent's calls, which exists once the agent knows of too many untracked files."""


def begin(scene: Scene, said: Mapping[str, Sequence[str]], terms: HookTerms) -> Deciding:
    """Record the trees before a call, and judge those before it that are not over.

    `said` names, by root, the paths that the call plainly writes. The order matters, since others work meanwhile. The
    call is announced first: what changes from now on has this call as a witness. The leases are read last: each that
    is older than the call counts as held before it, and its files are recorded as they are after that.
    """
    announce(scene, said, terms.holder)
    pictures = picture.take(scene.trees)
    seen = yield "inspect", {"resource": ROOT}
    owner = owner_of(terms)
    others = [lease for lease in seen.leases if not owner.owns(lease)]
    held = tuple(sorted({_watched(name) for each in others for name in each.resources if name.startswith("path:")}))
    pictures = picture.watching(scene.trees, pictures, held)
    now = Recorded(scene.trees, pictures, {}, frozenset(lease.id for lease in others), held)
    decision = yield from _judge_earlier(scene, terms, now, seen.leases)
    if not decision.allowed:
        withdraw(scene)  # the call will not run
        return decision
    recording.save(scene.private, now._replace(copies=_copied(scene.private, pictures, others)))
    return decision.joined(_incomplete(scene, pictures))


def _watched(name: str) -> str:
    """Return the path to watch for a held name: of a pattern, the directory in which all its matches lie."""
    return file_of(name) or file_of(f"path:{folder(name[5:]) or '.'}") or "."


def _copied(private: str, pictures: Sequence[TreePicture], others: Sequence[Lease]) -> dict[str, dict[str, str]]:
    """Copy the held files that no commit has; return the copies by root and path."""
    copies = {}
    for each in pictures:
        mine = [path for path in each.states if holding(others, path)]
        unique = os.urandom(8).hex()  # copies of an earlier call may still be needed
        copies[each.root] = undoing.copy(each, mine, os.path.join(private, unique))
    return copies


def _incomplete(scene: Scene, pictures: Sequence[TreePicture]) -> Decision:
    """Tell the agent once that a tree has too many untracked files to record."""
    trees = [each.root for each in pictures if not each.is_whole]
    mark = os.path.join(os.path.dirname(os.path.dirname(scene.private)), _TOLD)
    if not trees or os.path.lexists(mark):
        return YES
    os.close(os.open(mark, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    told = f"{trees[0]} has more than {picture.UNTRACKED_MOST:,} files that git does not track: changes of the rest "
    return Decision(message=f"{told}are not seen. Have git ignore what is generated.")


def end_edit(scene: Scene, terms: HookTerms) -> None:
    """Note in which state a file tool has left what it wrote; an edit by its holder resolves a trespass."""
    for tree in scene.trees:
        register = Register(scene.shared(tree, "calls"))
        call = register.read(scene.call)
        if call is not None:
            left = {path: picture.state_of(tree.root, path) for path in call.said}
            register.keep(call, tree.root, left)
            register.write(call._replace(ended=register.now(), left=left))
            if (known := on_record(scene, tree)) is not None:
                known.accept(call.said, [each.lease for each in terms.known])


def end(scene: Scene, terms: HookTerms, *, lasts: bool = False) -> Deciding:
    """Judge what a call changed. `lasts`: it may have left something running, whose effects are judged later."""
    recorded = recording.load(scene.private)
    new = tuple(_new_trees(recorded.trees))
    whole = scene._replace(trees=(*recorded.trees, *new))
    after = picture.take(whole.trees, recorded.watched, is_later=True)
    seen = yield "inspect", {"resource": ROOT}
    judging = Judging(whole, terms, recorded, seen.leases, ENDED)
    _announce_also(whole, new, terms)
    fresh = [TreePicture(each.root, each.head, {}) for each in after[len(recorded.trees) :]]
    for tree, before, now in zip(whole.trees, (*recorded.pictures, *fresh), after, strict=True):
        judging.judge(tree, before, now)
    yield from judging.take_free()
    yield from judging.report()
    if lasts:
        _record_again(scene.private, recorded._replace(is_over=True), after, seen.leases, terms)
    else:
        _drop(scene.private, keeps_copies=judging.uses_copies)
    return judging.decision()


def _new_trees(known: Sequence[Tree]) -> Iterator[Tree]:
    """Yield the worktrees that appeared since the call began, such as by `git worktree add`."""
    roots, repositories = {tree.root for tree in known}, {tree.common for tree in known}
    for tree in around(tree.root for tree in known if tree.is_git):
        if tree.root not in roots and tree.common in repositories:
            yield tree


def _announce_also(scene: Scene, new: Sequence[Tree], terms: HookTerms) -> None:
    """Put the call on record in trees that it created, as begun when it began."""
    if not new:
        return
    began = Register(scene.shared(scene.trees[0], "calls")).read(scene.call)
    announce(scene._replace(trees=tuple(new)), {}, terms.holder)
    for tree in new:
        register = Register(scene.shared(tree, "calls"))
        mine = register.read(scene.call)
        if began is not None and mine is not None:
            register.write(mine._replace(began=began.began))


def _drop(private: str, *, keeps_copies: bool) -> None:
    if keeps_copies:
        os.unlink(os.path.join(private, recording.FILE))
    else:
        shutil.rmtree(private)


def _record_again(
    private: str, recorded: Recorded, after: Sequence[TreePicture], leases: Sequence[Lease], terms: HookTerms
) -> None:
    """Record how a call has left its trees so far: what changes from now on is judged when the next call begins."""
    owner = owner_of(terms)
    others = [lease for lease in leases if not owner.owns(lease)]
    now = {each.root: each for each in after if each.is_readable}
    pictures = [now.get(each.root, each) for each in recorded.pictures]
    copies = {**recorded.copies, **_copied(private, list(now.values()), others)}
    ids = frozenset(lease.id for lease in others)
    recording.save(private, recorded._replace(pictures=pictures, copies=copies, held=ids))


# ------------------------------------------------------------------------------- calls that are not over


def _judge_earlier(scene: Scene, terms: HookTerms, now: Recorded, leases: Sequence[Lease]) -> Deciding:
    """Judge the agent's earlier calls whose end was not reported, or that left something running."""
    decision = YES
    for id_, private in scene.earlier:
        earlier = scene._replace(call=id_, private=private)
        recorded = recording.load(private)
        age = _age(earlier)
        is_open = age < (LEFT_NS if recorded.is_over else OPEN_NS)
        words = UNENDED if is_open and not recorded.is_over else LEFT_RUNNING
        judging = Judging(earlier, terms, recorded, leases, words)
        trees = {tree.root: tree for tree in scene.trees}
        pictures = {each.root: each for each in now.pictures}
        for before in recorded.pictures:
            if before.root in trees:
                is_running = is_open and not recorded.is_over
                judging.judge(trees[before.root], before, pictures[before.root], is_open=is_running)
        yield from judging.take_free()
        yield from judging.report()
        if is_open:
            _record_again(private, recorded, now.pictures, leases, terms)
        else:
            _drop(private, keeps_copies=judging.uses_copies)
        decision = decision.joined(judging.decision())
    return decision


def _age(scene: Scene) -> int:
    """Return how long ago a call began, in nanoseconds; a very long time if that was forgotten."""
    for tree in scene.trees:
        register = Register(scene.shared(tree, "calls"))
        mine = register.read(scene.call)
        if mine is not None:
            return register.now() - mine.began
    return LEFT_NS
