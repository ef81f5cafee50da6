"""Locks of the `http` backend: requests as the client of OpenTofu sends them (its source, read on 19 November 2026)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar

import pytest

import leasehold
from tests.kit.serving import create_key, serving, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.serving import Reply, Running

STATE = "/terraform/lock/prod/network"
RESOURCE = "terraform:prod/network"


def info(id_: str, who: str = "ada@laptop", operation: str = "OperationTypeApply") -> dict[str, str]:
    """The lock info that a client marshals; it sends the same bytes to unlock."""
    created = "2026-11-19T08:15:30.123456789Z"
    return {
        "ID": id_,
        "Operation": operation,
        "Info": "",
        "Who": who,
        "Version": "1.10.6",
        "Created": created,
        "Path": "",
    }


ADAS = info("6f1c3f0e-8a5b-0b1e-9d2c-7a1f5f1f0a01")
BOBS = info("b0b7e0a2-1111-2222-3333-444455556666", "bob@ci-7")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with serving(tmp_path) as running:
        yield running


def ask(server: Running, method: str, told: object = b"", path: str = STATE, password: str | None = None) -> Reply:
    headers = {"Content-Type": "application/json", "User-Agent": "Opentofu-http-client/1.1"}
    if password is not None:
        headers["Authorization"] = f"Basic {b64encode(f'terraform:{password}'.encode()).decode()}"
    return server.ask(method, path, told if isinstance(told, bytes) else json.dumps(told).encode(), **headers)


def test_a_second_run_is_told_who_has_the_lock(server: Running) -> None:
    assert ask(server, "LOCK", ADAS).status == 200
    refused = ask(server, "LOCK", BOBS)
    assert (refused.status, refused.json) == (423, ADAS)
    assert server.holders(RESOURCE) == ["ada@laptop"]
    assert ask(server, "LOCK", ADAS).status == 200, "a retry after a lost answer"
    assert ask(server, "UNLOCK", ADAS).status == 200
    assert ask(server, "LOCK", BOBS).status == 200


def test_an_unlock_ends_the_lock_of_its_id_alone(server: Running) -> None:
    ask(server, "LOCK", ADAS)
    assert ask(server, "UNLOCK", BOBS).status == 409
    assert ask(server, "UNLOCK", {**ADAS, "Who": "mallory@host"}).status == 403
    assert server.holders(RESOURCE) == ["ada@laptop"]
    assert ask(server, "UNLOCK", ADAS).status == 200
    assert ask(server, "UNLOCK", ADAS).status == 409, "it is unlocked already"
    assert server.holders(RESOURCE) == []


def test_an_expired_lock_closes_the_state_until_force_unlock(server: Running) -> None:
    ask(server, "LOCK", ADAS, f"{STATE}?ttl=50ms")
    until(lambda: server.get(f"inspect?resource={RESOURCE}").json["closed"])
    refused = ask(server, "LOCK", BOBS)
    assert refused.status == 423
    assert "ended uncleanly" in refused.json["Info"]
    assert ask(server, "UNLOCK", ADAS).status == 409
    assert ask(server, "UNLOCK").status == 200, "force-unlock sends an empty body"
    assert ask(server, "LOCK", BOBS).status == 200


def test_force_unlock_is_in_the_history(server: Running) -> None:
    ask(server, "LOCK", ADAS)
    assert ask(server, "UNLOCK").status == 200
    assert server.holders(RESOURCE) == []
    forced = server.get(f"history?resource={RESOURCE}&kind=forced").json["events"][0]
    assert "terraform force-unlock" in json.dumps(forced)


def test_a_holder_that_is_no_terraform_has_lock_info_too(server: Running) -> None:
    server.post("acquire", {"resources": RESOURCE, "holder": "coder-1", "reason": "migrating by hand"})
    refused = ask(server, "LOCK", BOBS)
    assert refused.status == 423
    assert refused.json["ID"].startswith("l1-")
    assert refused.json["ID"].endswith(" (coder-1: migrating by hand)")
    assert (refused.json["Who"], refused.json["Info"]) == ("coder-1", "migrating by hand")
    assert set(refused.json) == set(BOBS)


def test_the_password_is_a_key_within_its_bounds(tmp_path: Path) -> None:
    mine = create_key(tmp_path, "agent", name="mine", prefixes=("terraform:prod/",))
    others = create_key(tmp_path, "agent", name="others")
    admin = create_key(tmp_path, "admin")
    viewer = create_key(tmp_path, "viewer")
    with serving(tmp_path) as server:
        assert ask(server, "LOCK", ADAS).status == 401
        assert ask(server, "LOCK", ADAS, password="wrong").status == 401
        assert ask(server, "LOCK", ADAS, password=viewer).status == 403
        assert ask(server, "LOCK", ADAS, "/terraform/lock/staging", mine).status == 403
        assert ask(server, "LOCK", ADAS, password=mine).status == 200
        assert ask(server, "UNLOCK", ADAS, password=others).status == 403, "its ID is no secret: anyone is told it"
        assert ask(server, "UNLOCK", password=mine).status == 403, "force-unlock is for admins"
        assert ask(server, "UNLOCK", password=admin).status == 200
        assert ask(server, "LOCK", BOBS, password=others).status == 200


@pytest.mark.parametrize("body", [b"{}", b"[]", b'"x"', b"{", b'{"ID": 5}', b'{"ID": ""}', b"\xff", b"[" * 50_000])
def test_a_body_that_is_no_lock_info_changes_nothing(server: Running, body: bytes) -> None:
    assert ask(server, "LOCK", body).status == 400
    assert ask(server, "UNLOCK", body).status == 400
    assert ask(server, "LOCK", ADAS, f"{STATE}?ttl=soon").status == 400
    with leasehold.connect(server.url) as locks:
        assert locks.list() == ()


def test_a_page_of_another_origin_locks_nothing(server: Running) -> None:
    refused = server.ask("LOCK", STATE, ADAS, Origin="http://evil.example")
    assert refused.status == 403
    assert server.holders(RESOURCE) == []


class States(BaseHTTPRequestHandler):
    """A place for states that knows nothing of locks."""

    kept: ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        state = self.kept.get(self.path)
        self.send_response(404 if state is None else 200)
        self.send_header("Content-Length", str(len(state or b"")))
        self.end_headers()
        self.wfile.write(state or b"")

    def do_POST(self) -> None:
        self.kept[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Workspace:
    """One checkout of a configuration, and the real client in it."""

    def __init__(self, folder: Path, state: str, lock: str) -> None:
        self.folder = folder
        folder.mkdir()
        backend = f'address = "{state}"\nlock_address = "{lock}"\nunlock_address = "{lock}"\nretry_max = 0\n'
        wait = 'provisioner "local-exec" {\n command = "touch begun; while [ ! -e go ]; do sleep 0.05; done"\n}\n'
        (folder / "main.tf").write_text(
            f'terraform {{\n backend "http" {{\n{backend}}}\n}}\nresource "terraform_data" "network" {{\n{wait}}}\n'
        )
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.env = {**kept, "HOME": str(folder), "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1", "USER": "ada"}
        assert self.ask("init", "-input=false").returncode == 0

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["terraform", *words, "-no-color"],
            cwd=self.folder,
            env=self.env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        running = self.start(*words)
        said = running.communicate(timeout=120)[0]
        return subprocess.CompletedProcess(words, running.returncode, said)

    def apply(self) -> subprocess.Popen[str]:
        """Start an apply, and return once it is under way and holds the lock."""
        (self.folder / "begun").unlink(missing_ok=True)
        running = self.start("apply", "-auto-approve", "-input=false")
        until(lambda: (self.folder / "begun").exists() or running.poll() is not None)
        return running


@pytest.fixture
def states() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), States) as server:
        States.kept.clear()
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.skipif(
    shutil.which("terraform") is None,
    reason="NOT RUN: terraform is not installed: https://developer.hashicorp.com/terraform/install",
)
def test_the_real_client_locks_is_refused_forces_and_finds_a_crash_closed(
    server: Running, states: str, tmp_path: Path
) -> None:
    lock = f"{server.url}{STATE}"
    ada, bob = (Workspace(tmp_path / name, f"{states}/network", lock) for name in ("ada", "bob"))
    applying = ada.apply()
    refused = bob.ask("plan", "-input=false")
    assert (refused.returncode, "Error acquiring the state lock" in refused.stdout) == (1, True), refused.stdout
    id_ = server.get(f"inspect?resource={RESOURCE}").json["leases"][0]["context"]["ID"]
    assert f"HTTP remote state already locked: ID={id_}" in refused.stdout.replace("\n", " ").replace("  ", " ")
    (ada.folder / "go").touch()
    said = applying.communicate(timeout=120)[0]
    assert "Apply complete! Resources: 1 added" in said, said
    assert server.holders(RESOURCE) == []

    (ada.folder / "go").unlink()
    ada.ask("taint", "terraform_data.network")
    applying = ada.apply()
    id_ = server.get(f"inspect?resource={RESOURCE}").json["leases"][0]["context"]["ID"]
    forced = bob.ask("force-unlock", "-force", id_)
    assert forced.returncode == 0, forced.stdout
    assert server.holders(RESOURCE) == []
    (ada.folder / "go").touch()
    late = applying.communicate(timeout=120)[0]
    assert "Error releasing the state lock" in late, late


@pytest.mark.skipif(
    shutil.which("terraform") is None,
    reason="NOT RUN: terraform is not installed: https://developer.hashicorp.com/terraform/install",
)
def test_a_crash_of_the_real_client_closes_its_state_until_a_person_opens_it(
    server: Running, states: str, tmp_path: Path
) -> None:
    lock = f"{server.url}{STATE}"
    ada = Workspace(tmp_path / "ada", f"{states}/network", f"{lock}?ttl=8s")
    bob = Workspace(tmp_path / "bob", f"{states}/network", lock)
    applying = ada.apply()
    os.killpg(applying.pid, signal.SIGKILL)
    applying.communicate()
    until(lambda: server.get(f"inspect?resource={RESOURCE}").json["closed"])
    refused = bob.ask("plan", "-input=false")
    assert (refused.returncode, "ended uncleanly" in refused.stdout) == (1, True), refused.stdout
    with leasehold.connect(server.url) as locks:
        assert locks.clear(RESOURCE, by="ops", reason="the apply had ended")
    (bob.folder / "go").touch()
    assert bob.ask("apply", "-auto-approve", "-input=false").returncode == 0
