"""The text of `/metrics`: what the server counts, its process and its build, as Prometheus reads it.

The counters are our own (see `metrics`), since every commit updates them: 0.1 µs each against the 2 µs of a counter of
`prometheus_client`, and 0.4 µs against 2.6 µs for a histogram (interpreted). The library only writes the text.
"""

from __future__ import annotations

import platform
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPEN_METRICS
from prometheus_client.openmetrics.exposition import generate_latest as open_metrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from leasehold import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.core import Metric

    from leasehold.server.ops.metrics import Histogram, Labels, Metrics, StoreState

MEDIA_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
PLACE: Final = ("space", "scheme")
COUNTERS: Final = {
    "leasehold_grants_total": ("Leases granted.", PLACE),
    "leasehold_refusals_total": ("Requests refused or timed out because another holds the resource.", (*PLACE, "code")),
    "leasehold_deadlocks_total": ("Requests that would have closed a cycle.", PLACE),
    "leasehold_expiries_total": ("Leases that expired.", PLACE),
    "leasehold_forced_total": ("Leases that an admin ended.", PLACE),
    "leasehold_releases_total": ("Leases released.", PLACE),
    "leasehold_waits_total": ("Requests that had to wait.", PLACE),
    "leasehold_plans_total": ("Plans that were announced.", PLACE),
    "leasehold_terms_total": ("Terms of leaders that began.", PLACE),
    "leasehold_trespasses_total": ("Changes of what another holder has.", PLACE),
}


class Exposition(Collector):
    """Writes the metrics of one server."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """Return everything as Prometheus reads it, in OpenMetrics if the client asks for it, and the media type."""
        if "application/openmetrics-text" in accept:
            return open_metrics(self._registry), OPEN_METRICS  # type: ignore[no-untyped-call] # it has no types
        return generate_latest(self._registry), MEDIA_TYPE

    def collect(self) -> Iterator[Metric]:
        """Yield every metric of the server; `prometheus_client` calls this for each text."""
        metrics = self._metrics
        build = {"version": __version__, "python": platform.python_version()}
        yield InfoMetricFamily("leasehold_build", "The version of Leasehold and of Python.", build)
        for name, (says, labels) in COUNTERS.items():
            yield _counter(name, says, labels, metrics.counts[name])
        queues = GaugeMetricFamily("leasehold_queue_length", "Callers that wait at this server.", labels=PLACE)
        for values, count in metrics.queue_lengths().items():
            queues.add_metric(values, count)
        yield queues
        yield from _of_the_store(metrics.store_state)
        said = "How long requests took, waits included."
        yield histogram("leasehold_http_request_seconds", said, ("route", "status"), metrics.requests)
        backlog = GaugeMetricFamily(
            "leasehold_webhook_backlog", "Events that a hook has read and not delivered yet.", labels=("hook",)
        )
        for values, count in metrics.backlogs.items():
            backlog.add_metric(values, count)
        yield backlog
        yield _counter("leasehold_problems_total", "Requests answered with a problem.", ("code",), metrics.problems)
        attempts = "Attempts to reach a receiver, by their outcome."
        yield _counter("leasehold_webhooks_total", attempts, ("hook", "outcome"), metrics.webhooks)
        handed = "Requests handed on to the server that owns their lane."
        yield _counter("leasehold_handed_on_total", handed, ("outcome",), metrics.handed_on)
        lanes = GaugeMetricFamily("leasehold_lanes_owned", "Lanes of the store that this server owns.")
        lanes.add_metric((), metrics.lanes)
        yield lanes
        owners = GaugeMetricFamily(
            "leasehold_lane_owner", "1 for each lane and the address of its owner.", labels=("lane", "owner")
        )
        for values, one in metrics.owners.items():
            owners.add_metric(values, one)
        yield owners
        yield histogram("leasehold_wait_seconds", "How long granted requests had waited.", PLACE, metrics.waits)
        yield histogram("leasehold_hold_seconds", "How long leases were held.", PLACE, metrics.holds)
        yield histogram("leasehold_commit_batch_size", "Commands in one transaction.", (), metrics.sizes)
        yield histogram("leasehold_commit_seconds", "How long one transaction took.", (), metrics.commits)


def _of_the_store(state: StoreState) -> Iterator[Metric]:
    gauges: tuple[tuple[str, str, Mapping[Labels, float]], ...] = (
        ("leasehold_leases_held", "Leases held, of the whole store.", state.held),
        ("leasehold_oldest_hold_seconds", "For how long the oldest lease is held.", state.holds),
        ("leasehold_oldest_wait_seconds", "For how long the oldest request waits.", state.waits),
    )
    for name, says, values in gauges:
        family = GaugeMetricFamily(name, says, labels=PLACE)
        for labels, value in values.items():
            family.add_metric(labels, value)
        yield family
    trip = GaugeMetricFamily("leasehold_store_round_trip_seconds", "How long one read of the store took.")
    trip.add_metric((), state.round_trip)
    yield trip


def _counter(name: str, says: str, labels: Labels, counts: Mapping[Labels, int]) -> Metric:
    family = CounterMetricFamily(name, says, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family


def histogram(name: str, says: str, labels: Labels, counted: Histogram) -> Metric:
    """Return a histogram with cumulative buckets."""
    family = HistogramMetricFamily(name, says, labels=labels)
    for values, series in counted.series.items():
        names = [*(f"{bound:g}" for bound in counted.bounds), "+Inf"]
        counts = [*accumulate(series[:-2]), series[-2]]
        buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = [*zip(names, counts, strict=True)]
        for place, (trace, value, at) in counted.exemplars.get(values, {}).items():
            buckets[place] = (names[place], counts[place], Exemplar({"trace_id": trace}, value, at))
        family.add_metric(values, buckets, series[-1])
    return family
