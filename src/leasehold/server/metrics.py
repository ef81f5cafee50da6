"""Prometheus text: counted from the events of each commit, so that every surface of this process is in it.

Labels are bounded: after so many spaces, further ones are counted as `other`; schemes likewise.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from leasehold import names
from leasehold.model import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasehold.model import Event
    from leasehold.served import Served

SPACES_MOST = 50
SCHEMES_MOST = 20
SCHEME_LONGEST = 32
"""A longer one is counted as `other`."""
LABELS_KEPT = 1_000
WAIT_BUCKETS = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0)
HOLD_BUCKETS = (0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 86400.0)
COMMIT_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 1.0)
SIZE_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024)
COUNTED: Final = {
    "granted": ("leasehold_grants_total", "Leases given."),
    "refused": ("leasehold_refusals_total", "Tries that were refused because somebody else has it."),
    "timeout": ("leasehold_refusals_total", ""),
    "deadlock": ("leasehold_deadlocks_total", "Requests that would have closed a cycle."),
    "expired": ("leasehold_expiries_total", "Leases that ran out."),
    "forced": ("leasehold_forced_total", "Leases that an admin ended."),
    "released": ("leasehold_releases_total", "Leases given back."),
    "queued": ("leasehold_waits_total", "Requests that had to wait."),
}
CODES: Final = {"refused": "held", "timeout": "timeout"}
ENDS: Final = ("released", "expired", "forced")


class Bounded:
    """At most so many different values of a label; the rest is `other`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        """The value, if it may be one of its own."""
        if value in self._known:
            return value
        if len(self._known) < self._most:
            self._known.add(value)
            return value
        return "other"


class Histogram:
    """How often what took how long."""

    def __init__(self, name: str, says: str, buckets: Sequence[float]) -> None:
        self._name = name
        self._says = says
        self._bounds = buckets
        self._series: dict[str, list[float]] = {}

    def add(self, value: float, labels: str = "") -> None:
        """Count one."""
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = [0.0] * (len(self._bounds) + 2)
        place = bisect_left(self._bounds, value)
        if place < len(self._bounds):
            series[place] += 1  # of this bucket alone: they are added up when somebody looks
        series[-2] += 1
        series[-1] += value

    def lines(self) -> Iterable[str]:
        """Its text, with every digit: a rate is the difference of two large numbers."""
        yield f"# HELP {self._name} {self._says}"
        yield f"# TYPE {self._name} histogram"
        for labels, series in self._series.items():
            more = labels + "," if labels else ""
            for bound, count in zip(self._bounds, accumulate(series), strict=False):
                yield f'{self._name}_bucket{{{more}le="{bound:g}"}} {int(count)}'
            yield f'{self._name}_bucket{{{more}le="+Inf"}} {int(series[-2])}'
            braced = f"{{{labels}}}" if labels else ""
            yield f"{self._name}_count{braced} {int(series[-2])}"
            yield f"{self._name}_sum{braced} {series[-1]!r}"


