"""Settings of a process that serves for long: the limit of open files, and a garbage collector that seldom runs.

Each waiting client has a connection, so the usual limit of open files ends a queue at a thousand. And objects here live
long and have few cycles: collecting often only makes callers wait.
"""

from __future__ import annotations

import gc
import resource

NEW_OBJECTS = 50_000
"""Objects that are created, beyond those freed, before the collector runs on the youngest generation."""
GENERATIONS = (10, 20)


def tune() -> None:
    """Apply the settings. Call it once, before the first request."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *GENERATIONS)
