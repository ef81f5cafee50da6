"""The trace of the caller, for `acquire(…, trace=traceparent())`: the lease keeps it, and waiters' spans link to it.

OpenTelemetry is looked up only where the program has imported it already, so this costs a program without it nothing.
"""

from __future__ import annotations

import os
import sys

VARIABLE = "TRACEPARENT"
LONGEST = 128


def traceparent() -> str | None:
    """Return the W3C `traceparent` of the current span, or else that of the variable `TRACEPARENT`, or None."""
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry.trace import get_current_span  # noqa: PLC0415 (the program has it)

        context = get_current_span().get_span_context()
        if context.is_valid:
            return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
    return kept(os.environ.get(VARIABLE))


def kept(given: str | None) -> str | None:
    """Return the id of a trace as a lease and another server may get it; None if it is too long, or not plain."""
    return given if given and len(given) <= LONGEST and given.isascii() and given.isprintable() else None
