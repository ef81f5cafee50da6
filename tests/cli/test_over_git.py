"""Without the remote: a local lease is marked as one, and confirmed or reported as lost at the next sync."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.remotes import bare
from tests.kit.shell import Done, Shell, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Team:
    """A remote that can go away, and two machines."""

    def __init__(self, shell: Shell, folder: Path) -> None:
        self._shell = shell
        self._folder = folder
        self._place = bare(folder / "remote.git")

    def run(self, holder: str, *words: str) -> Done:
        env = {"LEASEHOLD_URL": f"git+file://{self._place}", "XDG_STATE_HOME": str(self._folder / f"state-{holder}")}
        return self._shell.run(*words, holder=holder, env=env)

    def json(self, holder: str, *words: str) -> dict[str, Any]:
        done = self.run(holder, *words, "--json")
        told: dict[str, Any] = done.said["data"] if done.said["ok"] else done.said["error"]
        return told

    def cut(self) -> None:
        self._place.rename(self._place.with_name("away"))

    def mend(self) -> None:
        self._place.with_name("away").rename(self._place)


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    with Shell(tmp_path / "home") as shell:
        yield Team(shell, tmp_path)


def test_without_it_an_acquire_fails_clearly(team: Team) -> None:
    team.cut()
    done = team.run("ada", "acquire", "r")
    assert done.code == 9
    assert "cannot be reached" in done.err


def test_with_it_the_lease_is_marked(team: Team) -> None:
    team.cut()
    done = team.run("ada", "acquire", "r", "--local")
    assert done.code == 0
    assert done.out.startswith("Acquired, LOCAL ONLY")
    assert "Its fence counts on this machine only" in done.out
    assert "cannot be reached" in done.err
    assert team.json("ada", "acquire", "s", "--local")["local"] is True
    assert team.run("ada", "list").code == 9


def test_a_token_that_will_change_is_not_promised(team: Team, tmp_path: Path) -> None:
    team.cut()
    done = team.run("ada", "acquire", "r", "--local", "--token-file", str(tmp_path / "token"))
    assert done.code == 2
    assert "does not go with --local" in done.err


def test_on_one_machine_it_keeps_others_out(team: Team, tmp_path: Path) -> None:
    team.cut()
    assert team.run("ada", "acquire", "r", "--local").code == 0
    (tmp_path / "state-bob").symlink_to(tmp_path / "state-ada")
    assert team.run("bob", "acquire", "r", "--local").code == 4
    assert team.run("ada", "renew", "r").out == "Renewed r (local only)\n"
    assert team.run("ada", "release", "r").out == "Released r (local only)\n"
    assert team.run("bob", "acquire", "r", "--local").code == 0


def test_with_the_remote_it_is_a_lease_like_any_other(team: Team) -> None:
    told = team.json("ada", "acquire", "r", "--local")
    assert "local" not in told
    assert team.run("bob", "acquire", "r", "--local").code == 4


def test_it_is_confirmed_at_the_next_sync(team: Team) -> None:
    team.cut()
    team.run("ada", "acquire", "path:src", "--local", "--name", "work")
    team.mend()
    done = team.run("ada", "list")
    assert done.code == 0
    assert "Confirmed: path:src" in done.err
    assert team.run("ada", "list").err == "", "once"
    (lease,) = team.json("bob", "list")["leases"]
    assert (lease["holder"], lease["resources"], lease["name"]) == ("ada", ["path:src"], "work")
    assert team.run("ada", "release", "path:src").out == "Released path:src (completed)\n"
    assert team.json("bob", "list")["leases"] == []


def test_it_is_reported_as_lost_at_the_next_sync(team: Team) -> None:
    team.cut()
    team.run("ada", "acquire", "path:src/a.py", "--local")
    team.mend()
    assert team.run("bob", "acquire", "path:src").code == 0
    for words in (("list",), ("acquire", "other"), ("inspect", "x", "--json")):
        done = team.run("ada", *words)
        assert done.code == 0
        assert "Lost: path:src/a.py" in done.err
        assert "bob holds it at the remote" in done.err
    renewed = team.run("ada", "renew", "path:src/a.py", "--json")
    assert (renewed.code, renewed.said["error"]["code"]) == (7, "lost")
    assert "bob holds it" in renewed.said["error"]["reason"]
    assert team.run("ada", "list").err == "", "its holder has learned it"


def test_it_is_reported_when_it_expired_before(team: Team) -> None:
    team.cut()
    team.run("ada", "acquire", "r", "--local", "--ttl", "10ms")
    team.mend()
    until(lambda: "Lost: r" in team.run("ada", "list").err)
    released = team.run("ada", "release", "r")
    assert released.code == 0
    assert team.run("ada", "list").err == ""


def test_what_is_over_is_not_said_never_to_have_happened(team: Team) -> None:
    team.run("ada", "acquire", "issue:42")
    team.run("ada", "release", "issue:42")
    assert "over git, history is only what is held now" in team.run("ada", "history").out


def test_history_tells_who_forced_a_lease_and_why(team: Team) -> None:
    team.run("ada", "acquire", "issue:42")
    team.run("bob", "force-release", "issue:42", "--reason", "it hangs")
    assert team.run("ada", "history").out.splitlines()[1].endswith("by bob: it hangs")


@pytest.mark.parametrize("option", [("--local",), ("--max-skew", "5s")])
def test_only_over_git(tmp_path: Path, option: tuple[str, ...]) -> None:
    with Shell(tmp_path / "home") as shell:
        done = shell.run("acquire", "r", *option, "--json")
    assert done.code == 2
    assert done.said["error"]["field"] == option[0][2:].replace("-", "_")


def test_max_skew_lets_a_stranger_in_sooner(team: Team) -> None:
    team.run("ada", "acquire", "r", "--ttl", "10ms")
    until(lambda: team.run("bob", "acquire", "r", "--max-skew", "0").code == 0)
    assert team.run("bob", "acquire", "r", "--max-skew", "x").code == 2
    assert team.run("bob", "release", "r").code == 0, "the option is not part of where the locks are"


def test_what_was_forced_and_forgotten_here_is_told_by_name(team: Team) -> None:
    team.run("ada", "acquire", "r")
    assert team.run("ops", "force-release", "r", "--reason", "it hangs").code == 0
    told = [team.run("ada", "release", "r") for _ in range(2)]  # the first one forgets the token
    assert [done.code for done in told] == [0, 0]
    assert all("it hangs" in done.out for done in told)
    assert team.run("ada", "renew", "r").code == 7
