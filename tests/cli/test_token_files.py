"""The tokens that the command line keeps: found again, private, safe with many processes at once."""

from __future__ import annotations

import os
import subprocess
import sys
from stat import S_IMODE
from typing import TYPE_CHECKING

import pytest

from leasehold import LeaseholdError
from leasehold.cli import tokens as state
from leasehold.config import credentials
from leasehold.config.identity import NamedIdentity
from tests.kit.someone import SOURCE, settle

if TYPE_CHECKING:
    from pathlib import Path

WHO = ("sqlite:///x.db", "default", "ada")


def tokens_of(url: str, space: str, holder: str) -> state.Tokens:
    return state.Tokens(url, space, NamedIdentity(holder))


ONE, TWO = (f"l{fence}-{fence:032x}" for fence in (1, 2))


@pytest.fixture(autouse=True)
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return settle(tmp_path, monkeypatch) / "state" / "leasehold" / "tokens"


def files(tokens: Path) -> list[Path]:
    return sorted(tokens.iterdir())


def test_what_was_remembered_is_recalled_by_resource_and_by_id() -> None:
    tokens_of(*WHO).remember(["issue:1"], ONE, "secret")
    assert tokens_of(*WHO).recall("issue:1") == (ONE, "secret")
    assert tokens_of(*WHO).recall(ONE) == (ONE, "secret")
    assert tokens_of(*WHO).recall("issue:2") is None


def test_nothing_is_known_at_first_and_nothing_is_created_by_asking(tokens: Path) -> None:
    assert tokens_of(*WHO).recall("issue:1") is None
    assert tokens_of(*WHO).all() == []
    assert state.tidy() == 0
    tokens_of(*WHO).forget(ONE)
    assert not tokens.exists()


@pytest.mark.parametrize("other", [("sqlite:///y.db", *WHO[1:]), (WHO[0], "x", WHO[2]), (*WHO[:2], "bob")])
def test_stores_spaces_and_holders_are_kept_apart(other: tuple[str, str, str]) -> None:
    tokens_of(*WHO).remember(["issue:1"], ONE, "secret")
    assert tokens_of(*other).recall("issue:1") is None
    assert (tokens_of(*other).all(), tokens_of(*other).proofs(["issue:1"])) == ([], [])
    if other[:2] != WHO[:2]:  # a lease that is over is over for everybody
        tokens_of(*other).forget(ONE)
    assert tokens_of(*WHO).recall("issue:1") == (ONE, "secret")


def test_a_lease_over_several_resources_is_found_under_each_and_forgotten_at_once(tokens: Path) -> None:
    resources = ["issue:1", "path:with blank/and ü", "deploy://api"]
    tokens_of(*WHO).remember(resources, ONE, "secret")
    assert {tokens_of(*WHO).recall(resource) for resource in resources} == {(ONE, "secret")}
    assert sorted(line.resource for line in tokens_of(*WHO).all()) == sorted(resources)
    tokens_of(*WHO).forget(ONE)
    assert [tokens_of(*WHO).recall(resource) for resource in (*resources, ONE)] == [None] * 4
    assert files(tokens) == []


def test_the_newest_lease_on_a_resource_comes_first_and_the_others_stay_known() -> None:
    tokens_of(*WHO).remember(["pool"], ONE, "first")
    tokens_of(*WHO).remember(["pool"], TWO, "second")
    assert tokens_of(*WHO).recall("pool") == (TWO, "second")
    assert tokens_of(*WHO).recall(ONE) == (ONE, "first")
    tokens_of(*WHO).forget(TWO)
    assert tokens_of(*WHO).recall("pool") == (ONE, "first")


def test_the_same_lease_again_has_its_newest_token_once() -> None:
    for token in ("first", "second"):
        tokens_of(*WHO).remember(["issue:1"], ONE, token)
    assert tokens_of(*WHO).recall("issue:1") == tokens_of(*WHO).recall(ONE) == (ONE, "second")
    assert tokens_of(*WHO).all() == [state.SavedToken(ONE, "second", 1, "", "ada", "issue:1")]


def test_forgetting_a_lease_that_expired_spares_its_successor() -> None:
    tokens_of(*WHO).remember(["issue:1"], ONE, "stale")
    tokens_of(*WHO).remember(["issue:1"], TWO, "fresh")
    tokens_of(*WHO).forget(ONE)
    tokens_of(*WHO).forget(ONE)
    assert tokens_of(*WHO).recall("issue:1") == (TWO, "fresh")


def test_stale_leases_of_one_resource_do_not_pile_up(tokens: Path) -> None:
    for fence in range(1, state.MOST + 6):
        tokens_of(*WHO).remember(["issue:1"], f"l{fence}-{0:032x}", "secret")
    kept = {line.lease for line in tokens_of(*WHO).all() if line.resource == "issue:1"}
    assert tokens_of(*WHO).recall("issue:1") == (f"l{state.MOST + 5}-{0:032x}", "secret")
    lines = [path.read_text().splitlines() for path in files(tokens)]
    assert max(map(len, lines)) == state.MOST
    assert len(kept) == state.MOST + 5, "by its id each is still found"


