"""What a git store costs: how many git processes, and how many refs are fetched of how many there are."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import leasehold
from leasehold.domain.leases import Inspection
from leasehold.domain.outcomes import Granted, Released
from leasehold.stores.git import payload, refs
from leasehold.stores.git.objects import Objects
from leasehold.testing.conformance.asking import expect
from tests.kit.remotes import git, ours, runs, spying

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.kit.shell import Shell

PROVE = bool(os.environ.get("LEASEHOLD_PROVE"))
LEASES = 10_000 if PROVE else 300


def test_an_acquire_is_one_fetch_and_one_push(remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = spying(tmp_path / "spy")
    monkeypatch.setenv("PATH", f"{spy}:{os.environ['PATH']}")
    locks = leasehold.connect(f"git+file://{remote}?cache={tmp_path}/cache", holder="ada", threaded=False)
    for name in ("issue:1", "path:src/a.py", "deploy://api", ["a", "b", "path:c/d/e"]):
        taken = locks.acquire(name, ttl=60)
        assert isinstance(taken, Granted)
        assert [_verb(line) for line in runs(spy)] in (["fetch", "push"], ["push"]), name
        assert isinstance(locks.release(taken.lease.id, taken.token), Released)
        assert len(runs(spy)) <= 3
    locks.acquire("x", ttl=60)
    runs(spy)
    locks.acquire("x", ttl=60, holder="bob")
    assert [_verb(line) for line in runs(spy)] == ["fetch"], "a refusal writes nothing"
    locks.close()


def test_a_whole_command_needs_three_processes_at_most(shell: Shell, remote: Path, tmp_path: Path) -> None:
    git("init", "-q", str(shell.home))
    git("remote", "add", "origin", str(remote), cwd=shell.home)
    spy = spying(tmp_path / "spy")
    env = {"PATH": f"{spy}:{os.environ['PATH']}", "LEASEHOLD_URL": "git:."}
    for words in (("acquire", "issue:1"), ("renew", "issue:1"), ("release", "issue:1"), ("lock", "status", "issue:1")):
        assert shell.run(*words, env=env).code == 0
        told = runs(spy)
        most = 4 if words[0] == "lock" else 3  # `lock` also looks for grite's own
        assert len(told) <= most, told


def _verb(line: str) -> str:
    return next(word for word in line.split() if word in ("fetch", "push", "config", "cat-file", "gc"))


def test_many_leases_are_not_fetched_to_see_or_take_one(
    remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"git+file://{remote}?cache={tmp_path}"
    locks = leasehold.connect(f"{url}/first", holder="ada")
    locks.acquire("mine", ttl=600)
    locks.close()
    fill(remote, LEASES)
    assert len(ours(remote)) > LEASES
    fresh = leasehold.connect(f"{url}/second", holder="bob")
    assert isinstance(fresh.inspect("mine"), Inspection)
    assert isinstance(fresh.acquire("other", ttl=60), Granted)
    there = [path for path in (tmp_path / "second" / "refs").rglob("*") if path.is_file()]
    assert len(there) < 20, "only what was asked for was fetched"
    assert not list((tmp_path / "second" / "objects").rglob("*.pack"))
    assert len(expect(tuple, fresh.list())) == LEASES + 2
    fresh.close()


def fill(remote: Path, number: int) -> None:
    """Put that many leases there, in one go: each is what an acquire of a plain name by another machine leaves."""
    example = dict(ours(remote))
    key = next(refs.key_of(ref) for ref in example if "/n/" in ref)
    assert key is not None
    stored = payload.decode(key, git("log", "-1", "--format=%B", refs.of_key(key), cwd=remote))
    objects = Objects(str(remote))
    lines = []
    for place in range(number):
        other = f"n{place:032x}"
        entries = {}
        for id_, each in stored.items():
            hold = each.entry._replace(id=f"{id_.partition('-')[0]}-{other[1:]}")
            entries[hold.id] = each._replace(entry=hold)
        oid = objects.write(payload.encode(other, entries), 1_794_745_962_000_000)
        lines.append(f"{oid} {refs.of_key(other)}\n")
    packed = git("for-each-ref", "--format=%(objectname) %(refname)", cwd=remote).splitlines(keepends=True)
    whole = sorted([*(line.rstrip("\n") + "\n" for line in packed), *lines], key=lambda line: line.split()[1])
    (remote / "packed-refs").write_text("# pack-refs with: peeled fully-peeled sorted \n" + "".join(whole))


def test_a_clean_up_of_the_cache_that_takes_too_long_is_nobodys_failure(
    remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was asked for is done by then; the next one tries again."""
    slow = tmp_path / "slow" / "git"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\ncase " $* " in *" gc "*) exec sleep 600;; esac\nexec {shutil.which("git")} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    cache = tmp_path / "cache"
    locks = leasehold.connect(f"git+file://{remote}?cache={cache}&timeout=1s", holder="ada", threaded=False)
    taken = locks.acquire("issue:1", ttl=60)
    crowd = cache / "objects" / "17"
    crowd.mkdir(exist_ok=True)
    for number in range(100):
        (crowd / f"{number:038x}").touch()
    locks.close()
    assert isinstance(taken, Granted)
    assert not list((cache / "turns").iterdir()), "all else was given back"
