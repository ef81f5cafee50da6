"""Action Llama's agents: runs of a session on a real server, and the commands that they type. No tests in here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kit.serving import Reply, Running

PATIENCE = 60.0
SCRIPTS = Path(sys.executable).parent
"""Where `rlock` and the others were installed."""


class Said(NamedTuple):
    """How one of the commands ended."""

    code: int
    body: Any
    err: str


def command(name: str, *words: str, folder: Path, **env: str) -> Said:
    """Type a command in a shell that has nothing but these variables."""
    done = subprocess.run(
        [SCRIPTS / name, *words],
        env=_bare(folder, env),
        cwd=folder,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    out = done.stdout.decode()
    return Said(done.returncode, json.loads(out) if out.startswith("{") else out, done.stderr.decode())


def _bare(folder: Path, env: Mapping[str, str]) -> dict[str, str]:
    kept = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "USER": "ada"}
    return {**kept, "PYTHONWARNINGS": "error", **env}


class Llama:
    """One container: it knows where the gateway is, and its own secret."""

    def __init__(self, server: Running, folder: Path, secret: str) -> None:
        self.server = server
        self.folder = folder
        self.secret = secret

    def types(self, name: str, *words: str) -> Said:
        return command(name, *words, folder=self.folder, GATEWAY_URL=self.server.url, SHUTDOWN_SECRET=self.secret)

    def post(self, verb: str, key: object, **more: object) -> Reply:
        return self.server.ask("POST", f"/locks/{verb}", {"secret": self.secret, "resourceKey": key, **more})

    def locks(self) -> list[str]:
        return [each["resourceKey"] for each in self.server.ask("GET", f"/locks/list?secret={self.secret}").json]


def start(server: Running, holder: str, *, key: str | None = None, **more: object) -> str:
    """Register a run; its credential."""
    reply = server.post("sessions", {"holder": holder, "ttl_seconds": 3600, **more}, key=key)
    assert reply.status == 200, reply
    return str(reply.json["credential"])
