"""A real `leasehold serve`, a process of its own on a port of its own, and clients of it. No tests in here."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from jsonschema import Draft202012Validator

import leasehold
from leasehold.server.api.openapi import document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

PATIENCE = 60.0
"""Far longer than anything here takes, however busy the machine is."""
COMMAND = (sys.executable, "-m", "leasehold.cli", "serve")


def command_with(setting: str) -> Sequence[str]:
    """The command that serves, with one of its constants set to something else: `module.NAME = value`."""
    module = setting.partition(" = ")[0].rpartition(".")[0]
    script = f"import sys, {module}; {setting}; from leasehold.cli import main; sys.exit(main())"
    return (sys.executable, "-c", script, "serve")


def until(condition: Callable[[], object]) -> None:
    """Wait for this instead of sleeping for a fixed time."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, "it never came true"
        time.sleep(0.005)


async def until_soon(condition: Callable[[], object]) -> None:
    """`until` for coroutines."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 (there is nothing to be told by)
            await asyncio.sleep(0.005)


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 (whatever it is)
        return json.loads(self.content)

    @property
    def code(self) -> str:
        """The stable code of a problem."""
        assert self.headers["content-type"] == "application/problem+json", self
        told = self.json
        assert told["status"] == self.status
        assert told["type"] == f"urn:leasehold:problem:{told['code']}"
        return str(told["code"])


class Running:
    """A server, from the outside."""

    def __init__(self, process: subprocess.Popen[str], database: Path, url: str) -> None:
        self.process = process
        self.database = database
        self.key: str | None = None
        """The key of requests that name none."""
        self.url = url
        self.host, _, port = url.partition("://")[2].rpartition(":")
        self.port = int(port)

    def ask(self, method: str, path: str, body: object = None, *, key: str | None = None, **headers: str) -> Reply:
        """One request on a connection of its own; bytes go out as they are."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if key or self.key:
            headers["Authorization"] = f"Bearer {key or self.key}"
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, content, headers)
            reply = connection.getresponse()
            told = {name.lower(): value for name, value in reply.getheaders()}
            answer = Reply(reply.status, told, reply.read())
        finally:
            connection.close()
        check_described(method, path, answer)
        return answer

    def post(self, path: str, body: object, *, key: str | None = None, **headers: str) -> Reply:
        return self.ask("POST", f"/v1/{path}", body, key=key, **headers)

    def get(self, path: str, *, key: str | None = None, **headers: str) -> Reply:
        return self.ask("GET", f"/v1/{path}", key=key, **headers)

    def begin(self, path: str, body: object, *, key: str | None = None) -> socket.socket:
        """A request whose answer nobody has read yet."""
        content = json.dumps(body).encode()
        line = socket.create_connection((self.host, self.port), timeout=PATIENCE)
        shown = f"Authorization: Bearer {key or self.key}\r\n" if key or self.key else ""
        head = f"POST /v1/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{shown}"
        line.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        return line

    def waiting(self, resource: str) -> list[str]:
        """Who waits, in order."""
        return [each["holder"] for each in self.get(f"inspect?resource={resource}").json["waiting"]]

    def holders(self, resource: str) -> list[str]:
        return [each["holder"] for each in self.get(f"inspect?resource={resource}").json["leases"]]

    def stop(self) -> int:
        """Ask it to stop, and wait until it has."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


def check_shape(told: object, name: str) -> None:
    """An answer is what OpenAPI says of this shape."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": document()["components"]}
    Draft202012Validator(schema).validate(told)


def check_described(method: str, path: str, reply: Reply) -> None:
    """Whatever a test asks for: OpenAPI tells of such an answer to it, if it tells of the route at all."""
    operation = document()["paths"].get(path.partition("?")[0], {}).get(method.lower())
    if operation is None:
        return
    found = operation["responses"].get(str(reply.status))
    assert found is not None, f"{method} {path}: OpenAPI does not tell of {reply}"
    if reply.headers.get("content-type") == "application/problem+json":
        codes = found["description"].removeprefix("code: ").split(", ")
        assert reply.code in codes, f"{method} {path}: OpenAPI tells of {codes}, not of {reply}"


def read_reply(line: socket.socket) -> Reply:
    """The answer on a connection of `begin`."""
    reply = http.client.HTTPResponse(line)
    reply.begin()
    told = {name.lower(): value for name, value in reply.getheaders()}
    return Reply(reply.status, told, reply.read())


@contextmanager
def serving(
    folder: Path,
    *words: str,
    env: dict[str, str] | None = None,
    database: Path | None = None,
    command: Sequence[str] = (),
    log: Path | None = None,
) -> Iterator[Running]:
    """A server in this folder, on a database there unless it is elsewhere, until the end of the block."""
    database = database or folder / "locks.db"
    with start(database, *words, env=env, folder=folder, command=command, log=log) as process:
        assert process.stdout is not None
        announced = process.stdout.readline()
        assert announced.startswith("Serving "), (announced, process.stderr and process.stderr.read())
        yield Running(process, database, announced.split()[1])


@contextmanager
def start(
    database: Path,
    *words: str,
    env: dict[str, str] | None = None,
    folder: Path | None = None,
    command: Sequence[str] = (),
    log: Path | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """The process, whatever becomes of it."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    port = () if "--port" in words else ("--port", "0")
    with (
        nullcontext(subprocess.PIPE) if log is None else log.open("w") as errors,
        subprocess.Popen(
            [*(command or COMMAND), "--store", f"sqlite:///{database}", *port, *words],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**settings, **(env or {})},
            cwd=folder or database.parent,
        ) as process,
    ):
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def create_key(
    folder: Path, role: str, *, name: str = "", space: str = "default", prefixes: tuple[str, ...] = ()
) -> str:
    """A key, made on the store itself."""
    with leasehold.connect(f"sqlite:///{folder / 'locks.db'}") as locks:
        made = locks.create_key(role=role, name=name or role, space=space, prefixes=prefixes)
        assert isinstance(made, leasehold.KeyCreated)
        return made.credential


def id_of(key: str) -> str:
    """The id in a key."""
    return key.split("_")[1]
