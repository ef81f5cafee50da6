"""Guard a tool call by its effects: record the trees before it, and judge after it what it changed.

The paths that nobody holds become leases of the agent, as with its first edit. A path that another agent holds is a
trespass: it is reported to the agent, to the holder and in the history, and git's hooks refuse it until it is resolved.
Nothing is undone for the agent.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH103, PTH118, PTH123

from __future__ import annotations

import json
import os
import shutil
import time

from leasehold.domain.names import shown
from leasehold.domain.nouns import Noun
from leasehold.domain.outcomes import Granted
from leasehold.guard.checking import ROOT, WARN, LeaseOwner, concerns, name_of
from leasehold.guard.editors.decision import Decision, KnownLease, take
from leasehold.guard.effects import calls, comparing, picture, undoing
from leasehold.guard.effects.calls import Register, ToolUse
from leasehold.guard.effects.trees import Tree, shared
from leasehold.guard.effects.trespasses import Trespass, Trespasses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leasehold.domain.leases import Lease
    from leasehold.guard.editors.decision import Deciding, HookTerms
    from leasehold.guard.effects.picture import TreePicture
    from leasehold.steps import Steps

TAKEN_MOST = 256
"""Of more free paths than this, changed by one call, the rest is not leased, and a message says so."""
TOLD_MOST = 10
"""So many paths are named in one message; more are counted."""


class Scene(Noun):
    """One tool call, and the trees in which its effects are judged: all those whose leases are in one store."""

    call: str
    """The id of the call, the same before and after it."""
    session: str
    trees: tuple[Tree, ...]
    private: str
    """A directory of this user alone, for the pictures and copies of this call."""
    state: str
    """A directory for what agents of this user share, where the trees themselves cannot keep it."""

    def shared(self, tree: Tree, what: str) -> str:
        """Return the directory in which all agents of a tree keep this."""
        return shared(tree, what, self.state)


class _Recorded(Noun):
    """The trees as they were before a call, and the leases that others held."""

    pictures: list[TreePicture]
    copies: dict[str, dict[str, str]]
    """By the root of a tree and the path in it, where a copy of a held file is."""
    held: frozenset[str]
    """The ids of others' leases."""
    watched: tuple[str, ...]


def begin(scene: Scene, said: Mapping[str, Sequence[str]], terms: HookTerms) -> Steps[None]:
    """Record the trees before a call. `said` names, by root, the paths that it plainly writes."""
    others = yield from _held_by_others(terms)
    held = sorted({name.partition(":")[2] for lease in others for name in lease.resources if name.startswith("path:")})
    pictures = picture.take(scene.trees, held)
    copies = {}
    for number, each in enumerate(pictures):
        mine = [path for path in each.states if _holding(others, path)]
        copies[each.root] = undoing.copy(each, mine, os.path.join(scene.private, str(number)))
    _save(scene, _Recorded(pictures, copies, frozenset(lease.id for lease in others), tuple(held)))
    announce(scene, said, terms.holder)


def announce(scene: Scene, said: Mapping[str, Sequence[str]], holder: str) -> None:
    """Note that a call is about to write these paths, so that no other agent is blamed for it."""
    for tree in scene.trees:
        call = ToolUse(scene.call, scene.session, holder, time.time_ns(), said=tuple(said.get(tree.root, ())))
        Register(scene.shared(tree, "calls")).write(call)


def end_edit(scene: Scene) -> None:
    """Note in which state a file tool has left what it wrote."""
    for tree in scene.trees:
        register = Register(scene.shared(tree, "calls"))
        call = register.read(scene.call)
        if call is not None:
            left = {path: picture.state_of(tree.root, path) for path in call.said}
            register.write(call._replace(ended=time.time_ns(), left=left))