def test_tidying_removes_what_nobody_touched_for_long(tokens: Path) -> None:
    tokens_of(*WHO).remember(["issue:1"], ONE, "old")
    tokens_of(*WHO).remember(["issue:2"], TWO, "new")
    (tokens / ".half-written.1").touch(0o600)
    for path in files(tokens):
        if "old" in path.read_text() or path.name.startswith("."):
            os.utime(path, (0, 0))
    assert state.tidy() == 3
    assert tokens_of(*WHO).recall("issue:1") is None
    assert tokens_of(*WHO).recall("issue:2") == (TWO, "new")


# ------------------------------------------------------------------------------------------------- privacy


def test_directory_and_files_are_private_whatever_the_umask(tokens: Path) -> None:
    before = os.umask(0)
    try:
        tokens_of(*WHO).remember(["issue:1"], ONE, "secret")
    finally:
        os.umask(before)
    assert S_IMODE(tokens.stat().st_mode) == 0o700
    assert {S_IMODE(path.stat().st_mode) for path in files(tokens)} == {0o600}


def test_neither_names_nor_tokens_are_in_the_names_of_files(tokens: Path) -> None:
    tokens_of(*WHO).remember(["issue:secret-project"], ONE, "token")
    assert all(not {"secret", "token", "issue", ONE} & {path.name} for path in files(tokens))
    assert all(set(path.name) <= set("0123456789abcdef-") for path in files(tokens))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602])
def test_a_file_that_others_can_use_is_refused(tokens: Path, mode: int) -> None:
    tokens_of(*WHO).remember(["issue:1"], ONE, "secret")
    for path in files(tokens):
        path.chmod(mode)
    with pytest.raises(LeaseholdError, match=rf"not private.*{mode:04o}.*chmod 600"):
        tokens_of(*WHO).recall("issue:1")
    with pytest.raises(LeaseholdError, match="not private"):
        tokens_of(*WHO).remember(["issue:1"], TWO, "secret")


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o777])
def test_a_directory_that_others_can_use_is_refused(tokens: Path, mode: int) -> None:
    tokens.mkdir(parents=True)
    tokens.chmod(mode)
    with pytest.raises(LeaseholdError, match=r"not private.*chmod 700"):
        tokens_of(*WHO).remember(["issue:1"], ONE, "secret")
    assert files(tokens) == []


