"""A process that commits what was planned: ``python -m tests.stores.sqlite.journal_victim PATH STEP MANNER``.

It has stayed for a while when it becomes dangerous: from then on each write and sync is a step, and it kills itself at
the one it was told, be it of a row of the journal, of a fold, or of closing.
"""

from __future__ import annotations

import sys

from leasehold.domain.entries import Drop, Put, Ref
from leasehold.stores.sqlite import SqliteStore, database, event_rows, journal, journal_rows
from tests.faults.victim import Fuse, arm
from tests.kit.samples import event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.domain.events import Event

STAYS = 2
FULL = 11
COMMITS = 12


def planned(number: int) -> tuple[list[Put | Drop], list[Event]]:
    """What commit number so-and-so does: something stays, something is dropped soon, something is written again."""
    changes: list[Put | Drop] = [
        Put("na", Ref(f"stays{number}")),
        Put("nb", Ref(f"goes{number}")),
        Put("ac", Ref("again")),
    ]
    if number:
        changes.append(Drop("nb", f"goes{number - 1}"))
    return changes, [event("granted", f"thing {number}", at=number)] * (number % 3)


def main(path: str, at: str, manner: str) -> None:
    """Say how many commits are done after each; at the very end how many steps there were."""
    database.LASTING, database.ALONE, journal.FULL = STAYS, 0, FULL
    vars(event_rows)["EVENTS_MOST"] = vars(journal_rows)["EVENTS_MOST"] = 2
    fuse = Fuse(int(at), manner)
    disk = arm(fuse)
    store = SqliteStore(path)
    for number in range(COMMITS):
        fuse.is_armed = number >= STAYS
        turn = store.begin()
        changes, events = planned(number)
        turn.load(change.key for change in changes)
        turn.commit(changes, events, turn.fence + 1)
        turn.close()
        print(number + 1, flush=True)
    store.close()
    print(fuse.steps, disk.__class__.__name__, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
