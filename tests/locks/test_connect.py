"""`connect` and `aconnect`: what is given wins, what is not comes from the configuration. And what start-up imports."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.config import settings as config
from tests.kit.someone import SOURCE, git, repository

if TYPE_CHECKING:
    from pathlib import Path

FORBIDDEN = frozenset(
    (
        *("typing", "re", "enum", "dataclasses", "functools", "json", "pathlib", "logging", "contextlib", "tomllib"),
        *("subprocess", "argparse", "urllib", "datetime", "hashlib", "socket", "getpass", "platform", "configparser"),
    )
)


pytestmark = pytest.mark.usefixtures("home")


def test_connect_takes_everything_from_the_configuration(work: Path) -> None:
    (work / "leasehold.toml").write_text(
        'url = "sqlite:here.db"\nspace = "acme"\nholder = "ada"\nttl_max = "1m"\nhierarchical = ["s3"]'
    )
    with leasehold.connect() as locks:
        assert (locks.holder, locks.space) == ("ada", "acme")
        assert isinstance(locks.acquire("s3://bucket", ttl=60), leasehold.Granted)
        assert isinstance(locks.acquire("s3://bucket/a", ttl=60, holder="bob"), leasehold.Held)
        assert isinstance(locks.acquire("x", ttl=61), leasehold.Refused)
    assert (work / "here.db").exists()


def test_what_is_given_to_connect_wins(work: Path) -> None:
    (work / "leasehold.toml").write_text('url = "sqlite:here.db"\nspace = "acme"\nholder = "ada"\nttl_max = "1m"')
    with leasehold.connect("sqlite:b.db", holder="bob", space="other", settings=leasehold.Settings()) as locks:
        assert (locks.holder, locks.space) == ("bob", "other")
        assert isinstance(locks.acquire("x", ttl="1h"), leasehold.Granted)
    assert not (work / "here.db").exists()


def test_two_users_of_one_database_who_chose_one_name_are_two_principals(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither replays or cancels the other's requests, and a deadlock between them is one."""
    url = f"sqlite://{work}/here.db"
    own = os.geteuid()
    with leasehold.connect(url, holder="ci") as ada:
        monkeypatch.setattr(os, "geteuid", lambda: own + 1)
        other = leasehold.connect(url, holder="ci")
        monkeypatch.undo()
        with other as bob:
            taken = ada.acquire("x", ttl=60, request_id="release-7")
            assert isinstance(taken, leasehold.Granted)
            again = ada.acquire("x", ttl=60, request_id="release-7")
            assert isinstance(again, leasehold.Granted)
            assert again.lease.id == taken.lease.id
            assert isinstance(bob.acquire("x", ttl=60, request_id="release-7"), leasehold.Held)
            cancelled = bob.cancel("release-7")
            assert isinstance(cancelled, leasehold.Cancelled)
            assert cancelled.was != "granted"
            assert bob.acquire("y", ttl=60, intent=True)
            assert isinstance(ada.acquire("y", ttl=60, intent=True), leasehold.Held)
            assert isinstance(bob.acquire("x", ttl=60, intent=True), leasehold.Deadlock)


def test_connect_takes_a_choice(work: Path) -> None:
    choice = config.find("sqlite:x.db", env={"HOME": str(work), "LEASEHOLD_SPACE": "chosen"})
    with leasehold.connect(choice, threaded=False) as locks:
        assert locks.space == "chosen"
        assert f":{os.getpid()}-" in locks.holder


def test_aconnect_chooses_likewise(work: Path) -> None:
    (work / "leasehold.toml").write_text('url = "sqlite:here.db"\nspace = "acme"')

    async def go() -> str:
        locks = await leasehold.aconnect()
        try:
            return locks.space
        finally:
            await locks.close()

    assert asyncio.run(go()) == "acme"
    assert (work / "here.db").exists()


def test_connect_by_default_in_a_git_repository(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = repository(home / "main")
    monkeypatch.chdir(main)
    with leasehold.connect() as locks:
        assert isinstance(locks.acquire("issue:1", ttl=60), leasehold.Granted)
    assert (main / ".git" / "leasehold" / "leasehold.db").exists()
    assert git(main, "status", "--porcelain") == ""
    git(main, "fsck", "--strict")


def test_a_url_of_an_unknown_kind_says_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_URL", "ftp://ada:secret@x")
    with pytest.raises(leasehold.InvalidInput, match=r"ftp://ada:\*\*\*@x.*LEASEHOLD_URL.*sqlite:") as caught:
        leasehold.connect()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        *("sqlite:", "sqlite:///", "nonsense", "https:"),
        *("sqlite://locks.db", "SQLite://~/locks.db", "sqlite://localhost/locks.db?retention_days=1"),
        *("sqlite::memory:", "sqlite:///:memory:"),
    ],
)
def test_an_unusable_url_is_refused(url: str) -> None:
    with pytest.raises(leasehold.InvalidInput, match="sqlite:"):
        leasehold.connect(url)


def test_a_path_that_is_not_utf8_is_refused_clearly(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = home / os.fsdecode(b"caf\xe9")
    git(home, "init", "--quiet", str(odd))
    monkeypatch.chdir(odd)
    with pytest.raises(leasehold.InvalidInput, match="UTF-8"):
        leasehold.connect()


# ----------------------------------------------------------------------------------------------- start-up


PLAIN = """
import sys
sys.path.insert(0, sys.argv[1])
from leasehold.config import settings as config
from leasehold.config import identity
from leasehold.locks import connect as opening
from leasehold.cli import tokens as state
choice = config.find()
identity.session()
tokens = state.Tokens(choice.url, choice.space, identity.find(choice))
tokens.remember(["issue:1"], "l1-" + 32 * "0", "secret")
tokens.recall("issue:1")
tokens.forget("l1-" + 32 * "0")
print("\\n".join(sys.modules))
"""


@pytest.mark.parametrize("is_git", [True, False])
def test_what_a_plain_command_imports_is_light(home: Path, is_git: bool) -> None:
    place = repository(home / "main") if is_git else home
    (place / "pyproject.toml").write_text('[project]\ndependencies = ["leasehold"]\n')
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PLAIN, str(SOURCE)], cwd=place, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "leasehold.config.settings" in loaded
    assert not {name for name in loaded if name.partition(".")[0] in FORBIDDEN}


WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
from leasehold.locks import connect as opening
try:
    opening.open_store(sys.argv[2])
except opening.LeaseholdError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("library", "url", "extra"),
    [("h2", "etcd://127.0.0.1:1", "etcd"), ("psycopg", "postgresql://127.0.0.1:1/x", "postgres")],
)
def test_a_missing_library_comes_with_the_command_that_installs_it(library: str, url: str, extra: str) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT, library, url], capture_output=True, text=True, check=True)
    assert done.stdout == f"{library} is missing; install the store:\n  pip install 'leasehold[{extra}]'\n"
