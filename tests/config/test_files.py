"""Configuration files that are wrong, or not to be trusted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.config import settings as config
from tests.kit.someone import pretend_a_stranger_wrote

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("home")


def refusal(cwd: Path) -> leasehold.InvalidInput:
    with pytest.raises(leasehold.InvalidInput) as caught:
        config.find(cwd=str(cwd))
    return caught.value


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ('tll = "5m"', "tll", "no such setting"),
        ("ttl = true", "ttl", "duration"),
        ('ttl = "soon"', "ttl", "duration"),
        ("ttl = 0", "ttl", "10ms"),
        ('ttl = "3d"', "ttl", "ttl_max"),
        ("ttl_max = []", "ttl_max", "duration"),
        ("url = 5", "url", "must be text"),
        ('url = ""', "url", "empty"),
        ("space = 5", "space", "text"),
        ('holder = " x"', "holder", "blank"),
        ('hierarchical = "s3"', "hierarchical", "list"),
        ('hierarchical = ["path"]', "hierarchical", "always"),
        ('lock_policy = "maybe"', "lock_policy", "off, warn, require, require-plans, require-own"),
        ("lock_policy = []", "lock_policy", "one of"),
        ('resourceLockTimeout = "15m"', "resourceLockTimeout", "number of seconds"),
        ("resourceLockTimeout = true", "resourceLockTimeout", "duration"),
        ("ttl = 5\nresourceLockTimeout = 5", "ttl", "the same"),
    ],
)
def test_a_wrong_setting_names_the_file_the_key_and_what_is_allowed(
    work: Path, text: str, field: str, said: str
) -> None:
    path = work / "leasehold.toml"
    path.write_text(text)
    error = refusal(work)
    assert error.field == field
    assert said in error.message
    assert str(path) in error.message


def test_an_unknown_key_is_told_the_known_ones(work: Path) -> None:
    (work / "pyproject.toml").write_text("[tool.leasehold]\ntimeout = 5")
    assert all(key in refusal(work).message for key in config.KEYS)


def test_a_syntax_error_names_file_and_line(work: Path) -> None:
    (work / "leasehold.toml").write_text('space = "x"\nttl == 5\n')
    error = refusal(work)
    assert str(work / "leasehold.toml") in error.message
    assert "line 2" in error.message


@pytest.mark.parametrize("data", [b"\xff\xfe", b'space = "\xe9"', b"x = " + b"[" * 100_000])
def test_what_is_no_toml_at_all_is_refused_clearly(work: Path, data: bytes) -> None:
    (work / "leasehold.toml").write_bytes(data)
    assert "not valid TOML" in refusal(work).message


def test_our_table_must_be_a_table(work: Path) -> None:
    (work / "pyproject.toml").write_text('[tool]\nleasehold = "yes"')
    assert refusal(work).field == "tool.leasehold"


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch, work: Path) -> None:
    monkeypatch.setenv("LEASEHOLD_TTL", "soon")
    error = refusal(work)
    assert error.field == "ttl"
    assert "LEASEHOLD_TTL" in error.message


def test_a_directory_of_that_name_is_not_a_file(work: Path) -> None:
    (work / "leasehold.toml").mkdir()
    os.mkfifo(work / "pyproject.toml")
    assert config.find().path is None


def test_a_file_that_anybody_can_have_put_there_is_ignored_and_told(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = work / "leasehold.toml"
    path.write_text('url = "https://evil.example"')
    work.chmod(0o1777)
    pretend_a_stranger_wrote(monkeypatch)
    choice = config.find()
    assert "evil" not in choice.url
    assert str(path) in choice.notes[0]


def test_a_strangers_file_where_only_they_may_write_counts(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "leasehold.toml").write_text('space = "shared"')
    pretend_a_stranger_wrote(monkeypatch)
    assert config.find().space == "shared"