class Metrics:
    """Everything that is counted."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._counts: dict[str, dict[str, int]] = {name: {} for name, _ in COUNTED.values()}
        self._problems: dict[str, int] = {}
        self._webhooks: dict[str, int] = {}
        self._queued: set[str] = set()
        self._space = Bounded(SPACES_MOST)
        self._scheme = Bounded(SCHEMES_MOST)
        self._labelled: dict[tuple[str, str], str] = {}
        """Labels by space and scheme: they do not change once they were given."""
        self._waits = Histogram("leasehold_wait_seconds", "How long granted requests had waited.", WAIT_BUCKETS)
        self._holds = Histogram("leasehold_hold_seconds", "How long leases were held.", HOLD_BUCKETS)
        self._sizes = Histogram("leasehold_commit_batch_size", "Commands in one transaction.", SIZE_BUCKETS)
        self._commits = Histogram("leasehold_commit_seconds", "How long one transaction took.", COMMIT_BUCKETS)
        served.watchers.append(self.observe)
        served.measure(self.measure)

    def refused(self, code: str) -> None:
        """One request that was answered with a problem; codes are few."""
        self._problems[code] = self._problems.get(code, 0) + 1

    def webhook(self, hook: str, outcome: str) -> None:
        """One try to tell a receiver; there are few of them."""
        labels = f'hook="{_escaped(hook)}",outcome="{outcome}"'
        self._webhooks[labels] = self._webhooks.get(labels, 0) + 1

    def measure(self, size: int, seconds: float) -> None:
        """One transaction."""
        self._sizes.add(size)
        self._commits.add(seconds)

    def observe(self, events: Sequence[Event]) -> None:
        """Count what was committed."""
        # Fields all at once, here too (see `wire.lease_values`).
        for kind, at, space, resources, _holder, _session, _lease, _fence, detail, _seq in events:
            counted = COUNTED.get(kind)
            if counted is None:
                continue
            labels = self._labels(space, resources[0] if resources else "")
            if kind == "granted":
                waited = detail.get("waited")
                if isinstance(waited, int) and waited:
                    self._waits.add(waited / SECOND, labels)
            elif kind in ENDS:
                since = detail.get("acquired_at")
                if isinstance(since, int):
                    self._holds.add((at - since) / SECOND, labels)
            elif kind == "queued" and detail.get("again"):
                continue  # it came back with its ticket, to the place where it was counted before
            if kind in CODES:
                labels += f',code="{CODES[kind]}"'
            counts = self._counts[counted[0]]
            counts[labels] = counts.get(labels, 0) + 1

    def _labels(self, space: str, name: str) -> str:
        head, colon, _ = name.partition(":")
        known = self._labelled.get((space, head if colon else ""))
        return known if known is not None else self._new_labels(space, names.scheme(name))

    def _new_labels(self, space: str, scheme: str) -> str:
        """Kept under the scheme, not under whatever stands before a colon: of that there is no end in plain names."""
        known = self._labelled.get((space, scheme))
        if known is not None:
            return known
        shown = "plain"
        if scheme:
            shown = self._scheme(scheme) if len(scheme) <= SCHEME_LONGEST else "other"
        if len(self._labelled) >= LABELS_KEPT:
            self._labelled.clear()
        labels = f'space="{_escaped(self._space(space))}",scheme="{_escaped(shown)}"'
        self._labelled[space, scheme] = labels
        return labels

    def _queues(self) -> dict[str, int]:
        """How many wait, also where nobody does any more: a figure that vanishes looks like trouble."""
        lengths = dict.fromkeys(self._queued, 0)
        for space, name in self._served.queues():
            labels = self._labels(space, name)
            lengths[labels] = lengths.get(labels, 0) + 1
        self._queued = set(lengths)
        return lengths

    def text(self) -> str:
        """Everything, as Prometheus reads it."""
        lines: list[str] = []
        says = {name: text for name, text in COUNTED.values() if text}
        for name, counts in self._counts.items():
            lines += [f"# HELP {name} {says[name]}", f"# TYPE {name} counter"]
            lines += [f"{name}{{{labels}}} {count}" for labels, count in counts.items()]
        lines += [
            "# HELP leasehold_queue_length Callers that wait at this server.",
            "# TYPE leasehold_queue_length gauge",
        ]
        lines += [f"leasehold_queue_length{{{labels}}} {count}" for labels, count in self._queues().items()]
        lines += [
            "# HELP leasehold_problems_total Requests answered with a problem.",
            "# TYPE leasehold_problems_total counter",
        ]
        lines += [f'leasehold_problems_total{{code="{code}"}} {count}' for code, count in self._problems.items()]
        lines += [
            "# HELP leasehold_webhooks_total Tries to tell a receiver, by what came of them.",
            "# TYPE leasehold_webhooks_total counter",
        ]
        lines += [f"leasehold_webhooks_total{{{labels}}} {count}" for labels, count in self._webhooks.items()]
        for histogram in (self._waits, self._holds, self._sizes, self._commits):
            lines += histogram.lines()
        return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
