"""Which store and which settings are chosen, and why: the argument, the environment, the files, the defaults."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from leasehold.config import settings as config
from leasehold.config import urls
from leasehold.domain.timestamps import SECOND
from leasehold.errors import InvalidInput
from leasehold.requests import checks
from leasehold.stores.etcd import address as etcd
from leasehold.stores.etcd.members import Members
from leasehold.stores.git import address as git
from leasehold.stores.postgres import address as postgres
from tests.kit.someone import ROOT, SOURCE

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("home")


def user_file(home: Path, text: str) -> Path:
    path = home / "config" / "leasehold" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


# ----------------------------------------------------------------------------------------------- the order


def test_the_first_place_that_has_a_url_wins(home: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default = config.find()
    assert default.url == f"sqlite://{home}/state/leasehold/leasehold.db"
    assert "default outside of a git repository" in default.why

    path = user_file(home, 'url = "https://user.example"')
    assert config.find()[:2] == ("https://user.example", str(path))

    (work / "pyproject.toml").write_text('[tool.leasehold]\nurl = "https://pyproject.example"')
    assert config.find()[:2] == ("https://pyproject.example", str(work / "pyproject.toml"))

    (work / "leasehold.toml").write_text('url = "https://own.example"')
    assert config.find()[:2] == ("https://own.example", str(work / "leasehold.toml"))

    monkeypatch.setenv("LEASEHOLD_URL", "https://variable.example")
    assert config.find()[:2] == ("https://variable.example", "LEASEHOLD_URL")

    assert config.find("https://argument.example")[:2] == ("https://argument.example", "the argument")


def test_the_nearest_project_file_counts_and_only_that(work: Path) -> None:
    below = work / "a" / "b"
    below.mkdir(parents=True)
    (work / "leasehold.toml").write_text('url = "https://far.example"\nspace = "far"')
    (below.parent / "pyproject.toml").write_text('[tool.leasehold]\nurl = "https://near.example"')
    choice = config.find(cwd=str(below))
    assert (choice.url, choice.space) == ("https://near.example", "default")
    assert choice.path == str(below.parent / "pyproject.toml")


def test_a_pyproject_without_our_table_is_passed_over(work: Path) -> None:
    below = work / "a"
    below.mkdir()
    (work / "leasehold.toml").write_text('space = "above"')
    (below / "pyproject.toml").write_text('[project]\ndependencies = [\n  "leasehold==1",\n  "leasehold.x"\n]\n')
    assert config.find(cwd=str(below)).space == "above"


@pytest.mark.parametrize(
    "text",
    [
        '[tool.leasehold]\nspace = "ours"',
        '[ tool . "leasehold" ]\nspace = "ours"',
        '[tool]\nleasehold = {space = "ours"}',
        '[tool]\nleasehold.space = "ours"',
        'tool.leasehold.space = "ours"',
        'tool = {leasehold = {space = "ours"}}',
        "[tool]\r\n'leasehold'.space = \"ours\"\r\n",
    ],
)
def test_every_spelling_of_our_table_is_found(work: Path, text: str) -> None:
    (work / "pyproject.toml").write_text(text)
    assert config.find().space == "ours"


def test_the_search_goes_up_to_home_and_not_above(home: Path, work: Path) -> None:
    (home.parent / "leasehold.toml").write_text('space = "above home"')
    assert config.find().space == "default"
    (home / "leasehold.toml").write_text('space = "home"')
    assert config.find().space == "home"


def test_outside_of_home_the_search_goes_up_to_the_root(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "deep"
    elsewhere.mkdir(parents=True)
    (tmp_path / "leasehold.toml").write_text('space = "above"')
    assert config.find(cwd=str(elsewhere)).space == "above"


def test_each_setting_comes_from_the_first_place_that_has_it(
    home: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = user_file(home, 'holder = "ada"\nspace = "mine"\nttl = "5m"\nlock_policy = "require-own"')
    (work / "leasehold.toml").write_text('space = "acme/app"\nttl_max = "2h"\nhierarchical = ["S3"]\nttl = 600')
    monkeypatch.setenv("LEASEHOLD_TTL", "90s")
    choice = config.find("sqlite:x.db")
    assert (choice.holder, choice.space, choice.ttl, choice.lock_policy) == ("ada", "acme/app", "90s", "require-own")
    assert choice.rules() == checks.Settings(frozenset({"s3"}), 2 * 3600 * SECOND)
    assert choice.origins["holder"] == str(user)
    assert choice.origins["space"] == choice.path == str(work / "leasehold.toml")
    assert choice.origins["ttl"] == "LEASEHOLD_TTL"
    assert choice.url == f"sqlite://{work}/x.db"


def test_the_environment_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_SPACE", "acme")
    monkeypatch.setenv("LEASEHOLD_HOLDER", "coder-3")
    choice = config.find()
    assert (choice.space, choice.holder) == ("acme", "coder-3")


def test_an_empty_variable_is_none_and_another_environment_can_be_given(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEHOLD_URL", "")
    assert config.find().url.startswith(f"sqlite://{home}/state/")
    assert config.find(env={"HOME": str(home), "LEASEHOLD_URL": "https://x.example"}).url == "https://x.example"


def test_defaults() -> None:
    choice = config.find()
    assert (choice.space, choice.holder, choice.ttl, choice.lock_policy) == ("default", None, "30m", "warn")
    assert choice.rules() == checks.Settings()
    assert choice.path is None
    assert choice.notes == ()


def test_the_default_ttl_is_never_more_than_the_most(work: Path) -> None:
    (work / "leasehold.toml").write_text('ttl_max = "10m"')
    assert config.find().ttl == "10m"


def test_resource_lock_timeout_is_another_name_for_ttl(home: Path, work: Path) -> None:
    user_file(home, 'ttl = "5m"')
    (work / "leasehold.toml").write_text("resourceLockTimeout = 900")
    choice = config.find()
    assert choice.ttl == 900
    assert choice.origins["ttl"] == str(work / "leasehold.toml")


# ---------------------------------------------------------------------------------------------------- URLs


def test_a_relative_path_is_relative_to_the_file_it_stands_in(home: Path, work: Path) -> None:
    below = work / "a"
    below.mkdir()
    (work / "leasehold.toml").write_text('url = "sqlite:locks/../shared.db"')
    assert config.find(cwd=str(below)).url == f"sqlite://{work}/shared.db"


def test_a_relative_path_in_the_environment_is_relative_to_the_working_directory(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEHOLD_URL", "sqlite:x.db")
    assert config.find().url == f"sqlite://{work}/x.db"


def test_every_spelling_of_a_file_is_one_url(home: Path, work: Path) -> None:
    (home / "link").symlink_to(work)
    spellings = (f"sqlite://{work}/x.db", f"sqlite:{work}/x.db", "sqlite:./x.db", "sqlite:~/link/x.db")
    assert {config.find(url).url for url in spellings} == {f"sqlite://{work}/x.db"}


@pytest.mark.parametrize(
    ("url", "as_shown"),
    [
        ("postgresql://ada:secret@db/locks", "postgresql://ada:***@db/locks"),
        ("postgresql://ada:se@cret@db/locks", "postgresql://ada:***@db/locks"),
        ("postgresql://ada:se/cret@db/locks", "postgresql://ada:***@db/locks"),
        ("postgresql://ada:se?cret@db/locks", "postgresql://ada:***@db/locks"),
        ("postgresql://ada@db?password=secret", "postgresql://ada@db?password=***"),
        ("postgresql://?service=x&sslpassword=secret", "postgresql://?service=x&sslpassword=***"),
        (
            "postgresql://pooler:6432/locks?listen=postgresql://ada:secret@db/locks&schema=x",
            "postgresql://pooler:6432/locks?listen=postgresql://ada:***@db/locks&schema=x",
        ),
        (
            "postgresql://pooler/locks?listen=postgresql%3A%2F%2Fada%3Asecret%40db%2Flocks",
            "postgresql://pooler/locks?listen=postgresql://ada:***@db/locks",
        ),
        (
            "postgresql://pooler/locks?listen=postgresql://ada@db/locks?password=secret",
            "postgresql://pooler/locks?listen=postgresql://ada@db/locks?password=***",
        ),
        ("postgresql://db?pass%77ord=secret&schema=x", "postgresql://db?pass%77ord=***&schema=x"),
        ("postgresql://db?PASSWORD=secret", "postgresql://db?PASSWORD=***"),
        ("postgres:host=db password=secret user=ada", "postgres:host=db password=*** user=ada"),
        ("http://a:7420?token=secret", "http://a:7420?***"),
        ("etcd://h?key=/client.pem&pwd=secret", "etcd://h?key=/client.pem&pwd=***"),
        ("https://secret@a:7420", "https://***@a:7420"),
        ("git+https://secret@h/x.git", "git+https://***@h/x.git"),
        ("ada:secret@db/locks?password=secret", "ada:***@db/locks?password=***"),
        ("postgresql:ada:secret@db/locks", "postgresql:***@db/locks"),
        ("https:/ada:sec@ret@a:7420", "https:***@a:7420"),
        ("etcd://ada:secret@h1:2379,h2:2379/locks?ca=x", "etcd://ada:***@h1:2379,h2:2379/locks?ca=x"),
        ("http://a:7420,http://ada:secret@b:7420", "http://a:***@b:7420"),
        ("sqlite:///a:b@c/x\x1b.db", "sqlite:///a:b@c/x\\x1b.db"),
        *((same, same) for same in ("http://a:7420,http://b:7420", "postgresql://h:5432/d@d", "git+ssh://git@h/x.git")),
        *((same, same) for same in ("sqlite:/a:b@c/x.db", "git:~/a:b@c", "postgresql://ada@db/locks", "locks.db")),
    ],
)
def test_a_password_is_not_shown(url: str, as_shown: str) -> None:
    assert urls.shown(url) == as_shown


def test_a_program_that_outlived_its_directory(work: Path) -> None:
    script = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); os.rmdir(os.getcwd())\n"
        "from leasehold.config import settings as config\n"
        "print(config.find('sqlite:///tmp/x.db').url)\n"
        "try: config.find()\n"
        "except ValueError as error: print(error)\n"
    )
    gone = work / "gone"
    gone.mkdir()
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, str(SOURCE)], cwd=gone, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("sqlite://")
    assert "the working directory was removed" in done.stdout


def test_a_user_without_home_gets_a_clear_answer_only_when_it_matters(work: Path) -> None:
    assert config.find("https://x.example", env={}).url == "https://x.example"


def test_every_key_and_variable_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    for word in (*config.KEYS, *config.VARIABLES, "LEASEHOLD_SESSION", *config.POLICIES, "XDG_STATE_HOME", "GIT_DIR"):
        assert f"`{word}`" in page, word


# ------------------------------------------------------------------------------------- how long to try to connect


def test_each_store_gets_the_patience_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_CONNECT_TIMEOUT", "1500ms")
    given = etcd.parse(config.find("etcd://a,b").store_url)
    assert Members(given).patience == 1.5
    assert "connect_timeout=2 " in f"{postgres.parse(config.find('postgresql://h/d').store_url).conninfo} "
    remote = config.find("git+ssh://h/r.git?poll=1s").store_url.partition(":")[2]
    assert git.parse("git+ssh", remote, "/state").timeout == 2 * SECOND
    assert config.find("http://127.0.0.1:1").patience == 1.5
    for url in ("sqlite:///x.db", "http://127.0.0.1:1", "etcd://a?connect_timeout=3s"):
        assert config.find(url).store_url == config.find(url).url


@pytest.mark.parametrize("wrong", ["0", "soon", "-1s"])
def test_a_patience_that_is_none_names_its_place(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("LEASEHOLD_CONNECT_TIMEOUT", wrong)
    with pytest.raises(InvalidInput, match=r"^connect_timeout: .* \(from LEASEHOLD_CONNECT_TIMEOUT\)$"):
        config.find()
