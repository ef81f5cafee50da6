"""Several clones want the same at the same moment, and things go wrong at every step: exactly one has it, always."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasehold.testing.conformance.asking import until
from tests.kit.remotes import bare, others

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROVE = bool(os.environ.get("LEASEHOLD_PROVE"))
RIVALS = 6 if PROVE else 3
ROUNDS = 25 if PROVE else 3
REAL = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()

FATE = f"""\
#!/bin/sh
# The real git, until the run of which `fate` tells: then something goes wrong there.
here="$(dirname "$0")"
number=$(($(cat "$here/count") + 1))
echo $number > "$here/count"
read -r step manner < "$here/fate"
case "$step $*" in "push "*" push "*) step=$number; echo "0 nothing" > "$here/fate" ;; esac
if [ "$number" = "$step" ]; then
  case "$manner" in
    killed-before) kill -9 $PPID; exit 1 ;;
    killed-after) {REAL} "$@" > /dev/null 2>&1; kill -9 $PPID; exit 1 ;;
    killed-amidst) echo $$ > "$here/orphan"; kill -9 $PPID; exec {REAL} "$@" > /dev/null 2>&1 ;;
    cut-before) echo "fatal: the remote end hung up unexpectedly" >&2; exit 128 ;;
    cut-after) {REAL} "$@" > /dev/null 2>&1; echo "fatal: the remote end hung up unexpectedly" >&2; exit 128 ;;
  esac
fi
exec {REAL} "$@"
"""
MANNERS = ("killed-before", "killed-after", "killed-amidst", "cut-before", "cut-after")


class Rival:
    """One clone."""

    def __init__(self, remote: Path, folder: Path, name: str) -> None:
        self.name = name
        self._bin = folder / f"bin-{name}"
        self._bin.mkdir(exist_ok=True)
        (self._bin / "git").write_text(FATE)
        (self._bin / "git").chmod(0o755)
        self.doom(0, "nothing")
        url = f"git+file://{remote}?cache={folder}/cache-{name}&poll=50ms"
        path = os.pathsep.join(filter(None, sys.path))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.git_rival", url, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "PATH": f"{self._bin}:{os.environ['PATH']}"},
        )
        assert self.hear() == {"ready": True}

    def doom(self, step: int | str, manner: str) -> None:
        """At the so-manieth run of git from now on, or at the next `push`, this goes wrong."""
        (self._bin / "count").write_text("0\n")
        (self._bin / "fate").write_text(f"{step} {manner}\n")

    def settle(self) -> None:
        """Wait for a git that outlives its killed parent."""
        orphan = self._bin / "orphan"
        if orphan.exists():
            until(lambda: not Path("/proc", orphan.read_text().strip()).exists(), "the orphan has ended")

    def runs(self) -> int:
        """How many times git was run since."""
        return int((self._bin / "count").read_text())

    def tell(self, do: str, **told: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **told}) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """The answer; nothing if it was killed."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        said: dict[str, Any] = json.loads(line) if line else {}
        return said

    def ask(self, do: str, **told: Any) -> dict[str, Any]:
        self.tell(do, **told)
        return self.hear()

    def end(self) -> None:
        """Idempotent."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Path]:
    remote = bare(tmp_path / "remote.git")
    before = others(remote)
    yield remote
    assert others(remote) == before, "a ref that is not ours was touched"


@pytest.fixture
def rival(remote: Path, tmp_path: Path) -> Iterator[Callable[[str], Rival]]:
    """Begins one more; all of them are ended with the test."""
    begun: list[Rival] = []

    def begin(name: str) -> Rival:
        begun.append(Rival(remote, tmp_path, name))
        return begun[-1]

    yield begin
    for each in begun:
        each.end()


@pytest.fixture
def rivals(rival: Callable[[str], Rival]) -> list[Rival]:
    return [rival(f"rival-{number}") for number in range(RIVALS)]


def winner_of(rivals: list[Rival], asked: list[dict[str, Any]]) -> tuple[Rival, dict[str, Any]]:
    """All ask at once; exactly one gets it, and everybody sees who."""
    for rival, told in zip(rivals, asked, strict=True):
        rival.tell("acquire", **told)
    said = {rival.name: rival.hear() for rival in rivals}
    won = [rival for rival in rivals if "lease" in said[rival.name]]
    assert len(won) == 1, said
    assert all(told.get("refused") == "Held" for name, told in said.items() if name != won[0].name), said
    return won[0], said[won[0].name]


def test_one_of_several_rivals_wins_each_race(rivals: list[Rival], rival: Callable[[str], Rival]) -> None:
    fences = [0]
    for turn in range(ROUNDS):
        fences += [_create(rivals, turn), _take_over(rivals, turn, rival("ghost")), _several(rivals, turn)]
    assert fences == sorted(set(fences)), "a fence was given out twice"


def _create(rivals: list[Rival], turn: int) -> int:
    won, lease = winner_of(rivals, [{"resources": f"path:new/{turn}", "ttl": 600} for _ in rivals])
    assert {tuple(rival.ask("inspect", resource=f"path:new/{turn}")["holders"]) for rival in rivals} == {(won.name,)}
    assert won.ask("release", lease=lease["lease"], token=lease["token"])["released"]
    return int(lease["fence"])


def _take_over(rivals: list[Rival], turn: int, ghost: Rival) -> int:
    """A dead holder's lease: seen by all, expired for all, taken over by one."""
    name = f"issue:dead-{turn}"
    dead = ghost.ask("acquire", resources=name, ttl=0.3)
    ghost.end()
    for rival in rivals:
        until(partial(is_free, rival, name), "it has expired")
    won, lease = winner_of(rivals, [{"resources": name, "ttl": 600} for _ in rivals])
    assert lease["fence"] > dead["fence"]
    assert won.ask("release", lease=lease["lease"], token=lease["token"])["released"]
    return int(lease["fence"])


