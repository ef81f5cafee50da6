"""The peer of the embedded store: bare `sqlite3`, the same durability, rows and transactions of the same size."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

BODY = b"x" * 200


def rows_per_second(path: Path, rows_per_transaction: int, seconds: float) -> float:
    """How many rows a second it writes."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS row (key TEXT PRIMARY KEY, due INTEGER, body BLOB)")
    written = 0
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        connection.execute("BEGIN IMMEDIATE")
        rows = [(f"{written + place:032x}"[::-1], place, BODY) for place in range(rows_per_transaction)]
        connection.executemany("INSERT OR REPLACE INTO row VALUES (?, ?, ?)", rows)
        connection.execute("COMMIT")
        written += rows_per_transaction
    took = time.perf_counter() - started
    connection.close()
    return written / took
