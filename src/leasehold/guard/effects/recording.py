"""Records of the trees before a tool call, kept in the private directory of that call until its effects are judged."""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH103, PTH118, PTH123

from __future__ import annotations

import json
import os

from leasehold.domain.nouns import Noun
from leasehold.guard.effects import picture
from leasehold.guard.effects.trees import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.guard.effects.picture import TreePicture

FILE = "before.json"
"""In the private directory of a call: what was recorded before it."""


class Recorded(Noun):
    """The trees as they were before a call, and the leases that others held."""

    trees: tuple[Tree, ...]
    pictures: list[TreePicture]
    copies: dict[str, dict[str, str]]
    """By the root of a tree and the path in it, where a copy of a held file is."""
    held: frozenset[str]
    """The ids of others' leases."""
    watched: tuple[str, ...]
    is_over: bool = False
    """True if the call has ended, and may have left something running."""


def save(private: str, recorded: Recorded) -> None:
    """Keep this in the private directory of a call."""
    os.makedirs(private, 0o700, exist_ok=True)
    document = {
        "trees": [tuple(tree) for tree in recorded.trees],
        "pictures": [picture.to_json(each) for each in recorded.pictures],
        "copies": recorded.copies,
        "held": sorted(recorded.held),
        "watched": recorded.watched,
        "is_over": recorded.is_over,
    }
    path = os.path.join(private, FILE)
    with open(f"{path}.draft", "w", encoding="ascii") as file:
        json.dump(document, file)
    os.replace(f"{path}.draft", path)  # noqa: PTH105 (see the module)


def load(private: str) -> Recorded:
    """Return what `save` kept there."""
    with open(os.path.join(private, FILE), encoding="ascii") as file:
        document = json.load(file)
    trees = tuple(Tree(*each) for each in document["trees"])
    pictures = [picture.from_json(each) for each in document["pictures"]]
    watched, is_over = tuple(document["watched"]), document["is_over"]
    return Recorded(trees, pictures, document["copies"], frozenset(document["held"]), watched, is_over)


def is_recorded(private: str) -> bool:
    """Return True if something is kept there."""
    return os.path.exists(os.path.join(private, FILE))  # noqa: PTH110 (see the module)


def trees_in(privates: Sequence[str]) -> tuple[Tree, ...]:
    """Return the trees that are recorded in these private directories."""
    return tuple(tree for private in privates if is_recorded(private) for tree in load(private).trees)
