"""A receiver of webhooks: a real HTTP server on loopback that remembers what it was told. No tests in here."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "a secret that both of them know"


class Told(NamedTuple):
    """One request that came in."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 (whatever it is)
        return json.loads(self.body)

    @property
    def is_signed(self) -> bool:
        """As docs/how-to/server.md says that a receiver should check it."""
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.body
        expected = base64.b64encode(hmac.digest(SECRET.encode(), signed, hashlib.sha256)).decode()
        return hmac.compare_digest(f"v1,{expected}", self.headers["webhook-signature"])


class Receiver:
    """What it was told, and what it answers."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        """For the next requests, in order; afterwards 204."""
        self.port = 0

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def take(self, told: Told) -> tuple[int, dict[str, str]]:
        self.told.append(told)
        return self.answers.pop(0) if self.answers else (204, {})

    @property
    def seen(self) -> list[tuple[str, list[str]]]:
        """Kind and resources of each event, in order of arrival."""
        return [(each.json["type"], each.json["data"]["resources"]) for each in self.told]


@contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    """A receiver, until the end of the block."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more = receiver.take(Told(self.path, headers, body))
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name in the library)
            """Silent."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        receiver.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
