"""What is pushed: one ref a record, a commit without parents, readable, without secrets; nothing of anybody else's."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import partial
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.domain.outcomes import Granted, Held, Released
from leasehold.domain.sessions import SessionStarted
from leasehold.engine import batch
from leasehold.errors import StoreError, StoreUnsuitable, Unreachable
from leasehold.stores.git import payload
from leasehold.testing.conformance.asking import expect, until
from tests.kit.remotes import git, others, ours, served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from leasehold import Locks

FENCE = "refs/leasehold/fence"


@pytest.fixture
def connect(remote: Path, tmp_path: Path) -> Iterator[Callable[..., Locks]]:
    opened: list[Locks] = []

    def connect(holder: str = "ada", cache: str = "cache") -> Locks:
        opened.append(leasehold.connect(f"git+file://{remote}?cache={tmp_path}/{cache}&poll=50ms", holder=holder))
        return opened[-1]

    yield connect
    for locks in opened:
        locks.close()


def take(locks: Locks, *resources: str, ttl: float = 600) -> Granted:
    taken = locks.acquire(list(resources), ttl=ttl)
    assert isinstance(taken, Granted), taken
    return taken


def message(remote: Path, ref: str) -> str:
    return git("log", "-1", "--format=%B", ref, cwd=remote)


def nodes(remote: Path) -> list[str]:
    return [ref for ref in ours(remote) if "/n/" in ref]


def test_a_lease_is_a_readable_commit(remote: Path, connect: Callable[..., Locks]) -> None:
    take(connect(), "deploy://api-prod")
    (ref,) = nodes(remote)
    subject, _, body = message(remote, ref).partition("\n\n")
    assert subject == "deploy://api-prod held by ada for 10m (fence 1)"
    told = json.loads(body)
    (entry,) = told["entries"]
    assert (entry["kind"], entry["holder"], entry["mode"]) == ("hold", "ada", "X")
    assert entry["ask"]["options"][0]["resources"] == ["deploy://api-prod"]
    assert git("log", "--format=%s", FENCE, cwd=remote) == "Leasehold: commit 1, next fence 2"
    assert git("fsck", "--strict", cwd=remote) == ""


def test_names_with_anything_in_them_stay_inert(remote: Path, connect: Callable[..., Locks]) -> None:
    take(connect("ä\u202e\N{SKULL}"), "weird \u202e\N{SKULL} name")
    (ref,) = nodes(remote)
    assert "\u202e" not in message(remote, ref)
    assert expect(tuple, connect("bob").list())[0].resources == ("weird \u202e\N{SKULL} name",)


def test_chains_do_not_grow_with_renewals(remote: Path, connect: Callable[..., Locks]) -> None:
    locks = connect()
    held = take(locks, "r")
    for _ in range(3):
        locks.renew(held.lease.id, held.token)
    for ref in ours(remote):
        assert git("rev-list", "--count", ref, cwd=remote) == "1", ref


def test_no_secret_is_pushed(remote: Path, connect: Callable[..., Locks]) -> None:
    locks = connect()
    session = locks.start_session(ttl=60)
    assert isinstance(session, SessionStarted)
    held = take(locks, "r")
    locks.acquire("s", ttl=60, session=session.secret)
    pushed = "\n".join(message(remote, ref) for ref in ours(remote))
    assert held.lease.id in pushed
    assert held.token not in pushed
    assert session.secret.partition(".")[2] not in pushed


def test_nothing_is_left_of_what_was_released_but_the_fence(remote: Path, connect: Callable[..., Locks]) -> None:
    locks = connect()
    for names in (("r",), ("path:a/b", "issue:1", "x")):
        held = take(locks, *names)
        assert isinstance(locks.release(held.lease.id, held.token), Released)
    assert list(ours(remote)) == [FENCE]


def test_gc_removes_the_dead_for_everybody_and_keeps_fences(remote: Path, connect: Callable[..., Locks]) -> None:
    ada, bob = connect("ada"), connect("bob", "elsewhere")
    fences = [take(ada, f"r{place}", ttl=0.05).lease.fence for place in range(3)]
    take(ada, "alive")
    bob.list()
    until(lambda: len(expect(tuple, bob.list())) == 1, "bob has seen them expire")
    bob.gc()
    assert len(nodes(remote)) == 1 + 3, "what is alive, and the notes why the others are gone"
    fences.append(take(bob, "r0").lease.fence)
    assert fences == sorted(set(fences))
    assert [lease.resources for lease in ada.list()] == [("alive",), ("r0",)]  # type: ignore[union-attr]


def test_refs_of_others_stay_as_they_are(remote: Path, connect: Callable[..., Locks]) -> None:
    before = others(remote)
    ada, bob = connect("ada"), connect("bob", "elsewhere")
    held = take(ada, "path:src/a", "issue:1")
    bob.acquire("path:src", ttl=60)
    ada.release(held.lease.id, held.token)
    bob.gc()
    assert others(remote) == before


def test_a_bad_ref_harms_nobody_but_who_asks_for_it(remote: Path, connect: Callable[..., Locks]) -> None:
    locks = connect()
    take(locks, "good")
    take(locks, "bad")
    (ref,) = [each for each in nodes(remote) if "bad held" in message(remote, each)]
    git("update-ref", ref, git("rev-parse", "refs/heads/main", cwd=remote), cwd=remote)
    take(connect("bob", "elsewhere"), "other")
    assert isinstance(connect("bob", "elsewhere").acquire("good", ttl=60), Held)
    for ask in (partial(locks.acquire, "bad", ttl=60), locks.list):
        with pytest.raises(StoreError, match="not written by Leasehold"):
            ask()
    git("update-ref", "-d", ref, cwd=remote)
    take(connect("bob", "elsewhere"), "bad")


@pytest.mark.parametrize(
    "entry",
    [
        1.5,
        {"id": "x"},
        {"id": "x", "kind": "hold", "written": ["s", 1, 1], "ask": 1.5},
        {"id": "x", "kind": "hold", "written": ["s"]},
    ],
)
def test_an_entry_that_nobody_can_have_written_is_told_as_such(entry: object) -> None:
    body = {"schema": payload.SCHEMA, "key": "n1f", "entries": [entry]}
    with pytest.raises(StoreError, match="the ref of n1f below refs/leasehold/ cannot be read"):
        payload.decode("n1f", f"a line\n\n{json.dumps(body)}\n")


def rewritten(remote: Path, ref: str, schema: int) -> None:
    told = message(remote, ref)
    assert f'"schema": {payload.SCHEMA}' in told
    tree = git("rev-parse", f"{ref}^{{tree}}", cwd=remote)
    other = told.replace(f'"schema": {payload.SCHEMA}', f'"schema": {schema}')
    git("update-ref", ref, git("commit-tree", tree, "-m", other, cwd=remote), cwd=remote)


def test_a_newer_version_is_not_misread(remote: Path, connect: Callable[..., Locks]) -> None:
    take(connect(), "r")
    (ref,) = nodes(remote)
    rewritten(remote, ref, payload.SCHEMA + 1)
    with pytest.raises(StoreError, match="update Leasehold"):
        connect("bob", "elsewhere").acquire("r", ttl=60)


def test_an_older_version_is_refused_and_its_advice_starts_anew(remote: Path, connect: Callable[..., Locks]) -> None:
    take(connect(), "r")
    for ref in git("for-each-ref", "--format=%(refname)", "refs/leasehold", cwd=remote).split():
        rewritten(remote, ref, payload.SCHEMA - 1)
    before = git("for-each-ref", "refs/leasehold", cwd=remote)
    with pytest.raises(StoreUnsuitable, match=f"schema {payload.SCHEMA} only: an older version") as refused:
        connect("bob", "elsewhere").acquire("r", ttl=60)
    assert git("for-each-ref", "refs/leasehold", cwd=remote) == before
    command = str(refused.value).partition("\n")[2].replace("REMOTE", str(remote))
    subprocess.run(["sh", "-c", command], cwd=remote, check=True, capture_output=True)
    take(connect("bob", "elsewhere"), "r")


def test_the_cache_may_be_removed_at_any_time(remote: Path, connect: Callable[..., Locks], tmp_path: Path) -> None:
    held = take(connect("ada"), "r")
    assert isinstance(connect("bob", "another").acquire("r", ttl=60), Held)
    released = connect("ada", "a-third").release(held.lease.id, held.token)
    assert isinstance(released, Released)
    assert released.released


def test_the_cache_may_be_removed_while_a_process_uses_it(connect: Callable[..., Locks], tmp_path: Path) -> None:
    locks = connect("ada")
    held = take(locks, "r")
    for number in range(2):
        shutil.rmtree(tmp_path / "cache")
        assert len(expect(tuple, locks.list())) == number + 1
        shutil.rmtree(tmp_path / "cache")
        take(locks, f"r{number}")
    assert isinstance(connect("bob").acquire("r", ttl=60), Held)
    released = locks.release(held.lease.id, held.token)
    assert isinstance(released, Released)
    assert released.released


def test_a_remote_that_is_locked_by_a_git_that_was_killed_says_so(
    remote: Path, connect: Callable[..., Locks], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "ATTEMPTS", 3)
    locks = connect()
    take(locks, "r")
    (remote / f"{FENCE}.lock").touch()
    with pytest.raises(StoreError, match=r"too busy.*fence\.lock': File exists"):
        locks.acquire("r2", ttl=60)


def test_options_that_are_meant_for_the_pushes_of_branches_are_not_sent(
    connect: Callable[..., Locks], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"COUNT": "1", "KEY_0": "push.pushOption", "VALUE_0": "ci.skip"}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    take(connect(), "r")


def test_a_remote_that_cannot_push_atomically_is_refused(remote: Path, connect: Callable[..., Locks]) -> None:
    git("config", "receive.advertiseAtomic", "false", cwd=remote)
    with pytest.raises(StoreUnsuitable, match="atomic"):
        connect().acquire("r", ttl=60)
    assert ours(remote) == {}


def test_a_remote_that_refuses_says_why(remote: Path, connect: Callable[..., Locks]) -> None:
    hook = remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no locks here >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(StoreUnsuitable, match=r"pre-receive hook declined.*no locks here"):
        connect().acquire("r", ttl=60)


def test_a_remote_that_is_not_there(connect: Callable[..., Locks], remote: Path) -> None:
    locks = connect()
    take(locks, "r")
    remote.rename(remote.with_name("moved"))
    for ask in (partial(locks.acquire, "s", ttl=60), partial(locks.inspect, "r"), locks.list):
        with pytest.raises(Unreachable, match="cannot be reached"):
            ask()
    remote.with_name("moved").rename(remote)
    take(locks, "s")


def test_a_lock_that_a_killed_git_left_in_the_cache(connect: Callable[..., Locks], tmp_path: Path) -> None:
    take(connect(), "r")
    take(connect("bob", "elsewhere"), "s")
    (tmp_path / "cache" / "refs" / "leasehold" / "fence.lock").touch()
    assert isinstance(connect().acquire("s", ttl=60), Held)


def test_a_remote_that_one_may_only_read_says_so(remote: Path, tmp_path: Path) -> None:
    with served(tmp_path, is_writable=False) as url:
        locks = leasehold.connect(f"git+{url}/remote.git?cache={tmp_path}/cache", threaded=False)
        with pytest.raises(Unreachable, match="service not enabled"):
            locks.acquire("r", ttl=60)
        assert locks.list() == ()
        locks.close()


def test_a_remote_with_another_hash_is_refused(tmp_path: Path) -> None:
    git("init", "-q", "--bare", "--object-format=sha256", str(tmp_path / "other.git"))
    locks = leasehold.connect(f"git+file://{tmp_path}/other.git?cache={tmp_path}/cache", threaded=False)
    with pytest.raises(StoreUnsuitable, match="SHA-1"):
        locks.acquire("r", ttl=60)
    locks.close()