def is_free(rival: Rival, name: str) -> bool:
    return not rival.ask("inspect", resource=name)["holders"]


def _several(rivals: list[Rival], turn: int) -> int:
    """Each wants three of them, in another order: all or nothing, so one has all."""
    names = [f"slot-{turn}-{place}" for place in range(3)]
    asked = [{"resources": [*names[place % 3 :], *names[: place % 3]], "ttl": 600} for place in range(len(rivals))]
    won, lease = winner_of(rivals, asked)
    for name in names:
        assert rivals[0].ask("inspect", resource=name)["holders"] == [won.name]
    assert won.ask("release", lease=lease["lease"], token=lease["token"])["released"]
    return int(lease["fence"])


STORIES = [(what, manner) for what in ("create", "take over", "renew", "release") for manner in MANNERS]
SHORT = [
    story
    for story in STORIES
    if story[0] == "take over" or story in (("create", "cut-after"), ("release", "killed-amidst"))
]


@pytest.mark.parametrize(("what", "manner"), STORIES if PROVE else SHORT)
def test_whatever_goes_wrong_at_whatever_step(rival: Callable[[str], Rival], manner: str, what: str) -> None:
    """The victim's git fails, or the victim is killed, at each of its runs in turn; a rival wants the same."""
    other = rival("other")
    step = 0
    while True:
        step += 1
        victim = rival(f"victim-{step}")
        name = f"r{step}"
        before = _before(what, victim, other, name)
        victim.doom(step, manner)
        said = _act(what, victim, name, before)
        is_over = victim.runs() < step
        victim.doom(0, "nothing")
        victim.settle()
        _check(victim, other, name, said, what)
        victim.end()
        if is_over:
            break
    assert step >= 2, "a push at least"


def _before(what: str, victim: Rival, other: Rival, name: str) -> dict[str, Any]:
    if what == "take over":
        other.ask("acquire", resources=name, ttl=0.05)
        until(partial(is_free, victim, name), "it has expired")
    return victim.ask("acquire", resources=name, ttl=3600) if what in ("renew", "release") else {}


def _act(what: str, victim: Rival, name: str, before: dict[str, Any]) -> dict[str, Any]:
    if what in ("renew", "release"):
        return victim.ask(what, lease=before["lease"], token=before["token"])
    return victim.ask("acquire", resources=name, ttl=3600)


def _check(victim: Rival, other: Rival, name: str, said: dict[str, Any], what: str) -> None:
    """The victim's answer is true, and the next caller gets the lease exactly if it is free."""
    held = other.ask("inspect", resource=name)
    assert len(held["holders"]) <= 1, held
    if "lease" in said:
        assert (held["holders"], held["fences"]) == ([victim.name], [said["fence"]])
        assert victim.ask("renew", lease=said["lease"], token=said["token"]) == {"renewed": True}
    if said.get("released") or (what in ("create", "take over") and said.get("refused")):
        assert held["holders"] == [], said
    if what == "renew":
        assert held["holders"] == [victim.name], "a renewal that breaks takes nothing away"
    if "error" in said:
        assert said["error"] in ("unreachable", "outcome_unknown"), said
    taken = other.ask("acquire", resources=name, ttl=3600)
    if held["holders"]:
        assert "refused" in taken, "two have it"
    else:
        assert "lease" in taken


@pytest.mark.parametrize("cut", ["cut-before", "cut-after"])
def test_a_lost_reply_is_resolved_by_asking_the_remote(rival: Callable[[str], Rival], cut: str) -> None:
    """The caller gets a true answer, once, although its push broke off; and exactly one lease is there."""
    one = rival("rival")
    one.doom("push", cut)
    said = one.ask("acquire", resources="r", ttl=600)
    assert "lease" in said, said
    seen = one.ask("inspect", resource="r")
    assert (seen["holders"], seen["fences"]) == (["rival"], [said["fence"]])
    one.doom("push", cut)
    assert one.ask("release", lease=said["lease"], token=said["token"]) == {"released": True}
    assert one.ask("inspect", resource="r")["holders"] == []


def test_rivals_in_a_storm_of_lost_replies(rivals: list[Rival], remote: Path) -> None:
    for turn in range(ROUNDS):
        for place, rival in enumerate(rivals):
            rival.doom(1 + (turn + place) % 5, ("cut-before", "cut-after")[place % 2])
            rival.tell("acquire", resources=f"storm {turn}", ttl=600)
        said = {rival.name: rival.hear() for rival in rivals}
        for rival in rivals:
            rival.doom(0, "nothing")
        won = [name for name, told in said.items() if "lease" in told]
        assert len(won) <= 1, said
        holders = rivals[0].ask("inspect", resource=f"storm {turn}")["holders"]
        assert len(holders) <= 1
        assert not won or holders == won
