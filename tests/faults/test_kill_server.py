"""SIGKILL of the server under load: every grant that a client saw is there afterwards, and no fence is used again."""

from __future__ import annotations

import http.client
import json
import os
import threading
from typing import TYPE_CHECKING, NamedTuple

from tests.kit.serving import PATIENCE, Running, serving, until

if TYPE_CHECKING:
    from pathlib import Path

KILLS = 50 if os.environ.get("LEASEHOLD_PROVE") else 3
CLIENTS = 8
GRANTS = 40
"""So many are seen before each kill, which then comes at whatever moment it is."""


class Seen(NamedTuple):
    lease: str
    token: str
    fence: int


def load(server: Running, name: str, seen: list[Seen]) -> None:
    """Acquire one name after the other until nobody answers any more."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE)
    try:
        for number in range(1_000_000):
            body = json.dumps({"resources": f"{name}-{number}", "holder": name})
            connection.request("POST", "/v1/acquire", body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            content = reply.read()
            assert reply.status == 200, content
            granted = json.loads(content)
            seen.append(Seen(granted["lease"]["id"], granted["token"], granted["lease"]["fence"]))
    except (OSError, http.client.HTTPException):
        return
    finally:
        connection.close()


def test_grants_that_were_seen_survive_every_kill(tmp_path: Path) -> None:
    everything: list[Seen] = []
    for kill in range(KILLS):
        seen: list[Seen] = []
        with serving(tmp_path, "--rate", "0") as server:
            for lease, token, _ in everything[-GRANTS:]:
                assert server.post("renew", {"lease": lease, "token": token}).status == 200
            threads = [
                threading.Thread(target=load, args=(server, f"k{kill}c{number}", seen)) for number in range(CLIENTS)
            ]
            for thread in threads:
                thread.start()
            until(lambda seen=seen: len(seen) >= GRANTS)  # type: ignore[misc] # a default
            server.process.kill()
            for thread in threads:
                thread.join()
        everything += seen
    fences = [each.fence for each in everything]
    assert len(set(fences)) == len(fences)
    with serving(tmp_path, "--rate", "0") as server:
        for lease, token, _ in everything:
            assert server.post("renew", {"lease": lease, "token": token}).status == 200
        newest = server.post("acquire", {"resources": "newest", "holder": "x"}).json["lease"]["fence"]
        assert newest > max(fences)
