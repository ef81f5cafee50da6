"""What a caller may have meant: files without `path:`, commands without `--`, options before commands, other spaces."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest

from leasehold.cli.entry.table import VERBS
from tests.kit.shell import COMMAND, Shell

# ------------------------------------------------------------------------------------------- names of files


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["acquire", "a.py"], "leasehold acquire path:a.py"),
        (["acquire", "src"], None),
        (["acquire", "src/sub"], "leasehold acquire path:src/sub"),
        (["acquire", "path:a.py"], None),
        (["acquire", "b.py"], None),
        (["inspect", "a.py"], "leasehold inspect path:a.py"),
        (["lock", "acquire", "--resource", "a.py"], "leasehold lock acquire path:a.py"),
        (["run", "a.py", "--", "true"], "leasehold run path:a.py -- …"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_a_plain_name_of_a_file_is_taken_as_it_is_with_a_hint(
    shell: Shell, words: list[str], command: str | None
) -> None:
    (shell.home / "src" / "sub").mkdir(parents=True)
    (shell.home / "a.py").touch()
    done = shell.call(*words)
    assert done.code == 0
    assert "path:" not in done.out or words[-1].startswith("path:") or words[1].startswith("path:")
    hints = re.findall(r"^Hint: .*\n  (leasehold .*)$", done.err, re.MULTILINE)
    assert hints == ([] if command is None else [command])
    if words[0] == "acquire":
        assert shell.call("release", words[1]).code == 0
    told = shell.call(*words[:1], *words[1:2], "--json", *words[2:]).lines[-1]
    assert [each["command"] for each in told.get("hints", [])] == hints
    assert told["ok"] is True


def test_the_hint_counts_from_the_root_of_the_repository(shell: Shell) -> None:
    src = shell.home / "app" / "src"
    src.mkdir(parents=True)
    (src / "a b.py").touch()
    subprocess.run(["git", "init", "-q", str(shell.home / "app")], check=True)
    done = subprocess.run(
        [*COMMAND, "acquire", "a b.py"], cwd=src, env=shell.env(), capture_output=True, text=True, check=True
    )
    assert done.stderr.endswith("did you mean path:src/a b.py:\n  leasehold acquire 'path:src/a b.py'\n")


# ------------------------------------------------------------------------------------------------- spaces


def test_list_tells_spaces_apart(shell: Shell) -> None:
    shell.call("acquire", "x", "--space", "one")
    shell.call("acquire", "x", "--space", "two")
    listed = shell.call("list", "--all-spaces").out.splitlines()
    assert listed[0].split()[:2] == ["SPACE", "RESOURCE"]
    assert [line.split()[:2] for line in listed[1:]] == [["one", "x"], ["two", "x"]]
    assert [" (you) " in line for line in listed[1:]] == [True, True]
    mine = shell.call("list", "--all-spaces", "--mine", "--json", holder="bob").said["data"]["leases"]
    assert [each["yours"] for each in mine] == []
    assert shell.call("list", "--space", "one").out.splitlines()[0].split()[0] == "RESOURCE"


def test_list_of_one_space_says_that_others_have_leases(shell: Shell) -> None:
    for space in ("one", "one-more"):
        shell.call("acquire", "x", "y", "--space", space)
        shell.call("acquire", "z", "--space", space, holder="bob")
    done = shell.call("list")
    assert done.out == "No live leases.\n"
    assert done.err == "Hint: 4 leases in 2 other spaces not shown:\n  leasehold list --all-spaces\n"
    told = shell.call("list", "--space", "one", "--mine", "--json").said
    assert len(told["data"]["leases"]) == 1
    assert told["hints"] == [
        {"message": "1 lease in 1 other space not shown", "command": "leasehold list --all-spaces"}
    ]
    assert "hints" not in shell.call("list", "--all-spaces", "--json").said


def test_two_different_spaces_are_refused(shell: Shell) -> None:
    done = shell.call("list", "--all-spaces", "--space", "one", "--json")
    assert done.code == 2
    error: dict[str, Any] = done.said["error"]
    assert (error["code"], error["field"]) == ("invalid", "space")


# ------------------------------------------------------------------------------------------------- usage


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run x echo hi", "did you mean this?\n  leasehold run x -- echo hi\n"),
        ("run x ls -la", "did you mean this?\n  leasehold run x -- ls -la\n"),
        ("run x --wait 1m ./go", "did you mean this?\n  leasehold run x --wait 1m -- ./go\n"),
        ("run x", "it needs a command after --, such as:\n  leasehold run NAME -- ./work.sh\n"),
        ("run x --wiat 1m", "there is no option --wiat; did you mean --wait?\n"),
        ("--verbose list", "there is no option --verbose before a command: options go after it, and only --help"),
        ("--wat session list", "there is no option --wat before a command"),
        ("--url x list", "--url goes after the command:\n  leasehold list … --url\n"),
        ("--holder bob acquire x", "--holder goes after the command:\n  leasehold acquire … --holder\n"),
        ("--foo", "there is no option --foo, and a command is missing\n"),
    ],
)
def test_what_stands_in_the_wrong_place_gets_a_sentence(shell: Shell, words: str, said: str) -> None:
    done = shell.call(*words.split())
    assert done.code == 2
    assert said in done.err
    assert "invalid choice" not in done.err


def test_version_is_a_command_too(shell: Shell) -> None:
    assert shell.call("version").out == shell.call("--version").out
    assert shell.call("version").out == f"leasehold {shell.json('version')['data']['version']}\n"


def test_texts_have_no_codes_in_parentheses(shell: Shell) -> None:
    for words in (("acquire", "x", "--ttl", "abc"), ("acquire", "path:/etc"), ("acquire", " x"), ("acquire", "")):
        done = shell.call(*words)
        assert done.code == 2
        assert not re.search(r"\([a-z]+(_[a-z]+)*\)", done.err), done.err
        assert shell.call(*words, "--json").said["error"]["code"] == "invalid"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_help_wraps_between_words_only(shell: Shell, width: int) -> None:
    for verb in [*VERBS.values(), None]:
        text = shell.call(*(verb.name.split() if verb is not None else ()), "--help", env={"COLUMNS": str(width)}).out
        words = set(text.split())
        for option in verb.options if verb is not None else ():
            whole = [word for word in option.help.split() if "-" in word or "/" in word or "." in word]
            assert words.issuperset(whole), (option.flag, [word for word in whole if word not in words])
        below = text.partition("\noptions:\n")[2].partition("\n\n")[0].splitlines()
        prose = [line for line in below if not line.lstrip().startswith("-")]
        too_wide = [line for line in prose if len(line) > width and len(line.split()) > 1]
        assert not too_wide, too_wide
        for line in text.splitlines():
            assert len(line) <= width or len(line.split()) == 1 or line.startswith(("  ", "usage: ")), line


# ------------------------------------------------------------------------------------------------- patience


def test_a_command_says_how_long_it_goes_on_while_nobody_answers(shell: Shell) -> None:
    nobody = ("--url", "http://127.0.0.1:1")
    done = shell.call("list", *nobody, "--connect-timeout", "200ms")
    assert done.code == 9
    assert done.err.startswith("Failed: no answer from the server within 0.2 s: 127.0.0.1:1: ")
    wrong = shell.call("list", *nobody, "--connect-timeout", "soon")
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err.startswith("leasehold list: connect_timeout: 'soon' is not a duration")
