"""The counters of a server, from the events of each commit, so that every surface of this process is counted.

Labels are bounded: spaces and schemes beyond a limit are counted as `other`. `exposition` turns the counts into text.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from leasehold.domain import names
from leasehold.domain.timestamps import SECOND
from leasehold.locks.sync import LEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from leasehold.domain.events import Event
    from leasehold.locks.hosted import Served

    Labels: TypeAlias = tuple[str, ...]
    """Values of labels, in the order of their names."""
    TracedRequest: TypeAlias = tuple[str, float, float]
    """The id of its trace, its value, and when it was counted, in seconds since the epoch."""

SPACES_MOST = 50
SCHEMES_MOST = 20
SCHEME_LONGEST = 32
"""A longer one is counted as `other`."""
LABELS_KEPT = 1_000
SLOW_COMMIT: Final = 0.5
"""Seconds."""
WAIT_BUCKETS = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0)
HOLD_BUCKETS = (0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 86400.0)
REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 10.0, 60.0)
COMMIT_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 1.0)
SIZE_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024)
COUNTED: Final = {
    "granted": "leasehold_grants_total",
    "refused": "leasehold_refusals_total",
    "timeout": "leasehold_refusals_total",
    "deadlock": "leasehold_deadlocks_total",
    "expired": "leasehold_expiries_total",
    "forced": "leasehold_forced_total",
    "released": "leasehold_releases_total",
    "queued": "leasehold_waits_total",
    "trespass": "leasehold_trespasses_total",
    "planned": "leasehold_plans_total",
}
"""Which counter an event of each kind belongs to."""
TERMS: Final = "leasehold_terms_total"
CODES: Final = {"refused": "held", "timeout": "timeout"}
ENDS: Final = ("released", "expired", "forced")


class Bounded:
    """Keeps at most so many values of a label apart; the rest is `other`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        """Return the value, or `other` if there are too many."""
        if value in self._known:
            return value
        if len(self._known) < self._most:
            self._known.add(value)
            return value
        return "other"


