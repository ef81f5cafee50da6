"""Pools on the command line: the member that is printed, or given to a command, and declared pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.kit.shell import Shell

PORTS = "pool://ports/3000-3099"


def test_a_run_learns_its_member(shell: Shell) -> None:
    assert shell.call("acquire", PORTS, "--print", "value").out == "3000\n"
    done = shell.run("run", PORTS, "--", "/bin/sh", "-c", "echo $LEASEHOLD_VALUE $LEASEHOLD_RESOURCE")
    assert done.out == "3001 pool://ports/3001\n"
    assert shell.call("release", "pool://ports/3000").code == 0


def test_a_name_that_is_no_pool_is_its_own_value(shell: Shell) -> None:
    assert shell.call("acquire", "issue:42", "--print", "value").out == "issue:42\n"
    assert shell.call("acquire", "issue:43", "--print", "fence").out == "2\n"
    assert shell.call("acquire", "issue:44", "--print", "lease").out.startswith("l3-")


@pytest.mark.parametrize("other", [("--json",), ("--token-file", "-")])
def test_standard_output_is_for_one_thing(shell: Shell, other: tuple[str, ...]) -> None:
    assert shell.call("acquire", "x", "--print", "value", *other).code == 2
    assert shell.holders("x") == []


def test_a_configuration_declares_members_and_their_labels(shell: Shell) -> None:
    (shell.home / "leasehold.toml").write_text('[pools]\nstaging = ["blue", "green"]\ngpu = ["g0 a100", "g1 h100"]\n')
    env = {"LEASEHOLD_URL": f"sqlite://{shell.home}/locks.db"}
    said = [shell.call("acquire", "pool://staging", "--print", "value", holder=h, env=env) for h in ("a", "b", "c")]
    assert [each.out for each in said[:2]] == ["blue\n", "green\n"]
    assert said[2].code == 4
    assert shell.call("acquire", "pool://gpu?label=h100", "--print", "value", env=env).out == "g1\n"
    unknown = shell.call("acquire", "pool://gpu?label=tpu", env=env)
    assert (unknown.code, "no member of pool gpu has the label tpu" in unknown.err) == (2, True)


def test_a_pool_is_declared_for_everybody_who_shares_the_store(shell: Shell) -> None:
    assert shell.call("pool", "gpu", "g0 a100", "g1 h100").out == "g0 a100\ng1 h100\n"
    assert shell.call("pool", "gpu", holder="bob").out == "g0 a100\ng1 h100\n"
    assert shell.call("acquire", "pool://gpu?label=h100", "--print", "value", holder="bob").out == "g1\n"
    done = shell.run("run", "pool://gpu", "--", "/bin/sh", "-c", "echo $LEASEHOLD_VALUE")
    assert done.out == "g0\n"
    assert shell.call("pool", "gpu", "g2", "--forget").code == 2
    assert shell.call("pool", "gpu", "--forget").out == "No members are declared.\n"
    gone = shell.call("acquire", "pool://gpu")
    assert (gone.code, "leasehold pool gpu" in gone.err) == (2, True)


@pytest.mark.parametrize("members", ["3", "[]", '["a/c d"]', '["x,y"]', "[1]"])
def test_a_wrong_declaration_is_refused_by_its_name(shell: Shell, members: str) -> None:
    (shell.home / "leasehold.toml").write_text(f"[pools]\nstaging = {members}\n")
    done = shell.call("list")
    assert done.code == 2
    assert "pools" in done.err


def test_run_takes_the_name_of_a_pool_as_an_option(shell: Shell) -> None:
    for name in ("ports/3000-3001", "pool://ports/3000-3001"):
        assert shell.run("run", "--pool", name, "--", "sh", "-c", "echo $LEASEHOLD_VALUE").out == "3000\n"
    for words in (["--pool", "ports/1-2", "issue:1"], []):
        assert shell.call("run", *words, "--", "true").code == 2
