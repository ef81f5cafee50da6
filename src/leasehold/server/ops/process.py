"""What a process needs that serves for long: as many open files as it may have, and a garbage collector that rests.

Whoever waits has a connection of its own, so the usual limit of open files ends a queue at a thousand. And what is in
memory here lives long and has few cycles: to look through all of it again and again only makes callers wait.
"""

from __future__ import annotations

import gc
import resource

NEW_OBJECTS = 50_000
"""So many objects more than were given up before the collector looks at the youngest."""
GENERATIONS = (10, 20)


def settle_in() -> None:
    """Once, before the first request."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *GENERATIONS)
