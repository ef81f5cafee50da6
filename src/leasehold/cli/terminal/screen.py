"""The screen of `watch`: its lines, and the effect of each key. It does no I/O: the state of the locks is passed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.cli.output import clock
from leasehold.cli.terminal.columns import counted, cut, table
from leasehold.domain import durations
from leasehold.domain.names import shown
from leasehold.domain.nouns import Noun
from leasehold.wire import shapes as wire

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leasehold.domain.events import Event
    from leasehold.domain.leases import Lease, Waiting

ORDERS = ("resource", "holder", "left", "newest")
_KEYS: dict[str, Callable[[Lease], Any]] = {
    "resource": lambda lease: (lease.resources, lease.fence),
    "holder": lambda lease: (lease.holder, lease.resources),
    "left": lambda lease: (lease.expires_us, lease.fence),
    "newest": lambda lease: -lease.fence,
}
HELP = "s sort  r reverse  / filter  ↑↓ choose  enter details  q quit"
TALL = 16
"""Lines of a terminal from which on the keys are shown, too."""
HEADS = ("RESOURCE", "HOLDER", "MODE", "LEFT", "FENCE", "QUEUE", "WORK")
ROOMY, WIDE, NARROW = 100, 64, 40
ALL_COLUMNS: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
SOME_COLUMNS: tuple[int, ...] = (0, 1, 3, 5)
FEW_COLUMNS: tuple[int, ...] = (0, 3)
BAR = 8


class ScreenSnapshot(Noun):
    """The state of the locks at one moment."""

    now: int
    leases: tuple[Lease, ...]
    waiting: dict[str, Waiting]
    queues: dict[str, frozenset[str]]
    """Lease id to the ids of its waiters, which may want other, overlapping names."""
    is_all: bool
    """True if `waiting` is complete."""

    @property
    def more(self) -> str:
        """`+` after the number of waiters, if there are more than these."""
        return "" if self.is_all else "+"


class Details(Noun):
    """One lease with its queue and its last events."""

    lease: Lease
    waiting: tuple[Waiting, ...]
    events: tuple[Event, ...]


class Screen:
    """The state of the table: order, filter, chosen line."""

    def __init__(self) -> None:
        self.order = ORDERS[0]
        self.reverse = False
        self.filter = ""
        self.typing = False
        self.chosen: str | None = None
        self.details: str | None = None
        """The id of the lease whose details are shown."""
        self.is_over = False
        self._top = 0
        self._listed: list[Lease] = []

    # --------------------------------------------------------------------------------------------- keys

    def press(self, key: str) -> None:
        """Handle one key."""
        if self.typing:
            self._type(key)
        elif key == "q":
            self.is_over = self.details is None
            self.details = None
        elif key == "escape":  # leaves the details; in the table, clears the filter
            self.filter = self.filter if self.details is not None else ""
            self.details = None
        elif key == "s":
            self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        elif key == "r":
            self.reverse = not self.reverse
        elif key == "/":
            self.typing, self.details = True, None
        elif key == "enter":
            self.details = self.chosen
        else:
            self._move(key)

    def _type(self, key: str) -> None:
        if key == "enter":
            self.typing = False
        elif key == "escape":
            self.typing, self.filter = False, ""
        elif key == "back":
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter += key

    def _move(self, key: str) -> None:
        if not self._listed:
            return
        ids = [lease.id for lease in self._listed]
        at = ids.index(self.chosen) if self.chosen in ids else -1
        steps = {"down": 1, "j": 1, "up": -1, "k": -1, "page-down": 10, "page-up": -10, "home": -at, "end": len(ids)}
        if key in steps:
            self.chosen = ids[min(len(ids) - 1, max(0, at + steps[key]))]

    # -------------------------------------------------------------------------------------------- lines

    def lines(
        self, seen: ScreenSnapshot, when: str, width: int, height: int, details: Details | None = None
    ) -> list[str]:
        """Return the lines of the whole screen, no wider and no higher than the terminal."""
        leases = self._list(seen.leases)
        waiting = [each for each in seen.waiting.values() if self._fits(each.holder, each.resources, each.name)]
        foot = [HELP] if height >= TALL else []
        room = max(2, height - 1 - len(foot))
        head = f"{when}  {counted(len(leases), 'lease')}, {len(waiting)}{seen.more} waiting{self._told()}"
        if details is not None:
            body = _within([head, *_detailed(details, seen.now)], room)
        else:
            body = self._table(head, leases, seen, waiting, width, room)
        return [cut(line, width) for line in [*body, *foot]]

    def _told(self) -> str:
        """Describe the order and filter, unless they are the defaults."""
        is_usual = self.order == ORDERS[0] and not self.reverse
        order = "" if is_usual else f"  by {self.order}{' ↑' if self.reverse else ''}"
        wanted = f"  /{shown(self.filter)}{'_' if self.typing else ''}" if self.filter or self.typing else ""
        return order + wanted

    def _fits(self, holder: str, resources: tuple[str, ...], name: str | None) -> bool:
        wanted = self.filter.lower()
        return not wanted or wanted in "\n".join((holder, *resources, name or "")).lower()

    def _list(self, leases: tuple[Lease, ...]) -> list[Lease]:
        found = [lease for lease in leases if self._fits(lease.holder, lease.resources, lease.name)]
        self._listed = sorted(found, key=_KEYS[self.order], reverse=self.reverse)
        if self.chosen not in {lease.id for lease in self._listed}:
            self.chosen = None
        return self._listed

    def _table(
        self, head: str, leases: list[Lease], seen: ScreenSnapshot, waiting: list[Waiting], width: int, room: int
    ) -> list[str]:
        if not leases:
            return _within([head, "No live leases." if not self.filter else "Nothing fits.", *_queue(waiting)], room)
        queues = queues_of(leases, seen)
        # The widest cell sets the width of its column, so all lines are laid out at once.
        marks = ["▸ " if lease.id == self.chosen else "" for lease in leases]
        made = lease_rows(leases, queues, marks, width).splitlines()
        top = self._scroll(leases, room - 2)
        return _within([head, made[0], *made[1 + top :], *_queue(waiting)], room)

    def _scroll(self, leases: list[Lease], room: int) -> int:
        """Return the first shown line, such that the chosen one is visible."""
        at = next((place for place, lease in enumerate(leases) if lease.id == self.chosen), None)
        if at is None:
            self._top = 0
        else:
            self._top = max(min(self._top, at), at - max(1, room - 1) + 1, 0)
        return self._top


def lease_rows(leases: list[Lease], queues: dict[str, int], marks: list[str], width: int | None) -> str:
    """Return a table of leases; a narrow terminal gets fewer columns rather than cut ones."""
    keep = ALL_COLUMNS
    if width is not None and width < WIDE:
        keep = SOME_COLUMNS if width >= NARROW else FEW_COLUMNS
    with_bar = width is None or width >= ROOMY
    rows = [_cells(lease, queues, mark, with_bar=with_bar) for lease, mark in zip(leases, marks, strict=True)]
    return table([tuple(row[at] for at in keep) for row in rows], tuple(HEADS[at] for at in keep), width)


def _cells(lease: Lease, queues: dict[str, int], mark: str, *, with_bar: bool) -> tuple[str, ...]:
    left = max(0, lease.expires_us - lease.as_of_us)
    waiting = queues.get(lease.id, 0)
    return (
        mark + " ".join(lease.resources),
        lease.holder,
        lease.mode if lease.mode != "slots" else f"slots {lease.slots}",
        (f"{bar(left, lease.ttl_us)} " if with_bar else "") + durations.in_seconds(left),
        str(lease.fence),
        str(waiting) if waiting else "",
        lease.name or "",
    )


def queue_of(lease: Lease, seen: ScreenSnapshot) -> list[Waiting]:
    """Return the waiters for one of the lease's names, or for the lease itself."""
    behind = seen.queues.get(lease.id, frozenset())
    return [it for it in seen.waiting.values() if it.id in behind or not set(lease.resources).isdisjoint(it.resources)]


