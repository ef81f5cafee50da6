"""Judge what a tool call changed: which paths become the agent's leases, and which are another agent's.

The paths that nobody holds become leases of the agent, as with its first edit. A path that another agent holds is a
trespass: it is reported to the agent, to the holder and in the history, and git's hooks refuse it until it is resolved.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH112

from __future__ import annotations

import os

from leasehold.domain.names import shown
from leasehold.domain.nouns import Noun
from leasehold.domain.outcomes import Granted
from leasehold.domain.patterns import escaped
from leasehold.guard.checking import ROOT, WARN, LeaseOwner, concerns, is_of_hook, name_of, typed
from leasehold.guard.editors.decision import Decision, KnownLease, take
from leasehold.guard.effects import calls, comparing, undoing
from leasehold.guard.effects.calls import Register, ToolUse
from leasehold.guard.effects.trespasses import Trespass, Trespasses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from leasehold.domain.leases import Lease
    from leasehold.guard.editors.decision import HookTerms
    from leasehold.guard.effects.picture import State, TreePicture
    from leasehold.guard.effects.recording import Recorded
    from leasehold.guard.effects.scenes import Scene
    from leasehold.guard.effects.trees import Tree
    from leasehold.steps import Steps

    Earlier: TypeAlias = Mapping[tuple[str, str], Trespass]
    """Trespasses of one agent, by path and lease."""

TAKEN_MOST = 256
"""Of more free paths than this, changed by one call, the rest is not leased, and a message says so."""
TOLD_MOST = 10
"""Paths that are named in one message; more are counted."""

_ELSE = (0, 0, 0, 0)
"""The state of no file."""


class CallWords(Noun):
    """Words for the call in messages."""

    call: str = "Your call"
    since: str = "While your call ran"
    only_if: str = "Only if your call did"


ENDED = CallWords()
UNENDED = CallWords("An earlier call of yours, whose end was not reported,")
LEFT_RUNNING = CallWords("", "Since an earlier call of yours", "Only if something that it left running did")


class _HeldFile(Noun):
    """One path that changed, with the lease of another agent that covers it."""

    root: str
    path: str
    lease: Lease
    undo: str
    """The shell command that restores it; empty if only the holder can."""
    copy: str
    """The file that this command copies from, or nothing."""
    original: str | None
    """See `Trespass.original`."""
    left: State
    """See `Trespass.left`."""


class _ChangedFile(Noun):
    """A file that changed while a call ran, and what is known of it."""

    root: str
    path: str
    before: TreePicture
    state: State
    kept: str
    """A copy of the file as another agent's call has left it meanwhile, or nothing."""
    is_gone: bool
    """True if git cannot read the tree any more."""


