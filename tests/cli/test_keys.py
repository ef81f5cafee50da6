"""`leasehold keys`: created once, listed without secrets, revoked for good."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.kit.serving import create_key, serving

if TYPE_CHECKING:
    from pathlib import Path


def run(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "LEASEHOLD_URL": f"sqlite:///{folder / 'locks.db'}", **env}
    return subprocess.run(
        [sys.executable, "-m", "leasehold.cli", *words],
        check=False,
        capture_output=True,
        text=True,
        env=settings,
        cwd=folder,
    )


def data(folder: Path, *words: str) -> Any:  # noqa: ANN401 (JSON)
    done = run(folder, *words, "--json")
    assert done.returncode == 0, done
    return json.loads(done.stdout)["data"]


def test_from_create_to_revoke(tmp_path: Path) -> None:
    made = run(tmp_path, "keys", "create", "ci", "--space", "team", "--prefix", "path:", "--prefix", "issue:")
    assert made.returncode == 0
    marker, id_, secret = made.stdout.strip().split("_")
    assert (marker, len(secret)) == ("lh", 32)
    (listed,) = data(tmp_path, "keys", "list")["keys"]
    assert (listed["id"], listed["role"], listed["space"], listed["name"]) == (id_, "agent", "team", "ci")
    assert listed["prefixes"] == ["path:", "issue:"]
    shown = run(tmp_path, "keys", "list").stdout
    assert id_ in shown
    assert secret not in shown
    assert data(tmp_path, "keys", "revoke", id_) == {"key": id_, "revoked": True}
    again = run(tmp_path, "keys", "revoke", id_)
    assert (again.returncode, again.stderr.splitlines()[-2:]) == (
        3,
        ["Next: see which keys there are:", "  leasehold keys list"],
    )
    assert run(tmp_path, "keys", "list").stdout == "No keys.\n"
    kinds = [event["kind"] for event in data(tmp_path, "history", "--all-spaces")["events"]]
    assert kinds == ["key_revoked", "key_created"]


def _of(url: str, key: str) -> dict[str, str]:
    return {"LEASEHOLD_URL": url, "LEASEHOLD_API_KEY": key}


def test_an_admin_is_told_whose_key_a_lease_was_taken_with_and_others_are_not(tmp_path: Path) -> None:
    admin, coder = create_key(tmp_path, "admin"), create_key(tmp_path, "agent", name="coder")
    told = {}
    with serving(tmp_path) as server:
        assert run(tmp_path, "acquire", "x", "--holder", "alice", **_of(server.url, coder)).returncode == 0
        for key in (admin, coder):
            calls = (("inspect", "x"), ("history",))
            told[key] = "".join(run(tmp_path, *words, **_of(server.url, key)).stdout for words in calls)
    number = coder.split("_")[1]
    assert f"  key       {number} of coder:{number}" in told[admin]
    assert f"key of coder:{number}" in told[admin].partition("granted")[2]
    assert f"  key       {number}" not in told[coder]


def test_a_key_in_a_file_is_for_its_owner_only(tmp_path: Path) -> None:
    made = run(tmp_path, "keys", "create", "ops", "--role", "admin", "--key-file", "ops.key")
    assert made.returncode == 0
    written = tmp_path / "ops.key"
    assert written.stat().st_mode & 0o777 == 0o600
    secret = written.read_text().strip().split("_")[2]
    assert secret not in made.stdout + made.stderr
    told = run(tmp_path, "keys", "create", "ci", "--key-file", "ci.key", "--json")
    assert (tmp_path / "ci.key").read_text().strip().split("_")[2] not in told.stdout + told.stderr
    made_json = json.loads(told.stdout)["data"]
    assert (made_json.keys(), made_json["key_file"]) == ({"key", "key_file"}, "ci.key")
    assert run(tmp_path, "keys", "revoke", made_json["key"]["id"]).returncode == 0
    failed = run(tmp_path, "keys", "create", "ops", "--key-file", "missing/ops.key")
    assert failed.returncode == 2
    assert len(data(tmp_path, "keys", "list")["keys"]) == 1  # the one that nobody could read is not left behind


def test_a_key_is_not_written_over_what_is_there(tmp_path: Path) -> None:
    assert run(tmp_path, "keys", "create", "ops", "--role", "admin", "--key-file", "ops.key").returncode == 0
    written = (tmp_path / "ops.key").read_text()
    again = run(tmp_path, "keys", "create", "ci", "--key-file", "ops.key")
    assert (again.returncode, again.stdout) == (2, "")
    assert "ops.key is there, perhaps with a key: name another, or remove it" in again.stderr
    assert (tmp_path / "ops.key").read_text() == written
    assert [key["name"] for key in data(tmp_path, "keys", "list")["keys"]] == ["ops"]
    (tmp_path / "new.key").touch()  # as mktemp does
    assert run(tmp_path, "keys", "create", "ci", "--key-file", "new.key").returncode == 0
    assert (tmp_path / "new.key").read_text().startswith("lh_")


def test_what_is_refused(tmp_path: Path) -> None:
    assert run(tmp_path, "keys", "create", "x", "--role", "god").returncode == 2
    assert run(tmp_path, "keys", "create").returncode == 2
    assert run(tmp_path, "keys", "revoke", "lh_a_b").returncode == 2
    assert run(tmp_path, "serve", "--port", "70000").returncode == 2
    assert run(tmp_path, "serve", "--tls-cert", "cert.pem").returncode == 2
    assert run(tmp_path, "serve", "--keep-open", "soon").returncode == 2
    for option in ("--keep-open", "--keep-place"):
        assert (
            "at least 10ms"
            in run(
                tmp_path, "serve", "--port", "0", option, "0", "--tls-cert", "none.pem", "--tls-key", "none.pem"
            ).stderr
        )
    no_tls = run(tmp_path, "serve", "--port", "0", "--tls-cert", "none.pem", "--tls-key", "none.pem")
    assert (no_tls.returncode, no_tls.stdout) == (2, "")
    assert "none.pem" in no_tls.stderr


def test_over_a_server(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        known = {"LEASEHOLD_URL": server.url, "LEASEHOLD_API_KEY": create_key(tmp_path, "admin")}
        made = run(tmp_path, "keys", "create", "ci", **known).stdout.strip()
        id_ = made.split("_")[1]
        assert id_ in run(tmp_path, "keys", "list", **known).stdout
        done = run(tmp_path, "keys", "revoke", id_, **known)
        assert (done.returncode, done.stderr) == (0, "")
        assert id_ not in run(tmp_path, "keys", "list", **known).stdout
        assert run(tmp_path, "keys", "revoke", id_, **known).returncode == 3
        assert run(tmp_path, "keys", "revoke", "lh_a_b", **known).returncode == 2


def test_without_a_key_a_server_that_has_some_allows_nothing(tmp_path: Path) -> None:
    create_key(tmp_path, "admin")
    with serving(tmp_path) as server:
        done = run(tmp_path, "list", LEASEHOLD_URL=server.url)
        assert (done.returncode, done.stdout) == (8, "")
        assert "Next: give a key that the server knows, and try again:\n  export LEASEHOLD_API_KEY=lh_…" in done.stderr


def test_who_closes_the_door_before_an_admin_has_a_key_is_told_so(tmp_path: Path) -> None:
    first = run(tmp_path, "keys", "create", "wall", "--role", "viewer")
    assert "no admin has one yet\nNext: make one for an admin:\n" in first.stderr
    assert first.stderr.endswith("\n  leasehold keys create NAME --role admin\n")
    assert first.stdout.startswith("lh_")
    assert run(tmp_path, "keys", "create", "ops", "--role", "admin").stderr == ""
    assert run(tmp_path, "keys", "create", "ci").stderr == ""
