"""What cannot be understood, and the help: clear, with the next command to run, and never a traceback."""

from __future__ import annotations

import json
import os
import random
import shlex
from typing import TYPE_CHECKING

import pytest

from leasehold.cli import main
from leasehold.cli.command_line import CommandLine, parse
from leasehold.cli.entry.examples import EXAMPLES
from leasehold.cli.entry.families import FAMILIES
from leasehold.cli.entry.help import MEANT
from leasehold.cli.entry.table import VERBS
from leasehold.cli.output import MEANINGS

if TYPE_CHECKING:
    from leasehold.cli.command_line import CliVerb
    from tests.kit.shell import Shell


def line(*words: str) -> CommandLine:
    found = parse(words, VERBS)
    assert found is not None
    return found


# ------------------------------------------------------------------------------------------------- the help


@pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))
def test_the_help_of_each_command_has_every_option_and_examples(shell: Shell, verb: CliVerb) -> None:
    done = shell.call(*verb.name.split(), "--help")
    assert done.code == 0
    assert done.err == ""
    assert "\nexamples:\n  leasehold " in done.out.replace('eval "$(', "").replace("source <(", "")
    for option in verb.options:
        assert option.flag in done.out
    for word in verb.words:
        assert word.name in done.out or word.number == "--"


@pytest.mark.parametrize(
    "example",
    [part.strip() for text in EXAMPLES.values() for part in text.splitlines() if part.startswith("  ")],
)
def test_the_examples_can_be_understood(example: str) -> None:
    command = example.partition("#")[0].strip()
    if "$(" in command or "<(" in command:
        command = command[command.index("(") + 1 :].rstrip(')"')
    words = shlex.split(command.partition(" < ")[0].partition(" > ")[0])
    assert words[0] == "leasehold"
    assert parse(words[1:], VERBS) is not None


def test_every_command_has_examples() -> None:
    assert set(EXAMPLES) == set(VERBS)


def test_the_first_help_names_all_commands_and_exit_codes(shell: Shell) -> None:
    for words in ([], ["--help"], ["help"]):
        done = shell.call(*words)
        assert done.code == 0
        for verb in VERBS:
            assert verb.partition(" ")[0] in done.out
        for code, meaning in MEANINGS.items():
            assert f"{code} {meaning}" in done.out.replace("\n", " ")


def test_the_help_says_what_commands_of_two_words_are_about(shell: Shell) -> None:
    families = {name.partition(" ")[0] for name in VERBS if " " in name}
    assert families == set(FAMILIES)
    first = " ".join(shell.call("--help").out.split())
    for family in families:
        assert FAMILIES[family] in first
        for name in (verb.partition(" ")[2] for verb in VERBS if verb.startswith(f"{family} ")):
            assert name in FAMILIES[family]


def test_the_help_is_in_whole_sentences(shell: Shell) -> None:
    assert "may change these paths.\n" in shell.call("guard", "--help").out


def test_variables_that_do_not_narrow_a_list_are_not_said_to(shell: Shell) -> None:
    assert "LEASEHOLD_WORK_UNIT_ID" in shell.call("workflow", "check", "--help").out
    assert "LEASEHOLD_WORK_UNIT_ID" not in shell.call("workflow", "list", "--help").out


def test_help_can_be_asked_for_in_words(shell: Shell) -> None:
    assert shell.call("help", "acquire").out == shell.call("acquire", "--help").out
    assert shell.call("help", "session", "end").out == shell.call("session", "end", "-h").out
    assert shell.call("--version").out.startswith("leasehold 0.")


# ------------------------------------------------------------------------------------------ usage errors

WRONG = [
    ["aquire", "x"],
    ["acquire"],
    ["acquire", "x", "--nonsense"],
    ["acquire", "x", "--ttl"],
    ["acquire", "x", "--mode", "odd"],
    ["acquire", "x", "--json=yes"],
    ["acquire", "x", "--tt", "5m"],
    ["list", "x"],
    ["inspect"],
    ["inspect", "x", "y"],
    ["session"],
    ["session", "begin"],
    ["run", "x"],
    ["run", "x", "--"],
    ["run", "x", "true"],
    ["completion"],
]


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_a_wrong_command_line_is_explained(shell: Shell, words: list[str]) -> None:
    done = shell.call(*words)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("usage: leasehold")
    assert "--help" in done.err.splitlines()[-1]


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_a_wrong_command_line_is_explained_in_json(shell: Shell, words: list[str]) -> None:
    place = words.index("--") if "--" in words else len(words)
    done = shell.call(*words[:place], "--json", *words[place:])
    assert done.code == 2
    assert done.err == ""
    assert done.said["error"]["code"] == "usage"
    assert "--help" in done.said["error"]["message"]