class Histogram:
    """Counts values by size."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.exemplars: dict[Labels, dict[int, TracedRequest]] = {}
        """By labels and bucket: the latest request with a trace."""
        self.series: dict[Labels, list[float]] = {}
        """By labels: how many values each bucket alone has, how many there are in all, and their sum."""

    def add(self, value: float, labels: Labels = ()) -> None:
        """Count one."""
        series = self.series.get(labels)
        if series is None:
            series = self.series[labels] = [0.0] * (len(self.bounds) + 2)
        place = bisect_left(self.bounds, value)
        if place < len(self.bounds):
            series[place] += 1
        series[-2] += 1
        series[-1] += value

    def show(self, value: float, labels: Labels, trace: str, at: float) -> None:
        """Keep this value, which was counted, as the exemplar of its bucket."""
        self.exemplars.setdefault(labels, {})[bisect_left(self.bounds, value)] = (trace, value, at)


class StoreState:
    """Figures of the whole store at a scrape, by space and scheme; every server of a store has the same."""

    def __init__(
        self, held: dict[Labels, int], holds: dict[Labels, float], waits: dict[Labels, float], round_trip: float
    ) -> None:
        self.held = held
        self.holds = holds
        """The age of the oldest lease, in seconds."""
        self.waits = waits
        """The age of the oldest waiting request, in seconds."""
        self.round_trip = round_trip
        """Seconds that one read of the store took."""


class Metrics:
    """The counters and histograms of one server."""

    def __init__(self, served: Served, slow_commit: Callable[[int, float], None]) -> None:
        self._served = served
        self._slow_commit = slow_commit
        self.counts: dict[str, dict[Labels, int]] = {name: {} for name in (*COUNTED.values(), TERMS)}
        """By space and scheme; refusals also by code."""
        self.problems: dict[Labels, int] = {}
        """By code."""
        self.webhooks: dict[Labels, int] = {}
        """By hook and outcome."""
        self.backlogs: dict[Labels, int] = {}
        """Events that each hook has yet to deliver, of those that it has read."""
        self.handed_on: dict[Labels, int] = {}
        """By outcome."""
        self.lanes = 0
        """How many lanes this server owns."""
        self.owners: dict[Labels, int] = {}
        """1 for each lane and the address of its owner, as far as this server knows."""
        self.waits = Histogram(WAIT_BUCKETS)
        self.holds = Histogram(HOLD_BUCKETS)
        self.requests = Histogram(REQUEST_BUCKETS)
        """By verb and status."""
        self.store_state = StoreState({}, {}, {}, 0.0)
        """As of the last scrape."""
        self.sizes = Histogram(SIZE_BUCKETS)
        self.commits = Histogram(COMMIT_BUCKETS)
        self._queued: set[Labels] = set()
        self._space = Bounded(SPACES_MOST)
        self._scheme = Bounded(SCHEMES_MOST)
        self._labelled: dict[tuple[str, str], Labels] = {}
        """Labels by space and scheme: they do not change once they were given."""
        served.watch(self.observe)
        served.measure(self.measure)

    def refused(self, code: str) -> None:
        """Count a request that was answered with a problem; codes are few."""
        self.problems[code,] = self.problems.get((code,), 0) + 1

    def webhook(self, hook: str, outcome: str) -> None:
        """Count an attempt to reach a receiver; hooks are few."""
        self.webhooks[hook, outcome] = self.webhooks.get((hook, outcome), 0) + 1

    def backlog(self, hook: str, length: int) -> None:
        """Note how many events a hook has yet to deliver."""
        self.backlogs[hook,] = length

    def handed(self, outcome: str) -> None:
        """Count a request that was handed on to another server."""
        self.handed_on[outcome,] = self.handed_on.get((outcome,), 0) + 1

    def measure(self, size: int, seconds: float) -> None:
        """Count a transaction, and report a slow one."""
        self.sizes.add(size)
        self.commits.add(seconds)
        if seconds > SLOW_COMMIT:
            self._slow_commit(size, seconds)

    def observe(self, events: Sequence[Event]) -> None:
        """Count what was committed."""
        for kind, at, space, resources, _holder, _session, _lease, _fence, detail, _seq in events:
            counted = COUNTED.get(kind)
            if counted is None:
                continue
            labels = self.labels(space, resources[0] if resources else "")
            if kind == "granted":
                waited = detail.get("waited")
                if isinstance(waited, int) and waited:
                    self.waits.add(waited / SECOND, labels)
                if detail.get("name") == LEADER:
                    self.counts[TERMS][labels] = self.counts[TERMS].get(labels, 0) + 1
            elif kind in ENDS:
                since = detail.get("acquired_at")
                if isinstance(since, int):
                    self.holds.add((at - since) / SECOND, labels)
            elif kind == "queued" and detail.get("again"):
                continue  # a client with a ticket, whose wait was counted before
            if kind in CODES:
                labels = (*labels, CODES[kind])
            counts = self.counts[counted]
            counts[labels] = counts.get(labels, 0) + 1

    def labels(self, space: str, name: str) -> Labels:
        """Return the space and the scheme of a name, as they are counted."""
        head, colon, _ = name.partition(":")
        known = self._labelled.get((space, head if colon else ""))
        return known if known is not None else self._new_labels(space, names.scheme(name))

    def _new_labels(self, space: str, scheme: str) -> Labels:
        """Keep labels by scheme, not by the text before a colon: in plain names that text is unbounded."""
        known = self._labelled.get((space, scheme))
        if known is not None:
            return known
        shown = "plain"
        if scheme:
            shown = self._scheme(scheme) if len(scheme) <= SCHEME_LONGEST else "other"
        if len(self._labelled) >= LABELS_KEPT:
            self._labelled.clear()
        labels = self._labelled[space, scheme] = (self._space(space), shown)
        return labels

    def queue_lengths(self) -> dict[Labels, int]:
        """Count waiting requests, with 0 where none waits any more: a series that vanishes looks like a failure."""
        lengths = dict.fromkeys(self._queued, 0)
        for space, name in self._served.queues():
            labels = self.labels(space, name)
            lengths[labels] = lengths.get(labels, 0) + 1
        self._queued = set(lengths)
        return lengths
