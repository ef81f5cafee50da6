"""The cache of a remote, which each user of a machine has."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from leasehold.stores.git import repository

if TYPE_CHECKING:
    from pathlib import Path

THREADS = 8
ROUNDS = 40


def test_threads_that_open_a_new_cache_at_once_all_get_it(tmp_path: Path) -> None:
    together = threading.Barrier(THREADS)

    def make(cache: Path) -> str:
        together.wait()
        return repository.make(str(cache))

    with ThreadPoolExecutor(THREADS) as pool:
        for number in range(ROUNDS):
            cache = tmp_path / str(number)
            owns = [*pool.map(make, [cache] * THREADS)]
            assert len(set(owns)) == THREADS
            assert (cache / "config").read_text() == repository._CONFIG
            assert sorted(path.name for path in cache.iterdir()) == ["HEAD", "config", "objects", "refs", "turns"]