def test_a_misspelled_command_is_guessed(shell: Shell) -> None:
    assert "did you mean acquire?" in shell.call("aquire").err
    assert "did you mean force-release?" in shell.call("forcerelease").err
    told = shell.call("xyzzy").err
    assert "there are acquire, renew" in told
    assert not [verb for verb in ("force-release", "steal", "clear", "adopt") if verb in told], "an agent may read it"


VALUES = {
    "--ttl": ["0", "-1", "nan", "abc", "1e12", "25h", "1us", ""],
    "--wait": ["-1", "abc", "25h", "inf"],
    "--slots": ["0", "-1", "x", "1.5", "99999"],
    "--priority": ["x", "1.5", "9999"],
    "--grace": ["61s", "x"],
    "--context": ["{", "nan"],
    "--url": ["", "nonsense", "ftp://x", "sqlite:"],
}


@pytest.mark.parametrize(
    ("option", "value"), [(option, value) for option, values in VALUES.items() for value in values]
)
def test_a_wrong_value_names_its_option_and_changes_nothing(shell: Shell, option: str, value: str) -> None:
    done = shell.call("acquire", "x", f"{option}={value}")
    assert done.code == 2, done
    assert option[2:] in done.err
    assert shell.call("acquire", "x", f"{option}={value}", "--json").said["ok"] is False
    assert shell.call("list").out == "No live leases.\n"


@pytest.mark.parametrize(
    "words",
    [
        ["watch", "--interval", "1ms"],
        ["watch", "--interval", "x"],
        ["watch", "--count", "0"],
        ["watch", "--count", "x"],
        ["history", "--limit", "0"],
        ["history", "--limit", "x"],
        ["history", "--since", "x"],
        ["history", "--lease", "x"],
        ["run", "x", "--kill-after", "x", "--", "true"],
        ["run", "--", "true"],
        ["completion", "tcsh"],
        ["force-release", "x"],
        ["steal", "x"],
        ["clear", "x"],
        ["update", "x"],
    ],
    ids=" ".join,
)
def test_a_wrong_value_of_another_command(shell: Shell, words: list[str]) -> None:
    done = shell.call(*words)
    assert done.code == 2
    assert f"\n  leasehold {' '.join(words[: 2 if words[0] == 'session' else 1])} --help" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["session", "heartbeat"], "session start"),
        (["session", "end"], "session start"),
        (["session", "end", "--by", "ops"], "session list"),
        (["session", "end", "s1"], "session list"),
    ],
)
def test_a_session_that_is_not_named_is_begun_or_found(shell: Shell, words: list[str], command: str) -> None:
    done = shell.call(*words)
    assert done.code == 2
    assert done.err.endswith(f":\n  leasehold {command}\n")


# ---------------------------------------------------------------------------------------------- by hand


def test_a_plain_line_is_read_like_argparse_would() -> None:
    found = line("acquire", "a", "--ttl", "5m", "b", "--json", "--priority", "-5", "--name=x=y")
    assert found.values["resources"] == ["a", "b"]
    assert (found.values["ttl"], found.values["json"]) == ("5m", True)
    assert (found.values["priority"], found.values["name"]) == ("-5", "x=y")
    assert found.values["wait"] == "0"


def test_what_follows_two_dashes_is_words_or_the_command() -> None:
    assert line("acquire", "--", "-x", "--json").values["resources"] == ["-x", "--json"]
    assert line("run", "x", "--", "sh", "-c", "--").values["command"] == ["sh", "-c", "--"]


def test_an_option_may_be_repeated_where_that_means_something() -> None:
    assert line("history", "--kind", "granted", "--kind", "expired").values["kind"] == ["granted", "expired"]
    assert line("acquire", "x", "--ttl", "1m", "--ttl", "2m").values["ttl"] == "2m"


def test_nonsense_never_makes_a_traceback(shell: Shell) -> None:
    chance = random.Random(42)
    flags = sorted({option.flag for verb in VERBS.values() for option in verb.options})
    pool = [*VERBS, *flags, "x", "path:a", "-", "--", "", "-1", "30s", "{}", "=", "\ud800", "é", "--x=y", "-h"]
    quiet = {"watch", "wait", "serve", "run"}  # three may go on for ever, the last one runs what it is given
    for _ in range(2_000 if os.environ.get("LEASEHOLD_PROVE") else 150):
        words = [part for word in chance.choices(pool, k=chance.randint(1, 6)) for part in word.split(" ")]
        if words[0] not in quiet:
            done = shell.call(*words)
            assert done.code in MEANINGS, (words, done)
            assert "Traceback" not in done.err, (words, done)


