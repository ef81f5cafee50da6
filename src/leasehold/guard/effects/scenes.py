"""Where one tool call takes effect, and the note that it is about to write.

It imports almost nothing: an edit waits for its hook.
"""

from __future__ import annotations

from leasehold.domain.nouns import Noun
from leasehold.guard.effects.calls import Register, ToolUse
from leasehold.guard.effects.trees import shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leasehold.guard.effects.trees import Tree


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
    earlier: tuple[tuple[str, str], ...] = ()
    """The agent's calls that are not over: the id and the private directory of each."""

    def shared(self, tree: Tree, what: str) -> str:
        """Return the directory in which all agents of a tree keep this."""
        return shared(tree, what, self.state)


def announce(scene: Scene, said: Mapping[str, Sequence[str]], holder: str, *, is_edit: bool = False) -> None:
    """Note that a call is about to write these paths, so that no other agent is blamed for it.

    `is_edit`: it is a file tool, which writes nothing else.
    """
    for tree in scene.trees:
        register = Register(scene.shared(tree, "calls"))
        said_here = tuple(said.get(tree.root, ()))
        began = register.now()
        register.write(ToolUse(scene.call, scene.session, holder, began, said=said_here, is_edit=is_edit))


def withdraw(scene: Scene) -> None:
    """Forget that a call was announced: it will not run."""
    for tree in scene.trees:
        Register(scene.shared(tree, "calls")).withdraw(scene.call)
