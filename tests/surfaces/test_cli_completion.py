"""Completion scripts: bash is run; zsh and fish are run where they are installed, and counted as not run otherwise."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from leasehold.cli.table import VERBS
from tests.surfaces.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BASH = """
source <(leasehold completion bash)
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 ))
_leasehold
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path / "home") as shell:
        yield shell


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
