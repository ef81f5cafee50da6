"""Completion scripts: bash is run; zsh and fish are run where they are installed, and counted as not run otherwise."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from leasehold.cli.entry.table import VERBS

if TYPE_CHECKING:
    from tests.kit.shell import Shell

BASH = """
source <(leasehold completion bash)
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 ))
_leasehold
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(shell: Shell, *words: str) -> set[str]:
    done = subprocess.run(
        ["/bin/bash", "-c", BASH, "-", "leasehold", *words],
        cwd=shell.home,
        env=shell.with_command(shell.env()),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_commands_options_and_values(shell: Shell) -> None:
    (shell.home / "token.txt").touch()
    firsts = {name.partition(" ")[0] for name in VERBS}
    assert completed(shell, "") >= firsts
    assert completed(shell, "acq") == {"acquire"}
    assert completed(shell, "session", "") >= {"start", "heartbeat", "end", "list"}
    assert completed(shell, "acquire", "x", "--mo") == {"--mode"}
    assert completed(shell, "acquire", "--mode", "") == {"exclusive", "shared", "slots"}
    assert completed(shell, "release", "--status", "f") == {"failed"}
    assert completed(shell, "acquire", "--token-file", "tok") == {"token.txt"}
    assert completed(shell, "acquire", "--ttl", "") == set()
    assert completed(shell, "completion", "") >= {"bash", "zsh", "fish"}
    assert "echo" in completed(shell, "run", "x", "--", "ech")
    assert completed(shell, "help", "rel") == {"release"}


def typed(shell: Shell, line: str) -> list[str]:
    """What bash is given for this line, as it splits it: at colons too."""
    words = re.findall(r"[^\s:=]+|[:=]+", line)
    if line.endswith((" ", ":")):
        words.append("")
    script = BASH.replace(
        'COMP_WORDS=("$@")', f'COMP_LINE={shlex.quote(line)}; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=("$@")'
    )
    env = shell.with_command(shell.env())
    done = subprocess.run(
        ["/bin/bash", "-c", script, "-", *words], cwd=shell.home, env=env, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line and not line.startswith("-")]


def test_bash_completes_the_names_that_are_held(shell: Shell) -> None:
    shell.run("acquire", "issue:7", "--space", "team")
    assert typed(shell, "leasehold release iss") == [], "in another space"
    shell.run("acquire", "issue:42", "issue:43", "deploy://api-prod", "it is")
    for verb in ("release", "renew", "update", "inspect", "force-release", "steal", "clear", "history", "watch"):
        assert typed(shell, f"leasehold {verb} iss") == ["issue:42", "issue:43"], verb
    assert typed(shell, "leasehold release issue:") == ["42", "43"], "bash has the part before the colon already"
    assert typed(shell, "leasehold release issue:42 dep") == ["deploy://api-prod"]
    assert typed(shell, "leasehold release it") == [r"it\ is"]
    assert typed(shell, "leasehold release --space team is") == ["issue:7"]
    assert typed(shell, "leasehold lock release --json i") == ["issue:42", "issue:43", r"it\ is"]
    assert typed(shell, "leasehold acquire iss") == [], "one takes what is free"


def test_completion_is_silent_where_the_locks_cannot_be_asked_and_creates_nothing(shell: Shell) -> None:
    assert typed(shell, "leasehold release x") == []
    assert not shell.database.exists()
    assert typed(shell, "leasehold release --url http://127.0.0.1:9 x") == []
    plain = shell.run("__complete", "--", "leasehold release --url nowhere: x")
    assert plain.code == 2
    assert "nowhere:" in plain.err, "only the script is silent"
    assert "__complete" not in shell.call("--help").out


@pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))
def test_bash_knows_every_option(shell: Shell, verb: object) -> None:
    assert hasattr(verb, "name")
    script = shell.call("completion", "bash").out
    for option in VERBS[verb.name].options:
        assert option.flag in script


@pytest.mark.parametrize("name", ["zsh", "fish"])
def test_other_shells_find_no_fault_with_their_script(shell: Shell, name: str) -> None:
    script = shell.call("completion", name).out
    for verb in VERBS.values():
        assert verb.name.partition(" ")[0] in script
        assert all(option.flag[2:] in script for option in verb.options)
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed here: its script was not run")
    path = shell.home / "script"
    path.write_text(script)
    done = subprocess.run([program, "-n", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