def test_main_answers_with_the_exit_code(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    assert "complete -F _leasehold leasehold" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["acquire", "x", "--tll", "5m"], "leasehold acquire: there is no option --tll; did you mean --ttl?"),
        (["acquire", "--tll", "5m"], "leasehold acquire: there is no option --tll; did you mean --ttl?"),
        (["acquire", "--holder", "-x", "-y"], "leasehold acquire: argument --holder: expected one argument"),
        (["acquire", "-x"], "leasehold acquire: there is no option -x; a name that begins with a dash goes after --\n"),
        (["acquire", "--wait", "-5"], "leasehold acquire: the following arguments are required: resources\n"),
        (["session", "start", "--zzz"], "leasehold session start: there is no option --zzz\n"),
        (["list", "everything"], "leasehold list: 'everything' is one word too many"),
        (["run", "x"], "leasehold run: it needs a command after --"),
    ],
)
def test_what_a_command_does_not_know_is_told_by_that_command(shell: Shell, words: list[str], told: str) -> None:
    done = shell.run(*words)
    assert done.code == 2
    assert told in done.err
    assert f"\n  {told.partition(':')[0]} --help" in done.err


def test_an_option_before_the_command_is_told_where_it_goes(shell: Shell) -> None:
    done = shell.run("--json", "list")
    assert done.code == 2
    assert "--json goes after the command:\nleasehold list … --json\n" in json.loads(done.out)["error"]["message"]


@pytest.mark.parametrize("url", ["http://[::1", "http://host:port", "https://a:99999"])
def test_a_url_that_is_none_is_told(shell: Shell, url: str) -> None:
    done = shell.run("list", "--url", url)
    assert done.code == 2
    assert "is no URL" in done.err


def test_a_token_file_that_cannot_be_written_is_told_before_anything_is_taken(shell: Shell) -> None:
    shell.run("acquire", "x", "--ttl", "1m")
    before = shell.json("list")["data"]["leases"]
    for where in ("/nonexistent/token", "/"):
        done = shell.run("acquire", "x", "--ttl", "1h", "--token-file", where)
        assert done.code == 2
        assert "cannot be written" in done.err
    after = shell.json("list")["data"]["leases"]
    assert [lease["expires_at"] for lease in after] == [lease["expires_at"] for lease in before]


def test_a_token_file_may_be_a_link_to_what_is_not_there_yet(shell: Shell) -> None:
    (shell.home / "link").symlink_to(shell.home / "made")
    assert shell.run("acquire", "linked", "--token-file", str(shell.home / "link")).code == 0
    assert (shell.home / "made").read_text().strip()


def test_the_doctor_is_told_who_asks_and_in_which_space(shell: Shell) -> None:
    found = shell.json("doctor", "--holder", "zed", "--space", "team")["data"]["findings"]
    told = {each["topic"]: each["text"] for each in found}
    assert "zed" in told["holder"]
    assert "space from the argument" in told["settings"]


def test_the_help_of_an_option_tells_its_default() -> None:
    silent = {
        f"{verb.name} {option.flag}"
        for verb in VERBS.values()
        for option in verb.options
        if option.default is not None and "default" not in option.help
    }
    assert not silent


@pytest.mark.parametrize("verb", ["renew", "workflow heartbeat"])
def test_who_renews_is_not_told_of_a_default_that_is_not_its_own(verb: str) -> None:
    said = next(option.help for option in VERBS[verb].options if option.flag == "--ttl")
    assert "30m)" not in said
    assert "(default: as before)" in said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("unlock", "did you mean release?"),
        ("status", "did you mean list?"),
        ("top", "did you mean watch?"),
        ("aquire", "did you mean acquire?"),
        ("-V", "there is no option -V, and a command is missing; did you mean --version?"),
        ("--verbos", "there is no option --verbos"),
        ("--space=x", "--space goes after a command"),
    ],
)
def test_what_was_probably_meant_is_said(shell: Shell, typed: str, said: str) -> None:
    done = shell.run(typed)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_no_word_of_other_tools_hides_a_command_of_ours() -> None:
    names = {name.partition(" ")[0] for name in VERBS}
    assert names.isdisjoint(MEANT)
    assert names.issuperset(MEANT.values())
