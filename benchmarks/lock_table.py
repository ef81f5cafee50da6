"""The usual lock table: what people write who have PostgreSQL, driven by a psycopg pool and so many tasks.

``python -m benchmarks.lock_table URL TASKS CONNECTIONS SECONDS`` prints what it saw as JSON. An acquire is one
`INSERT … ON CONFLICT … WHERE expired RETURNING`, a release one `DELETE`, each committed by itself.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time

import uvloop
from psycopg_pool import AsyncConnectionPool

from benchmarks.generator import spread

TABLE = """
CREATE TABLE IF NOT EXISTS lock_table (
    name text PRIMARY KEY, holder text NOT NULL, expires_at timestamptz NOT NULL
)
"""
ACQUIRE = """
INSERT INTO lock_table (name, holder, expires_at) VALUES (%s, %s, now() + interval '60 s')
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
WHERE lock_table.expires_at < now()
RETURNING name
"""
RELEASE = "DELETE FROM lock_table WHERE name = %s AND holder = %s"


async def cycles(url: str, tasks: int, connections: int, seconds: float) -> dict[str, object]:
    """Acquire and release, each task on names of its own."""
    tag = f"{random.getrandbits(32):08x}"
    acquires: list[float] = []
    options = {"autocommit": True}
    async with AsyncConnectionPool(url, min_size=connections, max_size=connections, kwargs=options) as pool:
        async with pool.connection() as connection:
            await connection.execute(TABLE)
        await pool.wait()
        begun = time.perf_counter()

        async def one(task: int) -> None:
            count, holder = 0, f"h{task}"
            while time.perf_counter() - begun < seconds:
                count += 1
                name, asked = f"task-{tag}-{task}-{count}", time.perf_counter()
                async with pool.connection() as connection:
                    cursor = await connection.execute(ACQUIRE, (name, holder))
                    assert await cursor.fetchone() is not None
                acquires.append(time.perf_counter() - asked)
                async with pool.connection() as connection:
                    assert (await connection.execute(RELEASE, (name, holder))).rowcount == 1

        await asyncio.gather(*(one(task) for task in range(tasks)))
        took = time.perf_counter() - begun
    return {"cycles": len(acquires), "seconds": took, "acquire": spread(acquires)}


def main() -> None:
    url, tasks, connections, seconds = sys.argv[1:]
    print(json.dumps(uvloop.run(cycles(url, int(tasks), int(connections), float(seconds)))))


if __name__ == "__main__":
    main()
