"""Guard a tool call by its effects: record the trees before it, and judge after it what it changed.

The paths that nobody holds become leases of the agent, as with its first edit. A path that another agent holds is a
trespass: it is reported to the agent, to the holder and in the history, and git's hooks refuse it until it is resolved.
Nothing is undone for the agent.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH103, PTH108, PTH118, PTH123

from __future__ import annotations

import json
import os
import shutil

from leasehold.domain.names import file_of, shown
from leasehold.domain.nouns import Noun
from leasehold.domain.outcomes import Granted
from leasehold.domain.patterns import escaped, folder
from leasehold.guard.checking import ROOT, WARN, LeaseOwner, concerns, name_of, typed
from leasehold.guard.editors.decision import Decision, KnownLease, take
from leasehold.guard.effects import calls, comparing, picture, undoing
from leasehold.guard.effects.calls import Register, ToolUse
from leasehold.guard.effects.scenes import announce
from leasehold.guard.effects.trees import Tree
from leasehold.guard.effects.trespasses import Trespass, Trespasses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from leasehold.domain.leases import Lease
    from leasehold.guard.editors.decision import Deciding, HookTerms
    from leasehold.guard.effects.picture import TreePicture
    from leasehold.guard.effects.scenes import Scene
    from leasehold.steps import Steps

    Earlier: TypeAlias = Mapping[tuple[str, str], Trespass]
    """Trespasses of one agent, by path and lease."""

TAKEN_MOST = 256
"""Of more free paths than this, changed by one call, the rest is not leased, and a message says so."""
TOLD_MOST = 10
"""Paths that are named in one message; more are counted."""


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
    seen = yield "inspect", {"resource": ROOT}
    owner = _owner(terms)
    others = [lease for lease in seen.leases if not owner.owns(lease)]
    held = sorted({_watched(name) for lease in others for name in lease.resources if name.startswith("path:")})
    pictures = picture.take(scene.trees, held)
    copies = {}
    for each in pictures:
        mine = [path for path in each.states if _holding(others, path)]
        unique = os.urandom(8).hex()  # copies of an earlier call may still be needed
        copies[each.root] = undoing.copy(each, mine, os.path.join(scene.private, unique))
    _save(scene, _Recorded(pictures, copies, frozenset(lease.id for lease in others), tuple(held)))
    announce(scene, said, terms.holder)


def _watched(name: str) -> str:
    """Return the path to watch for a held name: of a pattern, the directory in which all its matches lie."""
    return file_of(name) or file_of(f"path:{folder(name[5:]) or '.'}") or "."


def end_edit(scene: Scene, terms: HookTerms) -> None:
    """Note in which state a file tool has left what it wrote; an edit by its holder resolves a trespass."""
    for tree in scene.trees:
        register = Register(scene.shared(tree, "calls"))
        call = register.read(scene.call)
        if call is not None:
            left = {path: picture.state_of(tree.root, path) for path in call.said}
            register.write(call._replace(ended=register.now(), left=left))
            if (known := _on_record(scene, tree)) is not None:
                known.accept(call.said, [each.lease for each in terms.known])


def _on_record(scene: Scene, tree: Tree) -> Trespasses | None:
    """Return the trespasses that are on record for a tree; None if it never had one."""
    directory = scene.shared(tree, "trespasses")
    return Trespasses(directory) if os.path.isdir(directory) else None  # noqa: PTH112 (see the module)


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
    decision = judging.decision()
    if judging.uses_copies:
        os.unlink(os.path.join(scene.private, FILE))
    else:
        shutil.rmtree(scene.private)
    return decision


class _Change(Noun):
    """One path that changed, with the lease of another agent that covers it."""

    before: TreePicture
    path: str
    lease: Lease
    undo: str
    """The shell command that restores it; empty if only the holder can."""
    copy: str
    """The file that this command copies from, or nothing."""
    original: str | None
    """See `Trespass.original`."""


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
        known = _on_record(self._scene, tree)
        earlier = {} if known is None else known.of_agent(self._terms.holder)
        left = {}
        for path in comparing.changed(before, after):
            state = comparing.state_in(after, path)
            whose, rival = calls.attributed(path, state, mine, others)
            if whose == calls.THEIRS:
                continue
            if whose == calls.MINE:
                left[path] = state
            self._note(before, path, rival, earlier)
        register.write(mine._replace(ended=register.now(), left=left))
        self._resolve(tree, left)

    def _resolve(self, tree: Tree, changed: Collection[str]) -> None:
        known = _on_record(self._scene, tree)
        if known is not None:
            own = [lease.id for lease in self._own]
            known.accept(changed, own)
            known.clean([*own, *(lease.id for lease in self._others)])

    def _note(self, before: TreePicture, path: str, rival: ToolUse | None, earlier: Earlier) -> None:
        lease = _holding(self._others, path)
        if lease is None:
            if _holding(self._own, path) is None:
                self._unclear.append(path) if rival else self._free.setdefault(path)
            return
        known = earlier.get((path, lease.id))
        if known is not None and known.is_undone:
            return  # the agent has restored it
        certain = rival is None and lease.id in self._recorded.held
        # else it was taken while the call ran, or another call ran as well
        (self._trespasses if certain else self._doubts).append(self._change(before, path, lease, known))

    def _change(self, before: TreePicture, path: str, lease: Lease, known: Trespass | None) -> _Change:
        """Describe a change; one that follows a trespass on the same file is undone to what was there at first."""
        if known is not None:
            return _Change(before, path, lease, known.undo, known.copy, known.original)
        copies = self._recorded.copies[before.root]
        self.uses_copies = self.uses_copies or path in copies
        found = undoing.original(before, path, copies)
        return _Change(before, path, lease, undoing.command(before, path, copies), copies.get(path, ""), found)

    def take_free(self) -> Steps[None]:
        """Lease the changed paths that nobody holds."""
        for path in list(self._free)[:TAKEN_MOST]:
            name = name_of(path)
            if self._terms.takes and isinstance(name, str):
                outcome = yield from take(name, self._terms)
                if isinstance(outcome, Granted):
                    self._taken.append(KnownLease(outcome.lease.id, name))

    def report(self) -> Steps[None]:
        """Keep each trespass until it is resolved, and tell the store's history of it."""
        by_lease: dict[str, list[str]] = {}
        for change in self._doubts:
            self._ledger(change).add(self._trespass(change)._replace(is_certain=False))
        for change in self._trespasses:
            self._ledger(change).add(self._trespass(change))
            by_lease.setdefault(change.lease.id, []).append(change.path)
        for lease, paths in by_lease.items():
            told = [f"path:{escaped(path)}" for path in paths[:TOLD_MOST]]
            yield "report_trespass", {"lease": lease, "paths": told, "by": self._terms.holder}

    def _ledger(self, change: _Change) -> Trespasses:
        tree = next(tree for tree in self._scene.trees if tree.root == change.before.root)
        return Trespasses(self._scene.shared(tree, "trespasses"))

    def _trespass(self, change: _Change) -> Trespass:
        lease = change.lease
        where = (change.before.root, change.path, " ".join(lease.resources), lease.id, lease.holder)
        return Trespass(*where, self._terms.holder, change.original, change.undo, change.copy)

    def decision(self) -> Decision:
        """Return the message for the agent, and whether it may go on."""
        parts = [self._accusation(), self._doubt(), self._unclaimed(), self._rest()]
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

    def _unclaimed(self) -> str:
        if not self._unclear:
            return ""
        names = [name for name in map(name_of, self._unclear) if isinstance(name, str)][:TOLD_MOST]
        more = len(self._unclear) - len(names)
        told = ", ".join(names) + (f" and {more} more" if more else "")
        said = f"While your call ran, {told} changed; nobody holds them, and nothing tells who changed them."
        command = f"leasehold acquire {' '.join(map(typed, names))}"
        return f"{shown(said)} Acquire those that your call changed:\n  {shown(command)}" if names else shown(said)

    def _rest(self) -> str:
        left = len(self._free) - TAKEN_MOST
        if left > 0:
            return (
                f"Your call changed {len(self._free)} files. You hold {TAKEN_MOST} of them now; {left} are not locked."
            )
        return ""

    @staticmethod
    def _with_commands(said: str, changes: Sequence[_Change]) -> str:
        asking = [f"# ask {shown(change.lease.holder)} about {shown(change.path)}" for change in changes]
        commands = [change.undo or ask for change, ask in zip(changes, asking, strict=True)]
        return "\n  ".join([shown(said), *commands[:TOLD_MOST]])


def _listed(changes: Sequence[_Change]) -> str:
    told = [f"{change.path}, held by {_named(change.lease)}" for change in changes[:TOLD_MOST]]
    more = len(changes) - TOLD_MOST
    return "; ".join([*told, f"{more} more"] if more > 0 else told)


def _named(lease: Lease) -> str:
    work = ": ".join(filter(None, (lease.name, lease.reason)))
    return f"{lease.holder} ({work})" if work else lease.holder


def _owner(terms: HookTerms) -> LeaseOwner:
    return LeaseOwner(terms.holder, terms.credential.partition(".")[0], is_hook=True)


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