def end(scene: Scene, terms: HookTerms) -> Deciding:
    """Judge what a call changed."""
    recorded = _load(scene)
    after = picture.take(scene.trees, recorded.watched)
    seen = yield "inspect", {"resource": ROOT}
    judging = _Judging(scene, terms, recorded, seen.leases)
    for tree, before, now in zip(scene.trees, recorded.pictures, after, strict=True):
        judging.judge(tree, before, now)
    yield from judging.take_free()
    yield from judging.report()
    if not judging.uses_copies:
        shutil.rmtree(scene.private)
    return judging.decision()


class _Change(Noun):
    """One path that changed, with the lease of another agent that covers it."""

    before: TreePicture
    path: str
    lease: Lease
    rival: ToolUse | None
    """The call of another agent that may have changed it as well; None if it was certainly ours."""


class _Judging:
    """Sort the changes of one call: trespasses, free paths, and those that another call may have made."""

    def __init__(self, scene: Scene, terms: HookTerms, recorded: _Recorded, leases: Sequence[Lease]) -> None:
        self._scene = scene
        self._terms = terms
        self._recorded = recorded
        owner = _owner(terms)
        self._own = [lease for lease in leases if owner.owns(lease)]
        self._others = [lease for lease in leases if not owner.owns(lease)]
        self._free: dict[str, None] = {}
        self._trespasses: list[_Change] = []
        self._doubts: list[_Change] = []
        self._unclear: list[str] = []
        """Free paths of which nobody can tell who changed them."""
        self._taken: list[KnownLease] = []
        self.uses_copies = False

    def judge(self, tree: Tree, before: TreePicture, after: TreePicture) -> None:
        """Tell apart what this call changed in one tree, what others did, and what nobody can tell."""
        register = Register(self._scene.shared(tree, "calls"))
        mine = register.read(self._scene.call)
        if mine is None:
            return
        others = register.others(mine)
        left = {}
        for path in comparing.changed(before, after):
            state = after.states[path] if path in after.states else picture.state_of(tree.root, path)
            whose, rival = calls.attributed(path, state, mine, others)
            if whose == calls.THEIRS:
                continue
            if whose == calls.MINE:
                left[path] = state
            self._note(before, path, rival)
        register.write(mine._replace(ended=time.time_ns(), left=left))

    def _note(self, before: TreePicture, path: str, rival: ToolUse | None) -> None:
        lease = _holding(self._others, path)
        if lease is None:
            self._unclear.append(path) if rival else self._free.setdefault(path)
        elif rival is None and lease.id in self._recorded.held:
            self._trespasses.append(_Change(before, path, lease, rival))
        else:  # it was taken while the call ran, or another call ran as well
            self._doubts.append(_Change(before, path, lease, rival))

    def take_free(self) -> Steps[None]:
        """Lease the changed paths that nobody holds."""
        for path in [path for path in self._free if _holding(self._own, path) is None][:TAKEN_MOST]:
            name = name_of(path)
            if self._terms.takes and isinstance(name, str):
                outcome = yield from take(name, self._terms)
                if isinstance(outcome, Granted):
                    self._taken.append(KnownLease(outcome.lease.id, name))

    def report(self) -> Steps[None]:
        """Keep each trespass until it is resolved, and tell the store's history of it."""
        by_lease: dict[str, list[str]] = {}
        for change in self._trespasses:
            tree = next(tree for tree in self._scene.trees if tree.root == change.before.root)
            Trespasses(self._scene.shared(tree, "trespasses")).add(self._trespass(change))
            by_lease.setdefault(change.lease.id, []).append(change.path)
        for lease, paths in by_lease.items():
            told = [f"path:{path}" for path in paths[:TOLD_MOST]]
            yield "report_trespass", {"lease": lease, "paths": told, "by": self._terms.holder}

    def _trespass(self, change: _Change) -> Trespass:
        copies = self._recorded.copies[change.before.root]
        lease = change.lease
        undo = undoing.command(change.before, change.path, copies)
        self.uses_copies = self.uses_copies or change.path in copies
        original = undoing.original(change.before, change.path, copies)
        where = (change.before.root, change.path, " ".join(lease.resources), lease.id, lease.holder)
        return Trespass(*where, self._terms.holder, original, undo)

    def decision(self) -> Decision:
        """Return the message for the agent, and whether it may go on."""
        parts = [self._accusation(), self._doubt(), self._rest()]
        message = "\n".join(filter(None, parts))
        allowed = not self._trespasses or self._terms.policy == WARN
        return Decision(allowed, message, taken=tuple(self._taken))

    def _accusation(self) -> str:
        if not self._trespasses:
            return ""
        said = f"Your call changed what others hold: {_listed(self._trespasses)}."
        if self._terms.policy == WARN:
            return self._with_commands(f"Careful: {said} To restore it:", self._trespasses)
        return self._with_commands(f"{said} Undo this before you go on:", self._trespasses)

    def _doubt(self) -> str:
        if not self._doubts:
            return ""
        said = f"While your call ran, these changed, and nothing tells who changed them: {_listed(self._doubts)}."
        return self._with_commands(f"{said} Only if your call did, restore them:", self._doubts)

    def _rest(self) -> str:
        left = len(self._free) - TAKEN_MOST
        if left > 0:
            return (
                f"Your call changed {len(self._free)} files. You hold {TAKEN_MOST} of them now; {left} are not locked."
            )
        return ""

    def _with_commands(self, said: str, changes: Sequence[_Change]) -> str:
        lines = [shown(said)]
        for change in changes[:TOLD_MOST]:
            command = undoing.command(change.before, change.path, self._recorded.copies[change.before.root])
            self.uses_copies = self.uses_copies or change.path in self._recorded.copies[change.before.root]
            lines.append(
                f"  {command}" if command else f"  # ask {shown(change.lease.holder)} about {shown(change.path)}"
            )
        return "\n".join(lines)


