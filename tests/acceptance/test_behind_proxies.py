"""The Python client and the command line against a real server behind real nginx and HAProxy, Debian's packages.

Where a proxy is not installed its tests are skipped, and the summary of the run says how to install it.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.errors import Unreachable
from leasehold.testing.lending import free_port
from tests.kit.serving import Running, create_key, serving, until
from tests.kit.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/answers;
    fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u;
    scgi_temp_path {folder}/s;
    {more}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{behind};
            proxy_set_header Host $http_host;
            proxy_read_timeout 120s;
        }}
    }}
}}
"""
HAPROXY = """
defaults
    mode http
    timeout connect 5s
    timeout client 120s
    timeout server 120s
    {more}
frontend door
    bind 127.0.0.1:{port}
    default_backend locks
backend locks
    server one 127.0.0.1:{behind}
"""
KINDS = {
    "nginx": ("nginx", NGINX, ""),
    "nginx, HTTP/1.1 and compressing": (
        *("nginx", NGINX),
        "proxy_http_version 1.1; proxy_buffering off; gzip on; gzip_min_length 1; gzip_types application/json;",
    ),
    "HAProxy": ("haproxy", HAPROXY, ""),
    "HAProxy, closing": ("haproxy", HAPROXY, "option httpclose"),
}


@contextmanager
def proxied(kind: str, folder: Path, behind: int) -> Iterator[str]:
    """The URL of a proxy in front of this port."""
    name, form, more = KINDS[kind]
    program = shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if program is None:
        pytest.skip(f"NOT RUN: {name} is not installed; run: apt-get install --no-install-recommends {name}")
    port = free_port()
    settings = folder / f"{name}.conf"
    settings.write_text(form.format(folder=folder, port=port, behind=behind, more=more))
    words = [program, "-c" if name == "nginx" else "-f", str(settings)]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: _answers(port))
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Scene:
    """A server with a key, and a proxy in front of it."""

    def __init__(self, server: Running, url: str, key: str, folder: Path) -> None:
        self.server = server
        self.url = url
        self.key = key
        self.folder = folder

    def connect(self, holder: str) -> leasehold.Locks:
        return leasehold.connect(self.url, holder=holder, api_key=self.key)


@pytest.fixture(params=KINDS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    key = create_key(tmp_path, "agent")
    with serving(tmp_path) as server, proxied(request.param, tmp_path, server.port) as url:
        yield Scene(server, url, key, tmp_path)


def test_each_verb_of_python_gets_through(scene: Scene) -> None:
    with scene.connect("ann") as locks:
        got = locks.acquire("deploy://a", ttl=60, context={"é": "x" * 9_000})
        assert isinstance(got, leasehold.Granted)
        assert locks.renew(got)
        listed = locks.list()
        assert not isinstance(listed, leasehold.Refused)
        assert [lease.id for lease in listed] == [got.lease.id]
        assert not locks.acquire("deploy://a", ttl=60)
        assert locks.release(got)


def test_a_wait_is_served(scene: Scene) -> None:
    with scene.connect("ann") as ann, scene.connect("bob") as bob:
        got = ann.acquire("deploy://a", ttl=60)
        assert isinstance(got, leasehold.Granted)
        served: list[object] = []
        waiting = threading.Thread(target=lambda: served.append(bob.acquire("deploy://a", ttl=60, wait=60)))
        waiting.start()
        until(lambda: scene.server.get("inspect?resource=deploy://a", key=scene.key).json["waiting"] != [])
        ann.release(got)
        waiting.join()
        assert isinstance(served[0], leasehold.Granted)


def test_an_asynchronous_lock_learns_of_its_loss(scene: Scene) -> None:
    admin = create_key(scene.folder, "admin")

    async def work() -> None:
        async with await leasehold.aconnect(scene.url, holder="ann", api_key=scene.key) as locks:
            lost = asyncio.Event()
            with pytest.raises(leasehold.LeaseLost):  # noqa: PT012 (the body is cancelled, and the block raises)
                async with locks.lock("deploy://a", ttl=600, on_lost=lambda _: lost.set()):
                    force = {"target": "deploy://a", "reason": "gone"}
                    await asyncio.to_thread(scene.server.post, "force-release", force, key=admin)
                    await lost.wait()

    asyncio.run(work())


def test_the_command_line_gets_through(scene: Scene) -> None:
    with Shell(scene.folder / "home") as shell:
        env = {"LEASEHOLD_URL": scene.url, "LEASEHOLD_API_KEY": scene.key}
        assert shell.call("acquire", "deploy://a", env=env).code == 0
        assert shell.call("acquire", "deploy://a", env=env).code == 4
        assert "deploy://a" in shell.call("list", env=env).out
        assert shell.call("release", "deploy://a", env=env).code == 0
        assert shell.run("run", "deploy://a", "--", "true", env=env).code == 0


@pytest.mark.parametrize("kind", ["nginx", "HAProxy"])
def test_a_proxy_without_a_server_behind_it_is_reported(kind: str, tmp_path: Path) -> None:
    told = pytest.raises(Unreachable, match=r"a proxy answered 50[23] instead of the server")
    with proxied(kind, tmp_path, free_port()) as url, leasehold.connect(url, holder="ann") as locks, told:
        locks.acquire("deploy://a", ttl=60)
