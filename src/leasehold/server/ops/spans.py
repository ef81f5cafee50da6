"""Spans for OpenTelemetry (extra `otel`): acquire with its wait, renew, release, and requests that were handed on.

A span is made after its answer, with the times that were noted on the way: a request that is not sampled costs one
random number. A wait links to the trace of the lease that it waited for.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped] # it has no types
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation import set_span_in_context

from leasehold import __version__
from leasehold.domain.outcomes import Granted, Refused
from leasehold.server.api.problems import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan

    from leasehold.locks.hosted import Served
    from leasehold.server.api.dispatch import Operation
    from leasehold.server.api.problems import HttpAnswer

TRACED: Final = frozenset(("acquire", "renew", "release"))
ENDS: Final = ("released", "expired", "forced")
"""Events that end the lease that a waiter waited for."""
LOOKED_AT: Final = 20
SAMPLED: Final = 0x01


IDS: Final = ("traceId", "spanId", "parentSpanId")


class FileExporter(SpanExporter):
    """Appends spans to a file, one OTLP JSON object for each batch: a collector's `otlpjsonfile` receiver reads it."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write a batch."""
        with self._path.open("a") as file:
            file.write(json.dumps(_otlp(spans)) + "\n")
        return SpanExportResult.SUCCESS


def _otlp(spans: Sequence[ReadableSpan]) -> dict[str, Any]:
    """Return a batch in OTLP's JSON: ids in hexadecimal, where protobuf's own JSON has base64, and enums as numbers.

    See https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding (read on 19 November 2026).
    """
    batch: dict[str, Any] = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    for resource in batch["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for each in (span, *span.get("links", ())):
                    each |= {name: base64.b64decode(each[name]).hex() for name in IDS if name in each}
    return batch


def parse(text: str | None) -> SpanContext | None:
    """Return what a `traceparent` says; None if it is another id, or wrong."""
    parts = (text or "").split("-")
    if len(parts) < 4 or [len(part) for part in parts[:4]] != [2, 32, 16, 2]:
        return None
    try:
        trace, span, flags = (int(part, 16) for part in parts[1:4])
    except ValueError:
        return None
    context = SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(flags))
    return context if context.is_valid else None


class Spans:
    """The spans of one server."""

    def __init__(self, served: Served, where: str, ratio: float) -> None:
        """`where`: `otlp`, for the collector that `OTEL_EXPORTER_OTLP_ENDPOINT` names, or `file:PATH`."""
        self._served = served
        self._ratio = ratio
        resource = Resource.create({SERVICE_NAME: "leasehold", SERVICE_VERSION: __version__})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(_exporter(where)))
        self._tracer = self._provider.get_tracer("leasehold", __version__)
        self._tasks: set[asyncio.Task[None]] = set()

    def answered(self, operation: Operation, answer: HttpAnswer) -> None:
        """Make the spans of an operation that was answered, if it is sampled."""
        if operation.verb not in TRACED:
            return
        given = operation.trace if operation.verb != "acquire" else operation.arguments.get("trace")
        if given is None and random.random() >= self._ratio:  # noqa: S311 (only a choice)
            return
        parent = parse(given)
        if parent is not None and not parent.trace_flags & SAMPLED:
            return
        end = time.time_ns()
        begin = end - int((time.perf_counter() - operation.begun) * 1e9)
        task = asyncio.get_running_loop().create_task(self._make(operation, answer, parent, (begin, end)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _make(
        self, operation: Operation, answer: HttpAnswer, parent: SpanContext | None, times: tuple[int, int]
    ) -> None:
        context = None if parent is None else set_span_in_context(NonRecordingSpan(parent))
        begin, end = times
        said = _attributes(operation, answer)
        name = f"leasehold.{operation.verb}"
        span = self._tracer.start_span(name, context, SpanKind.SERVER, said, start_time=begin)
        if answer.status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        inner = set_span_in_context(span)
        if operation.handed is not None:
            self._tracer.start_span("leasehold.hand_on", inner, SpanKind.CLIENT, start_time=begin).end(end)
        if operation.arguments.get("wait"):
            waited, links = await self._wait(operation)
            since = begin if waited is None else max(begin, end - waited * 1_000)
            if waited != 0:
                self._tracer.start_span("leasehold.wait", inner, SpanKind.INTERNAL, None, links, since).end(end)
        span.end(end)

    async def _wait(self, operation: Operation) -> tuple[int | None, list[Link]]:
        """Return for how many microseconds a request waited, and links to the traces of the leases before it.

        None: it was not granted, so it waited all the while.
        """
        granted = _granted(operation)
        own = granted[0] if granted else None
        waited = 0 if own else None
        links: dict[int, Link] = {}
        for name in _names(operation)[:1]:
            space = operation.arguments.get("space")
            events = await self._served.locks.history(
                resource=name, space=space, kinds=("granted", *ENDS), limit=LOOKED_AT
            )
            for event in () if isinstance(events, Refused) else events:
                found = parse(_text(event.detail.get("trace")))
                if event.lease == own and event.kind == "granted":
                    waited = _number(event.detail.get("waited"))
                if event.lease != own and found is not None:
                    links.setdefault(found.span_id, Link(found, {"leasehold.lease": event.lease or ""}))
                if event.lease != own and event.kind == "granted":
                    break
        return waited, list(links.values())

    def close(self) -> None:
        """Export what is left."""
        self._provider.shutdown()


def _exporter(where: str) -> SpanExporter:
    kind, _, path = where.partition(":")
    if kind == "file":
        return FileExporter(path)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 (by choice)

    return OTLPSpanExporter()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _names(operation: Operation) -> list[str]:
    names = operation.arguments.get("resources", ())
    return [names] if isinstance(names, str) else [str(name) for name in names]


def _attributes(operation: Operation, answer: HttpAnswer) -> dict[str, Any]:
    asked, granted = operation.arguments, _granted(operation)
    said: dict[str, Any] = {"http.response.status_code": answer.status, "leasehold.principal": operation.who.name}
    if operation.verb == "acquire":
        said |= {"leasehold.resources": _names(operation), "leasehold.holder": str(asked.get("holder"))}
        said["leasehold.space"] = str(asked.get("space"))
    else:
        said["leasehold.lease"] = str(asked.get("lease"))
    if granted is not None:
        said |= {"leasehold.lease": granted[0], "leasehold.fence": granted[1]}
    said["leasehold.outcome"] = _outcome(answer)
    return said


def _granted(operation: Operation) -> tuple[str, int] | None:
    """Return the id and the fence of the lease that was granted, here or by the server that the request went to."""
    outcome = operation.pending.outcome if operation.pending is not None else None
    if isinstance(outcome, Granted):
        return outcome.lease.id, outcome.lease.fence
    answer = operation.handed.answer if operation.handed is not None else None
    lease = json.loads(answer).get("lease") if answer is not None else None
    return (lease["id"], lease["fence"]) if isinstance(lease, dict) else None


def _outcome(answer: HttpAnswer) -> str:
    """Return `ok`, or the stable code of the problem."""
    if answer.status == 200:
        return "ok"
    told = json.loads(encode(answer.body))
    return str(told.get("code", answer.status)) if isinstance(told, dict) else str(answer.status)