class Judging:
    """Sort the changes of one call: trespasses, free paths, and those that another call may have made."""

    def __init__(
        self, scene: Scene, terms: HookTerms, recorded: Recorded, leases: Sequence[Lease], words: CallWords = ENDED
    ) -> None:
        self._scene = scene
        self._terms = terms
        self._recorded = recorded
        self._words = words
        owner = owner_of(terms)
        self._own = [lease for lease in leases if owner.owns(lease)]
        self._others = [lease for lease in leases if not owner.owns(lease)]
        self._free: dict[str, _ChangedFile] = {}
        self._trespasses: list[_HeldFile] = []
        self._doubts: list[_HeldFile] = []
        self._unclear: list[_ChangedFile] = []
        """Free paths that several calls may have changed."""
        self._taken: list[KnownLease] = []
        self._unseen: dict[str, None] = {}
        """The holders in whose favour nothing is known here of what they do themselves."""
        self.uses_copies = False

    def judge(self, tree: Tree, before: TreePicture, after: TreePicture, *, is_open: bool = False) -> None:
        """Sort the changes in one tree: those of this call, of others, and those that several calls may have made.

        A call that is still open may change more; what it changed so far is on record as its own.
        """
        register = Register(self._scene.shared(tree, "calls"))
        mine = register.read(self._scene.call)
        if mine is None and self._words is ENDED:  # it took more than an hour, or moved the repository away
            mine = ToolUse(self._scene.call, self._scene.session, self._terms.holder, began=0)
        if mine is None:
            return
        if self._words is LEFT_RUNNING:
            mine = mine._replace(ended=None)
        others = register.others(mine)
        judged = [] if self._words is ENDED else register.judged(mine)
        known = on_record(self._scene, tree)
        earlier = {} if known is None else known.of_agent(self._terms.holder)
        left = {}
        for path in comparing.changed(before, after):
            state = comparing.state_in(after, path)
            whose, rival = calls.attributed(path, state, mine, others)
            if whose == calls.THEIRS or any(call.left.get(path, _ELSE) == state for call in judged):
                continue
            if whose == calls.MINE and self._words is not LEFT_RUNNING:
                left[path] = state
            kept = _kept(register, path, others)
            file = _ChangedFile(tree.root, path, before, state, kept, is_gone=not after.is_readable)
            self._note(file, rival, earlier, register)
        register.keep(mine, tree.root, left)
        ended = None if is_open else register.now()
        register.write(mine._replace(ended=ended, left={**mine.left, **left}))
        self._resolve(tree, left, mine.began)

    def _resolve(self, tree: Tree, changed: Collection[str], since: int) -> None:
        """Forget trespasses that are resolved. One that is younger than this call may be on a lease that is, too."""
        known = on_record(self._scene, tree)
        if known is not None:
            own = [lease.id for lease in self._own]
            known.accept(changed, own)
            known.clean([*own, *(lease.id for lease in self._others)], since)

    def _note(self, file: _ChangedFile, rival: ToolUse | None, earlier: Earlier, register: Register) -> None:
        is_left = self._words is LEFT_RUNNING
        lease = holding(self._others, file.path)
        if lease is None:
            if holding(self._own, file.path) is None and not is_left:
                self._unclear.append(file) if rival else self._free.setdefault(file.path, file)
            return
        known = earlier.get((file.path, lease.id))
        if known is not None and known.is_undone:
            return  # the agent has restored it
        change = self._held(file, lease, known)
        if rival is None and lease.id in self._recorded.held and not is_left:
            self._trespasses.append(change)
            if not is_of_hook(lease.session) and not register.knows(lease.holder):
                self._unseen.setdefault(lease.holder)
        else:  # it was taken while the call ran, or another call ran as well
            self._doubts.append(change)

    def _held(self, file: _ChangedFile, lease: Lease, known: Trespass | None) -> _HeldFile:
        """Describe a change; one that follows a trespass on the same file is undone to what was there at first."""
        _, path, before, state, kept, is_gone = file
        where = (before.root, path, lease)
        if known is not None:
            return _HeldFile(*where, known.undo, known.copy, known.original, state)
        copies = self._recorded.copies.get(before.root, {})
        self.uses_copies = self.uses_copies or path in copies
        if is_gone:  # git cannot restore anything in there
            return _HeldFile(*where, "", copies.get(path, ""), None, state)
        copies = {**copies, path: kept} if kept else copies
        found = undoing.original(before, path, copies)
        return _HeldFile(*where, undoing.command(before, path, copies), copies.get(path, ""), found, state)

    def take_free(self) -> Steps[None]:
        """Lease the changed paths that nobody holds. One that another agent has just acquired is held by that one."""
        too_late: list[_ChangedFile] = []
        for path, file in list(self._free.items())[:TAKEN_MOST]:
            name = name_of(path)
            if self._terms.takes and isinstance(name, str):
                outcome = yield from take(name, self._terms)
                if isinstance(outcome, Granted):
                    self._taken.append(KnownLease(outcome.lease.id, name))
                else:
                    too_late.append(file)
        if too_late or self._unclear:
            seen = yield "inspect", {"resource": ROOT}
            owner = owner_of(self._terms)
            others = [lease for lease in seen.leases if not owner.owns(lease)]
            found = [(file, holding(others, file.path)) for file in (*too_late, *self._unclear)]
            self._doubts += [self._held(file, lease, None) for file, lease in found if lease is not None]
            self._unclear = [file for file in self._unclear if holding(others, file.path) is None]

    def report(self) -> Steps[None]:
        """Record each trespass until it is resolved, and report it to the store's history."""
        by_lease: dict[str, list[str]] = {}
        for change in self._doubts:
            self._ledger(change).add(self._trespass(change)._replace(is_certain=False))
        for change in self._trespasses:
            self._ledger(change).add(self._trespass(change))
            by_lease.setdefault(change.lease.id, []).append(change.path)
        for lease, paths in by_lease.items():
            told = [f"path:{escaped(path)}" for path in paths[:TOLD_MOST]]
            yield "report_trespass", {"lease": lease, "paths": told, "by": self._terms.holder}

    def _ledger(self, change: _HeldFile) -> Trespasses:
        tree = next(tree for tree in self._scene.trees if tree.root == change.root)
        return Trespasses(self._scene.shared(tree, "trespasses"))

    def _trespass(self, change: _HeldFile) -> Trespass:
        lease = change.lease
        where = (change.root, change.path, " ".join(lease.resources), lease.id, lease.holder)
        return Trespass(*where, self._terms.holder, change.original, change.undo, change.copy, left=change.left)

    def decision(self) -> Decision:
        """Return the message for the agent, and whether it may go on."""
        parts = [self._accusation(), self._doubt(), self._unclaimed(), self._rest()]
        message = "\n".join(filter(None, parts))
        allowed = not self._trespasses or self._terms.policy == WARN
        return Decision(allowed, message, taken=tuple(self._taken))

    def _accusation(self) -> str:
        if not self._trespasses:
            return ""
        said = f"{self._words.call} changed what others hold: {_listed(self._trespasses)}."
        way = f"Careful: {said} To restore it:" if self._terms.policy == WARN else f"{said} Undo this before you go on:"
        return "\n".join([_with_commands(way, self._trespasses), *map(_of_unseen, self._unseen)])

    def _doubt(self) -> str:
        if not self._doubts:
            return ""
        said = f"{self._words.since}, these changed, and it is not known who changed them: {_listed(self._doubts)}."
        return _with_commands(f"{said} {self._words.only_if}, restore them:", self._doubts)

    def _unclaimed(self) -> str:
        if not self._unclear:
            return ""
        found = (name_of(file.path) for file in self._unclear)
        names = [name for name in found if isinstance(name, str)][:TOLD_MOST]
        more = len(self._unclear) - len(names)
        told = ", ".join(names) + (f" and {more} more" if more else "")
        said = f"{self._words.since}, {told} changed; nobody holds them, and it is not known who changed them."
        command = f"leasehold acquire {' '.join(map(typed, names))}"
        return f"{shown(said)} Acquire those that your call changed:\n  {shown(command)}" if names else shown(said)

    def _rest(self) -> str:
        left = len(self._free) - TAKEN_MOST
        if left > 0:
            return (
                f"Your call changed {len(self._free)} files. You hold {TAKEN_MOST} of them now; {left} are not locked."
            )
        return ""