def queues_of(leases: list[Lease], seen: ScreenSnapshot) -> dict[str, int]:
    """Count the waiters of each lease in one pass: there may be thousands of leases."""
    named: dict[str, set[str]] = {}
    for it in seen.waiting.values():
        for name in it.resources:
            named.setdefault(name, set()).add(it.id)
    nobody = frozenset[str]()
    return {
        lease.id: len(seen.queues.get(lease.id, nobody).union(*(named.get(name, nobody) for name in lease.resources)))
        for lease in leases
    }


def bar(left: int, ttl: int) -> str:
    """Draw how much of its TTL a lease has left."""
    full = min(BAR, -(-left * BAR // max(1, ttl)))
    return "█" * full + "░" * (BAR - full)


def _queue(waiting: list[Waiting]) -> list[str]:
    return [
        f"  waiting {each.position}. {shown(each.holder)} for {shown(' '.join(each.resources))}" for each in waiting
    ]


def _detailed(it: Details, now: int) -> list[str]:
    """Return the lines of the view of one lease: its fields, its queue and its latest events."""
    lease = it.lease
    pairs = (
        ("resource", " ".join(lease.resources)),
        ("holder", lease.holder),
        ("work", lease.name),
        ("reason", lease.reason),
        ("mode", lease.mode),
        ("fence", str(lease.fence)),
        ("since", clock(lease.acquired_us, now)),
        ("until", clock(lease.expires_us, now)),
        ("lease", lease.id),
        ("session", lease.session),
        ("space", lease.space),
        ("context", lease.context),
    )
    lines = ["", *(f"  {name:<9} {shown(value)}" for name, value in pairs if value), ""]
    lines += [
        f"  queue     {each.position}. {shown(each.holder)}, since {clock(each.since_us, now)}" for each in it.waiting
    ]
    lines += [] if it.waiting else ["  queue     nobody waits"]
    lines.append("")
    return lines + [
        f"  {(wire.rfc3339(one.at_us) or '')[11:19]}  {one.kind:<10} {shown(one.holder)}" for one in it.events
    ]


def _within(lines: list[str], room: int) -> list[str]:
    """Return as many lines as there is room for; the last says how many are missing."""
    return lines if len(lines) <= room else [*lines[: room - 1], f"… and {len(lines) - room + 1} more"]
