"""One etcd for a whole run of the tests, with a prefix of its own for each test. No tests in here."""

from __future__ import annotations

import atexit
import itertools
import os
from functools import cache

from leasehold.testing.etcd import QUICK, Etcd

_numbers = itertools.count()


@cache
def server() -> Etcd:
    """The one that all tests share; it ends with the run, by its id."""
    started = Etcd(*QUICK)
    atexit.register(started.remove)
    return started.__enter__()


def empty() -> str:
    """The URL of an empty place in the shared cluster."""
    return f"{server().url}/t{os.getpid()}-{next(_numbers)}"