def on_record(scene: Scene, tree: Tree) -> Trespasses | None:
    """Return the trespasses that are on record for a tree; None if it never had one."""
    directory = scene.shared(tree, "trespasses")
    return Trespasses(directory) if os.path.isdir(directory) else None


def _kept(register: Register, path: str, others: Iterable[ToolUse]) -> str:
    """Return a copy of the file as another agent's call has left it last, if there is one."""
    left = [call for call in others if path in call.left and register.kept(call, path)]
    return register.kept(max(left, key=lambda call: call.ended or 0), path) if left else ""


def owner_of(terms: HookTerms) -> LeaseOwner:
    """Return the agent of these terms as an owner of leases."""
    return LeaseOwner(terms.holder, terms.credential.partition(".")[0], is_hook=True)


def holding(leases: Iterable[Lease], path: str) -> Lease | None:
    """Return the lease that covers this file, if there is one."""
    name = name_of(path)
    wanted = name if isinstance(name, str) else name.folder
    return next((lease for lease in leases if concerns(lease.resources, wanted)), None)


def _of_unseen(holder: str) -> str:
    told = f"What {holder} changes itself is not recorded here: if {holder} changed it meanwhile, leave it as it is."
    return shown(told)


def _with_commands(said: str, changes: Sequence[_HeldFile]) -> str:
    asking = [f"# ask {shown(change.lease.holder)} about {shown(change.path)}" for change in changes]
    commands = [change.undo or ask for change, ask in zip(changes, asking, strict=True)]
    return "\n  ".join([shown(said), *commands[:TOLD_MOST]])


def _listed(changes: Sequence[_HeldFile]) -> str:
    told = [f"{change.path}, held by {_named(change.lease)}" for change in changes[:TOLD_MOST]]
    more = len(changes) - TOLD_MOST
    return "; ".join([*told, f"{more} more"] if more > 0 else told)


def _named(lease: Lease) -> str:
    work = ": ".join(filter(None, (lease.name, lease.reason)))
    return f"{lease.holder} ({work})" if work else lease.holder