def _listed(changes: Sequence[_Change]) -> str:
    told = [f"{change.path}, held by {_named(change.lease)}" for change in changes[:TOLD_MOST]]
    more = len(changes) - TOLD_MOST
    return "; ".join([*told, f"{more} more"] if more > 0 else told)


def _named(lease: Lease) -> str:
    work = ": ".join(filter(None, (lease.name, lease.reason)))
    return f"{lease.holder} ({work})" if work else lease.holder


def _owner(terms: HookTerms) -> LeaseOwner:
    return LeaseOwner(terms.holder, terms.credential.partition(".")[0], is_hook=True)


def _held_by_others(terms: HookTerms) -> Steps[list[Lease]]:
    seen = yield "inspect", {"resource": ROOT}
    owner = _owner(terms)
    return [lease for lease in seen.leases if not owner.owns(lease)]


def _holding(leases: Iterable[Lease], path: str) -> Lease | None:
    """Return the lease that covers this file, if there is one."""
    name = name_of(path)
    wanted = name if isinstance(name, str) else name.folder
    return next((lease for lease in leases if concerns(lease.resources, wanted)), None)


def _save(scene: Scene, recorded: _Recorded) -> None:
    os.makedirs(scene.private, 0o700, exist_ok=True)
    document = {
        "trees": [tuple(tree) for tree in scene.trees],
        "pictures": [picture.to_json(each) for each in recorded.pictures],
        "copies": recorded.copies,
        "held": sorted(recorded.held),
        "watched": recorded.watched,
    }
    with open(os.path.join(scene.private, FILE), "w", encoding="ascii") as file:
        json.dump(document, file)


def recorded_trees(private: str) -> tuple[Tree, ...]:
    """Return the trees that were recorded before a call in its private directory; none if nothing was."""
    try:
        with open(os.path.join(private, FILE), encoding="ascii") as file:
            return tuple(Tree(*each) for each in json.load(file)["trees"])
    except FileNotFoundError:
        return ()


def _load(scene: Scene) -> _Recorded:
    with open(os.path.join(scene.private, FILE), encoding="ascii") as file:
        document = json.load(file)
    pictures = [picture.from_json(each) for each in document["pictures"]]
    return _Recorded(pictures, document["copies"], frozenset(document["held"]), tuple(document["watched"]))


FILE = "before.json"
"""In the private directory of a call: what was recorded before it."""
