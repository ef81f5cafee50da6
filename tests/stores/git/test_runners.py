"""Runners that come and go, each with a fresh clone and no memory, before a lock at the remote whose holder is dead."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from leasehold.domain.outcomes import Granted
from leasehold.domain.timestamps import SECOND
from leasehold.engine.engine import Engine
from leasehold.locks.local import CallerDriver, EngineAnswers
from leasehold.locks.sync import Locks
from leasehold.requests.checks import Settings
from leasehold.stores.git import GitStore
from leasehold.stores.git.address import GitAddress
from tests.kit.remotes import bare, git
from tests.kit.samples import MINUTE, FakeClock
from tests.kit.shell import Done, Shell

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

RUNNERS = 20
DEAD = "deploy://api"


class Runners:
    """A remote with a lock of 30 minutes that was taken an hour ago, by a machine that is no more; and fresh clones."""

    def __init__(self, shell: Shell, folder: Path) -> None:
        self._shell = shell
        self._folder = folder
        self._remote = bare(folder / "remote.git")
        self.url = f"git+file://{self._remote}"
        self.take(DEAD, ago=60 * MINUTE, ttl=30 * MINUTE)

    def take(self, resource: str, ago: int, ttl: int) -> None:
        """Somebody took this so long ago, by its own clock: time is moved, not slept."""
        clock = FakeClock(time.time_ns() // 1_000 - ago)
        engine = Engine(GitStore(GitAddress(str(self._remote), str(self._folder / f"gone-{ago}")), clock))
        locks = Locks(EngineAnswers(engine, CallerDriver(engine), Settings()), holder="gone")
        assert isinstance(locks.acquire(resource, ttl=ttl / SECOND, name="release"), Granted)
        locks.close()

    def start(self, number: int, *words: str, **env: str) -> subprocess.Popen[str]:
        clone = self._folder / f"clone-{number}"
        git("clone", "-q", str(self._remote), str(clone))
        own = {"XDG_STATE_HOME": str(self._folder / f"state-{number}"), "LEASEHOLD_URL": f"git:{clone}"}
        return self._shell.start(*words, holder=f"runner-{number}", env={**own, **env})

    def run(self, number: int, *words: str, **env: str) -> Done:
        return self.end(self.start(number, *words, **env))

    def end(self, process: subprocess.Popen[str]) -> Done:
        out, err = process.communicate(timeout=120)
        self._shell.processes.remove(process)
        return Done(process.returncode, out, err)

    def race(self, *words: str, **env: str) -> list[Done]:
        started = [self.start(number, *words, **env) for number in range(RUNNERS)]
        return [self.end(process) for process in started]


@pytest.fixture
def runners(tmp_path: Path) -> Iterator[Runners]:
    with Shell(tmp_path / "home") as shell:
        yield Runners(shell, tmp_path)


def seconds(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


def test_without_max_skew_nobody_takes_it_early_and_each_learns_when(runners: Runners) -> None:
    began = time.time()
    for done in runners.race("acquire", DEAD, "--json"):
        assert done.code == 4, done
        told: dict[str, Any] = done.said["error"]
        (blocker,) = told["holders"]
        assert seconds(blocker["watched_since"]) >= began - 0.001, "each has only just come"
        assert seconds(blocker["expires_at"]) - seconds(blocker["watched_since"]) == pytest.approx(1_800, abs=0.1)
        assert seconds(blocker["recorded_until"]) == pytest.approx(began - 1_800, abs=60)
        assert f"may be taken over at {blocker['expires_at']}" in told["message"]
        assert "max_skew=30s" in told["message"]


def test_with_max_skew_exactly_one_takes_it_over(runners: Runners) -> None:
    ended = runners.race("acquire", DEAD, "--json", LEASEHOLD_MAX_SKEW="30s")
    assert sorted(done.code for done in ended) == [0, *[4] * (RUNNERS - 1)]
    (winner,) = [done.said["data"]["lease"]["holder"] for done in ended if done.code == 0]
    assert {done.said["error"]["holders"][0]["holder"] for done in ended if done.code} == {winner}


def test_a_refusal_says_how_to_go_quicker_and_that_helps(runners: Runners) -> None:
    refused = runners.run(1, "acquire", DEAD)
    assert refused.code == 4
    lines = refused.err.splitlines()
    assert any(line.startswith("  watched      since 20") for line in lines)
    assert any("by its holder's clock it expired" in line and "(30m" in line for line in lines)
    assert lines[-1] == f"  leasehold acquire {DEAD} --max-skew 30s"
    assert lines[-2].startswith("To go quicker, if the clocks here and there differ by less than 30s")
    assert runners.run(2, *lines[-1].split()[1:]).code == 0


def test_a_lease_that_may_still_live_is_not_taken_and_no_shortcut_is_offered(runners: Runners) -> None:
    runners.take("r", ago=1 * MINUTE, ttl=MINUTE + 20 * SECOND)  # it expires in 20 s; 30 s is not quicker than that
    runners.take("s", ago=2 * MINUTE, ttl=2 * MINUTE - 10 * SECOND)  # it has expired by 10 s, which is within 30 s
    for resource in ("r", "s"):
        assert runners.run(1 if resource == "r" else 2, "acquire", resource, "--max-skew", "30s").code == 4
    fresh = runners.run(3, "acquire", "r", "--max-skew", "30s")
    assert "To go quicker" not in fresh.err
    assert fresh.err.splitlines()[-1] == "  leasehold acquire r --max-skew 30s --wait 10m"


def test_the_setting_counts_for_every_command_and_the_url_goes_before_it(runners: Runners, tmp_path: Path) -> None:
    assert runners.run(1, "lock", "acquire", DEAD).code == 4
    assert runners.run(2, "run", DEAD, "--", "true").code == 4
    assert runners.run(3, "acquire", DEAD, LEASEHOLD_MAX_SKEW="2h").code == 4, "more than it is dead for"
    config = tmp_path / "home" / "config" / "leasehold"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('max_skew = "30s"\n')
    assert runners.run(4, "acquire", DEAD, LEASEHOLD_URL=f"git+file://{tmp_path}/remote.git?max_skew=2h").code == 4
    assert runners.run(5, "run", DEAD, "--", "true").code == 0
    (config / "config.toml").write_text('max_skew = "soon"\n')
    wrong = runners.run(6, "list")
    assert wrong.code == 2
    assert "max_skew" in wrong.err
    assert "config.toml" in wrong.err


def test_the_same_in_grite_s_words(runners: Runners) -> None:
    refused = runners.run(1, "lock", "acquire", "--resource", DEAD)
    assert refused.code == 4
    assert refused.err.startswith(f"Error: Lock conflict\n  Resource: {DEAD}\n  Owner: gone\n  Expires: ")
    assert "\n  watched      since" in refused.err
    told = runners.run(2, "lock", "acquire", DEAD, "--json").said["error"]
    assert "watched_since" in told["lock"]
    assert runners.run(3, "lock", "acquire", DEAD, "--max-skew", "30s").code == 0


@pytest.mark.parametrize("verb", [("gc",), ("lock", "gc")])
def test_gc_says_what_it_did_not_remove_and_why(runners: Runners, verb: tuple[str, ...]) -> None:
    runners.take("path:src", ago=MINUTE, ttl=30 * MINUTE)  # this one lives: it is not worth a word
    left = runners.run(1, *verb)
    assert left.code == 0
    lines = left.out.splitlines()
    assert lines[1].startswith("Not removed, since a lease has expired only once this machine has seen it unchanged")
    assert lines[2].startswith(f"  {DEAD} of gone: watched from here since 20")
    assert lines[-1] == f"  leasehold {' '.join(verb)} --max-skew 30s"
    (*_, last) = runners.run(5, *verb, "--url", runners.url).out.splitlines()
    assert last == f"  leasehold {' '.join(verb)} --url {runners.url} --max-skew 30s"
    (kept,) = runners.run(2, *verb, "--json").said["data"]["not_removed"]
    assert (kept["resource"], kept["holder"]) == (DEAD, "gone")
    removed = runners.run(3, *verb, "--json", "--max-skew", "30s").said["data"]
    assert removed["not_removed"] == []
    assert [each["resources"] for each in runners.run(4, "list", "--json").said["data"]["leases"]] == [["path:src"]]