def test_a_token_file_of_another_user_is_refused(tokens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens_of(*WHO).remember(["issue:1"], ONE, "secret")
    monkeypatch.setattr(os, "geteuid", lambda: 4_242)
    with pytest.raises(LeaseholdError, match="another user"):
        tokens_of(*WHO).recall("issue:1")


def test_a_link_is_not_followed(tokens: Path, tmp_path: Path) -> None:
    tokens_of(*WHO).remember(["issue:1"], ONE, "secret")
    for path in files(tokens):
        path.rename(tmp_path / path.name)
        path.symlink_to(tmp_path / path.name)
    with pytest.raises(LeaseholdError, match="tokens cannot be kept"):
        tokens_of(*WHO).recall("issue:1")


def test_what_is_no_file_is_refused_and_never_waited_for(tokens: Path) -> None:
    tokens_of(*WHO).remember(["issue:1"], ONE, "secret")
    for path in files(tokens):
        path.unlink()
        os.mkfifo(path, 0o600)
    with pytest.raises(LeaseholdError, match="not a file"):
        tokens_of(*WHO).recall("issue:1")


def test_lines_that_make_no_sense_are_passed_over(tokens: Path) -> None:
    tokens_of(*WHO).remember(["issue:1"], ONE, "secret")
    for path in files(tokens):
        path.write_bytes(b"nonsense\n\n\xff\xff\na\tb\tc\td\te\tissue:1\n" + path.read_bytes())
    assert tokens_of(*WHO).recall("issue:1") == (ONE, "secret")


def test_a_place_that_cannot_be_written_is_a_clear_error(tokens: Path) -> None:
    tokens.parent.mkdir(parents=True)
    tokens.write_text("in the way")
    with pytest.raises(LeaseholdError, match=r"tokens cannot be kept in .*--token-file"):
        tokens_of(*WHO).remember(["issue:1"], ONE, "secret")


def test_a_write_that_fails_leaves_what_was_there(tokens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens_of(*WHO).remember(["issue:1"], ONE, "secret")
    before = files(tokens)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", full)
        with pytest.raises(LeaseholdError, match="No space left"):
            tokens_of(*WHO).remember(["issue:1"], TWO, "secret")
    assert files(tokens) == before
    assert tokens_of(*WHO).recall("issue:1") == (ONE, "secret")


# ----------------------------------------------------------------------------------------- many at once

WORKER = """
import sys
sys.path.insert(0, sys.argv[1])
from leasehold.cli import tokens as state
from leasehold.config.identity import NamedIdentity
tokens, me = state.Tokens("sqlite:///x.db", "default", NamedIdentity("ada")), int(sys.argv[2])
for turn in range(20):
    lease = f"l{me * 100 + turn + 1}-{0:032x}"
    tokens.remember(["pool", f"mine:{me}"], lease, f"token-{me}-{turn}")
    assert tokens.recall(lease) == (lease, f"token-{me}-{turn}")
    assert tokens.recall(f"mine:{me}") == (lease, f"token-{me}-{turn}")
    assert tokens.recall("pool") is not None
    if turn % 2:
        tokens.forget(lease)
        assert tokens.recall(lease) is None
"""


def test_processes_do_not_lose_each_others_tokens(tokens: Path) -> None:
    workers = [
        subprocess.Popen([sys.executable, "-I", "-c", WORKER, str(SOURCE), str(me)], stderr=subprocess.PIPE)
        for me in range(8)
    ]
    failures = [worker.communicate()[1] for worker in workers]
    assert all(worker.returncode == 0 for worker in workers), failures
    kept = {line.lease for line in tokens_of(*WHO).all() if line.resource == "pool"}
    assert kept == {f"l{me * 100 + turn + 1}-{0:032x}" for me in range(8) for turn in range(0, 20, 2)}
    assert not [path for path in files(tokens) if path.name.startswith(".")]


ADA = ("default", "ada")
SPELLINGS = [
    (
        "http://localhost:7420",
        "http://localhost:7420/",
        "HTTP://LOCALHOST:7420",
        "http://localhost",
        "http://Localhost//",
    ),
    ("https://a.example/locks", "https://A.example:443/locks/"),
    ("http://a:1,http://b:2", "http://B:2/,http://a:1"),
    ("sqlite:///var/x.db", "sqlite:///var/x.db?retention_days=7", "SQLITE:///var/x.db"),
    ("postgresql://ada@db/x", "postgres://ada:secret@DB:5432/x", "postgresql://ada@db/x?password=secret"),
    ("etcd://a,b:1/team", "etcd://B:1,A:2379/team/", "etcd://a,b:1/team?tls=true"),
    ("git:/r/.git", "git:/r/.git?max_skew=5s", "git:/r/.git/"),
    ("git+ssh://git@host/r.git", "git+ssh://git@HOST/r.git/", "git+ssh://git@host/r.git?poll=1s"),
    ("git+file:///r.git", "git+file:///r.git/?timeout=5s"),
]
OTHERS = [
    ("http://localhost:7420", "https://localhost:7420"),
    ("http://localhost:7420", "http://localhost:7421"),
    ("http://localhost/a", "http://localhost/A"),
    ("http://localhost", "http://127.0.0.1"),
    ("http://a", "http://a,http://b"),
    ("sqlite:///x.db", "sqlite:///X.db"),
    ("sqlite:///a?b=c/x.db", "sqlite:///a"),
    ("postgresql://ada@db/x", "postgresql://ada@db/y"),
    ("postgresql://ada@db", "postgresql://bob@db"),
    ("postgresql://db/x", "postgresql://db/x?options=-csearch_path%3Dy"),
    ("etcd://a/x", "etcd://a/y"),
    ("git:/r/.git", "git:/r/.git?remote=upstream"),
]


@pytest.mark.parametrize("spellings", SPELLINGS, ids=lambda each: each[0])
def test_a_store_is_the_same_however_it_is_spelled(spellings: tuple[str, ...], tokens: Path) -> None:
    for one in spellings:
        tokens_of(one, *ADA).remember(["issue:1"], ONE, "secret")
        for other in spellings:
            assert tokens_of(other, *ADA).recall("issue:1") == (ONE, "secret")
            assert tokens_of(other, *ADA).all() == [state.SavedToken(ONE, "secret", 1, "", "ada", "issue:1")]
        tokens_of(spellings[0], *ADA).forget(ONE)
        assert files(tokens) == []


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_another_store_is_another_one(one: str, other: str) -> None:
    tokens_of(one, *ADA).remember(["issue:1"], ONE, "secret")
    assert tokens_of(other, *ADA).recall("issue:1") is None


def test_a_key_is_found_however_its_server_is_spelled_and_for_no_other(tmp_path: Path) -> None:
    file = tmp_path / "leasehold" / "credentials"
    file.parent.mkdir(mode=0o700)
    file.write_text("HTTP://Localhost:7420/ lh_1_a\n")
    file.chmod(0o600)
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    for url in ("http://localhost", "http://localhost:7420", "http://LOCALHOST:7420/"):
        assert credentials.stored(url, env) == "lh_1_a"
    for url in ("https://localhost", "http://localhost:80", "http://localhost@evil", "http://localhost/x", "http://a"):
        assert credentials.stored(url, env) is None
