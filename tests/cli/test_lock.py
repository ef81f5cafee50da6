"""`leasehold lock`: grite's commands, as its pages write them and as its program takes them, with its answers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.kit.remotes import ENV, git
from tests.kit.shell import Shell, until

if TYPE_CHECKING:
    from pathlib import Path

ID = "issue:8057324b"


@pytest.fixture(params=["sqlite", "git"])
def store(request: pytest.FixtureRequest, shell: Shell, tmp_path: Path) -> dict[str, str]:
    """Where the locks live: they answer the same everywhere."""
    if request.param == "sqlite":
        return {}
    git("init", "-q", "--bare", str(tmp_path / "remote.git"))
    return {"LEASEHOLD_URL": f"git+file://{tmp_path}/remote.git"}


def test_the_documented_words_and_answers(shell: Shell, store: dict[str, str]) -> None:
    taken = shell.call("lock", "acquire", "--resource", ID, "--ttl", "30m", env=store)
    assert taken.code == 0
    assert re.fullmatch(
        rf"Lock acquired\n  Resource: {ID}\n  Expires: \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC\n", taken.out
    )
    refused = shell.call("lock", "acquire", "--resource", ID, "--ttl", "30m", holder="bob", env=store)
    assert refused.code == 4
    assert refused.out == ""
    assert re.fullmatch(rf"Error: Lock conflict\n  Resource: {ID}\n  Owner: ada\n  Expires: .* UTC\n", refused.err)
    shown = shell.call("lock", "status", env=store)
    assert re.fullmatch(rf"Active Locks:\n  {ID}  ada  expires in (30m|29m)\n", shown.out)
    assert shell.call("lock", "renew", "--resource", ID, "--ttl", "1h", env=store).out.startswith("Lock renewed\n")
    assert shell.call("lock", "release", "--resource", ID, env=store).out == f"Lock released\n  Resource: {ID}\n"
    assert shell.call("lock", "status", env=store).out == "No active locks\n"


def test_a_conflict_names_what_is_in_the_way_and_for_what_work(shell: Shell) -> None:
    shell.call("acquire", "path:src/auth.rs", "--name", "fix login", holder="bob")
    refused = shell.call("lock", "acquire", "--resource", "path:src")
    assert refused.code == 4
    assert refused.err.startswith("Error: Lock conflict\n  Resource: path:src\n  Owner: bob\n  Expires: ")
    assert refused.err.endswith(" UTC\n  Held as: path:src/auth.rs\n  Work: fix login\n")
    own = shell.call("lock", "acquire", "--resource", "path:src", holder="bob")
    assert "  Held as: path:src/auth.rs\n  Yours: go on under that if it is enough, or release it first\n" in own.err
    error = shell.call("lock", "acquire", "path:src", "--json").said["error"]
    said = "Lock on path:src is held by bob, as path:src/auth.rs, for fix login (expires in "
    assert error["message"].startswith(said)
    assert (error["code"], error["resource"], error["lock"]["resource"]) == ("conflict", "path:src", "path:src/auth.rs")


def test_status_has_the_columns_of_grites_page(shell: Shell) -> None:
    ann, ben = "64d15a2c383e2161772f9cea23e87222", "e5f6a7b8c9d0e1f2a3b4c5d6e7f8a9b0"
    shell.call("lock", "acquire", ID, "--ttl", "25m30s", holder=ann)
    shell.call("lock", "acquire", "path:src/api.rs", "--ttl", "55m30s", holder=ben)
    status = shell.call("lock", "status")
    assert status.out.splitlines() == [
        "Active Locks:",
        "  issue:8057324b  64d15a2c  expires in 25m",
        "  path:src/api.rs e5f6a7b8  expires in 55m",
    ]
    told = json.loads(shell.call("lock", "status", "--json").out)["data"]["locks"]
    assert [each["owner"] for each in told] == [ann, ben]


def test_status_tells_other_names_in_full_and_less_than_a_minute_in_seconds(shell: Shell) -> None:
    for number, holder in enumerate(("A" * 32, "f" * 31, "a longer name than eight")):
        shell.call("lock", "acquire", f"issue:{number}", "--ttl", "50s", holder=holder)
        shown = shell.call("lock", "status", f"issue:{number}").out
        assert re.fullmatch(rf"Active Locks:\n  issue:{number}         {holder}  expires in \d+s\n", shown)
    shell.call("lock", "acquire", "issue:long", "--ttl", "2h10m30s")
    assert shell.call("lock", "status", "issue:long").out.endswith(" expires in 2h10m\n")


def test_the_real_words_and_the_envelope(shell: Shell, store: dict[str, str]) -> None:
    before = time.time()
    said = shell.json("lock", "acquire", "path:src/api.rs", "--ttl", "3600", env=store)
    assert (said["schema_version"], said["ok"]) == (1, True)
    lock = said["data"]["lock"]
    assert (lock["resource"], lock["owner"]) == ("path:src/api.rs", "ada")
    assert lock["nonce"]
    assert before * 1_000 + 3_590_000 < lock["expires_unix_ms"] < time.time() * 1_000 + 3_610_000
    assert {name: said["data"][name] for name in lock} == lock, "side by side, as the program prints it"
    assert said["data"]["ttl_seconds"] == 3600
    done = shell.call("lock", "acquire", "path:src", "--json", holder="bob", env=store)
    assert done.code == 4
    assert done.said["ok"] is False
    assert done.said["error"]["code"] == "conflict"
    assert re.fullmatch(
        r"Lock on path:src is held by ada, as path:src/api\.rs \(expires in \d+s\)", done.said["error"]["message"]
    )
    same = shell.call("lock", "acquire", "path:src/api.rs", "--json", holder="bob", env=store).said["error"]
    assert re.fullmatch(r"Lock on path:src/api\.rs is held by ada \(expires in \d+s\)", same["message"]), "as there"
    told = shell.json("lock", "status", env=store)["data"]
    assert [(each["resource"], each["owner"]) for each in told["locks"]] == [("path:src/api.rs", "ada")]
    assert (told["conflicts"], told["total"]) == ([], 1)


def test_300_seconds_is_the_default(shell: Shell) -> None:
    assert shell.json("lock", "acquire", ID)["data"]["ttl_seconds"] == 300
    assert shell.json("lock", "renew", ID)["data"]["ttl_seconds"] == 300


def test_acquiring_again_keeps_the_fence(shell: Shell) -> None:
    first, second = (shell.json("lock", "acquire", ID, "--ttl", ttl)["data"] for ttl in ("5m", "10m"))
    assert (first["nonce"], first["fence"]) == (second["nonce"], second["fence"])
    assert second["expires_unix_ms"] > first["expires_unix_ms"]


def test_renew_acquires_what_is_missing_and_leaves_what_is_not_ours(shell: Shell) -> None:
    assert shell.call("lock", "renew", ID).code == 0
    refused = shell.call("lock", "renew", ID, "--json", holder="bob")
    assert refused.code == 4
    assert refused.said["error"]["message"] == f"Cannot renew lock on {ID} - owned by ada"


def test_release_of_what_is_missing_is_fine_and_of_what_is_not_ours_is_not(shell: Shell) -> None:
    assert shell.json("lock", "release", ID)["data"] == {"resource": ID, "released": False}
    shell.call("lock", "acquire", ID)
    refused = shell.call("lock", "release", ID, "--json", holder="bob")
    assert refused.code == 4
    assert refused.said["error"]["message"] == f"Cannot release lock on {ID} - owned by ada"
    assert shell.holders(ID) == ["ada"]
    assert shell.json("lock", "release", ID)["data"]["released"] is True


def test_release_from_another_home_of_the_same_holder(shell: Shell) -> None:
    shell.call("lock", "acquire", ID)
    url = {"LEASEHOLD_URL": f"sqlite://{shell.database}", "XDG_STATE_HOME": str(shell.home / "elsewhere")}
    assert shell.json("lock", "release", ID, env=url)["data"]["released"] is True
    assert shell.holders(ID) == []


def test_gc_removes_what_has_expired_and_keeps_fences(shell: Shell, store: dict[str, str]) -> None:
    shell.call("lock", "acquire", "issue:other", env=store)
    first = shell.json("lock", "acquire", ID, "--ttl", "10ms", env=store)["data"]
    until(lambda: shell.json("lock", "status", env=store)["data"]["total"] == 1)
    gone = shell.json("lock", "gc", env=store)["data"]
    assert gone["removed"] >= 1
    assert gone["kept"] == 1
    assert shell.json("lock", "acquire", ID, env=store)["data"]["fence"] > first["fence"]


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("acquire",), "resource"),
        (("acquire", "a", "--resource", "b"), "resource"),
        (("renew", "a", "--ttl", "x"), "ttl"),
    ],
)
def test_what_is_wrong_is_named(shell: Shell, words: tuple[str, ...], field: str) -> None:
    done = shell.call("lock", *words, "--json")
    assert done.code == 2
    assert done.said["error"]["field"] == field


# --------------------------------------------------------------------------------------- grite's own locks


def grite_lock(repository: Path, resource: str, owner: str, expires_in: float) -> None:
    """A lock as grite keeps it."""
    ends = int((time.time() + expires_in) * 1_000)
    grite_ref(
        repository, json.dumps({"owner": owner, "nonce": "n", "expires_unix_ms": ends, "resource": resource}), resource
    )


def grite_ref(repository: Path, told: str, resource: str = "") -> None:
    """A commit with this as lock.json."""
    blob = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"],
        cwd=repository,
        env=ENV,
        input=told,
        text=True,
        capture_output=True,
        check=True,
    ).stdout.strip()
    tree = subprocess.run(
        ["git", "mktree"],
        cwd=repository,
        env=ENV,
        input=f"100644 blob {blob}\tlock.json\n",
        text=True,
        capture_output=True,
        check=True,
    ).stdout.strip()
    commit = git("commit-tree", tree, "-m", f"Lock: {resource}", cwd=repository)
    git("update-ref", f"refs/grite/locks/{os.urandom(8).hex()}", commit, cwd=repository)


def test_locks_of_grite_are_shown_respected_and_left_alone(shell: Shell) -> None:
    git("init", "-q", str(shell.home))
    grite_lock(shell.home, "path:src", "64d15a2c383e2161772f9cea23e87222", 600)
    grite_lock(shell.home, "issue:1", "e5f6a7b8c9d0e1f2a3b4c5d6e7f8a9b0", -5)
    git(
        "update-ref",
        "refs/grite/locks/bad",
        git("commit-tree", "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "-m", "x", cwd=shell.home),
        cwd=shell.home,
    )
    before = git("for-each-ref", cwd=shell.home)
    told = shell.json("lock", "status")["data"]
    assert [(each["resource"], each["kept_by"]) for each in told["locks"]] == [("path:src", "grite")]
    refused = shell.call("lock", "acquire", "path:src/auth.rs", "--json")
    assert refused.code == 4
    assert refused.said["error"]["lock"]["owner"] == "64d15a2c383e2161772f9cea23e87222"
    assert shell.call("lock", "release", "path:src").code == 4
    assert shell.call("lock", "acquire", "issue:1").code == 0, "it has expired"
    assert shell.call("lock", "acquire", "path:docs").code == 0
    shell.call("lock", "gc")
    assert git("for-each-ref", cwd=shell.home) == before


@pytest.mark.parametrize(
    "told",
    [
        '{"owner": "o", "nonce": "n", "resource": "issue:1", "expires_unix_ms": Infinity}',
        '{"owner": "o", "nonce": "n", "resource": "issue:1", "expires_unix_ms": 1e999}',
        '{"owner": "o", "nonce": "n", "resource": ["issue:1"], "expires_unix_ms": 1}',
        "[" * 100_000,
        "not even JSON",
    ],
)
def test_a_lock_of_grite_that_cannot_be_read_stops_nobody(shell: Shell, told: str) -> None:
    git("init", "-q", str(shell.home))
    grite_ref(shell.home, told)
    assert shell.json("lock", "status")["data"]["locks"] == []
    assert shell.call("lock", "acquire", "issue:1").code == 0


def test_locks_of_grite_that_clash_with_ours_are_told(shell: Shell) -> None:
    shell.call("lock", "acquire", "path:src/a.rs")
    git("init", "-q", str(shell.home))
    env = {"LEASEHOLD_URL": f"sqlite://{shell.database}"}
    grite_lock(shell.home, "path:src", "64d15a2c", 600)
    (clash,) = shell.json("lock", "status", env=env)["data"]["conflicts"]
    assert (clash["resource"], clash["with"]["resource"]) == ("path:src", "path:src/a.rs")
