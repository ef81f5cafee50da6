"""Never two yeses, and nobody ends a neighbour's lease: real processes, with nothing configured, round after round.

A contest: several agents, however they are started, try to take one name at the same moment. Exactly one gets a yes.
The others are refused (4), and so is their `release` of what they do not hold (8); the winner renews and releases.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from tests.kit.shell import Shell
from tests.kit.someone import repository

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

ROUNDS = 1_000 if os.environ.get("LEASEHOLD_PROVE") else 20
FEW = 1_000 if os.environ.get("LEASEHOLD_PROVE") else 4
"""Rounds of what only repeats a contest by other means."""
TURN = r"""
here=$(pwd)/round
call() { if [ -n "$FRESH" ]; then setsid -w sh -c "$*"; else eval "$*"; fi; }
await() {
    while set -- "$1" "$2" "$here/$1".*; [ "$3" = "$here/$1.*" ] || [ $(($# - 2)) -lt "$2" ]; do sleep 0.01; done
}
call "${TAKE:-leasehold acquire} $NAME > /dev/null 2> $here/why.$1"; first=$?
: > "$here/tried.$1"
await tried "$AGENTS"
if [ $first != 0 ]; then
    call "${DROP:-leasehold release} $NAME > /dev/null 2>&1"; echo "$first $?" > "$here/part.$1"
else
    await part "$((AGENTS - 1))"
    call "${KEEP:-leasehold renew} $NAME > /dev/null"; again=$?
    call "${DROP:-leasehold release} $NAME > /dev/null"; echo "$first $again $?" > "$here/won.$1"
fi
"""
"""What each agent does: `sh turn.sh NAME-OF-THE-AGENT`."""
MAKEFILE = "a b:\n\tsh turn.sh $@\n"
ZOMBIE = """
import os, subprocess
taking = subprocess.Popen(["setsid", "sh", "-c", 'leasehold acquire "$NAME"; true'])
os.waitid(os.P_PID, taking.pid, os.WEXITED | os.WNOWAIT)
subprocess.run(["setsid", "-w", "sh", "-c", os.environ["AGAIN"]])
"""
"""It leaves the process that took the lease a zombie, while another agent tries its luck."""
HARNESS = """
import subprocess, sys
for each in [subprocess.Popen(["sh", "-c", script]) for script in sys.argv[1:]]:
    each.wait()
"""
"""An agent whose calls run side by side. (Subshells of a shell under its name would be agents of their own.)"""
RLOCK = "import os, sys, leasehold.cli.commands.rlock as it; sys.exit(it.main(sys.argv[1], sys.argv[2:], os.environ))"
FAKES = ("bwrap", "claude", "codex", "cron", "tmux", "Runner.Listener", "Runner.Worker", "gitlab-runner", "sudo")
"""Programs that are a shell under another name: that is how Leasehold sees them in the list of processes."""
VERSIONED = "claude/versions/2.1.201"
"""A program whose name is its version."""
ONE, REFUSED = "0 0 0", "4 8"
SHOWN = {"CLAUDE_CODE_SESSION_ID": "0f3c91d2-5e17-4aa2-8e0e-8a1a3bd0f3c9"}
MATRIX = "GITHUB_RUN_ID=812 GITHUB_RUN_ATTEMPT=1 GITHUB_JOB=build GITHUB_ACTIONS=true"

APART = "unshare --user --map-root-user --pid --fork --mount-proc"

CONTESTS = {
    "two terminals": "setsid -w sh turn.sh a & setsid -w sh turn.sh b & wait",
    "two real terminals": "script -qec 'sh turn.sh a' /dev/null & script -qec 'sh turn.sh b' /dev/null & wait",
    "sudo in two terminals": "setsid -w sudo turn.sh a & setsid -w sudo turn.sh b & wait",
    "two background jobs": "sh turn.sh a & sh turn.sh b & wait",
    "two subshells": "(set -- a; . ./turn.sh) & (set -- b; . ./turn.sh) & wait",
    "xargs": "printf 'a b' | xargs -P 2 -n 1 sh turn.sh",
    "make -j": "make -s -j2 a b",
    "run -- make -j": "leasehold run outer -- make -s -j2 a b",
    "two runs": "leasehold run outer.a -- sh turn.sh a & leasehold run outer.b -- sh turn.sh b & wait",
    "cron": "cron -c 'setsid sh turn.sh a & setsid sh turn.sh b & wait'",
    "two agents, a session for each call": "export FRESH=1; claude turn.sh a & claude turn.sh b & wait",
    "two background sessions of Claude Code": (
        f"export FRESH=1; echo 'setsid -w {VERSIONED} turn.sh a & setsid -w {VERSIONED} turn.sh b & wait' > daemon;"
        " claude daemon run"
    ),
    "an agent and a terminal": "FRESH=1 claude turn.sh a & setsid -w sh turn.sh b & wait",
    "a nested agent": "export FRESH=1; claude -c 'codex turn.sh b & . ./turn.sh; wait' turn.sh a",
    "a nested agent that shows its parent's id": (
        f"export FRESH=1 CODEX_THREAD_ID={SHOWN['CLAUDE_CODE_SESSION_ID']};"
        " codex -c 'codex turn.sh b & . ./turn.sh; wait' turn.sh a"
    ),
    "two jobs of a runner": (
        "export FRESH=1; Runner.Listener -c 'RUNNER_TRACKING_ID=github_1 Runner.Worker turn.sh a &"
        " RUNNER_TRACKING_ID=github_2 Runner.Worker turn.sh b & wait'"
    ),
    "two legs of a matrix": (
        f"export FRESH=1 {MATRIX}; Runner.Listener -c 'RUNNER_NAME=1 Runner.Worker turn.sh a & wait' &"
        " Runner.Listener -c 'RUNNER_NAME=2 Runner.Worker turn.sh b & wait' & wait"
    ),
    "two jobs that their ids alone tell apart": (
        "export FRESH=1 GITLAB_CI=true; gitlab-runner -c 'CI_JOB_ID=1 setsid -w sh turn.sh a &"
        " CI_JOB_ID=2 setsid -w sh turn.sh b & wait'"
    ),
    "marks left in a multiplexer": "tmux -c 'setsid sh turn.sh a & setsid sh turn.sh b & wait'",
    "two pid namespaces": (f"{APART} sh turn.sh a & {APART} sh turn.sh b & wait"),
    "two agents in sandboxes": (
        f"export FRESH=1; claude -c 'CLAUDE_CODE_SESSION_ID=1 {APART} bwrap turn.sh a' &"
        f" claude -c 'CLAUDE_CODE_SESSION_ID=2 {APART} bwrap turn.sh b' & wait"
    ),
    "a pid namespace and its host": (f"{APART} sh turn.sh a & sh turn.sh b & wait"),
}


class Place(Shell):
    """A home with the script of a contest, and programs that pretend to be others."""

    def settle(self) -> None:
        (self.home / "turn.sh").write_text(TURN)
        (self.home / "Makefile").write_text(MAKEFILE)
        (self.home / "zombie.py").write_text(ZOMBIE)
        self.with_command(self.env())
        bash = shutil.which("bash")
        assert bash is not None
        for name in FAKES:
            shutil.copy(bash, self.home / "bin" / name)
        (self.home / VERSIONED).parent.mkdir(parents=True)
        shutil.copy(bash, self.home / VERSIONED)

    def contest(
        self, script: str, number: int, agents: int = 2, env: Mapping[str, str] | None = None, name: str = ""
    ) -> list[str]:
        """What each agent was told, in order."""
        place = self.home / "round"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        known = {"NAME": name or f"thing-{number}", "AGENTS": str(agents), **(env or {})}
        done = self.sh(script, holder=None, env=known)
        told = [path.read_text().strip() for kind in ("won", "part") for path in sorted(place.glob(f"{kind}.*"))]
        assert len(told) == agents, done
        return sorted(told)

    def why(self) -> list[str]:
        """What those who got no yes in the last contest were told."""
        return [path.read_text() for path in sorted((self.home / "round").glob("why.*"))]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path / "home") as place:
        place.settle()
        yield place


@pytest.mark.parametrize("scene", CONTESTS)
def test_of_two_agents_one_gets_a_yes_and_no_other_ends_its_lease(place: Place, scene: str) -> None:
    for number in range(ROUNDS):
        told = place.contest(CONTESTS[scene], number, env=SHOWN if "marks" in scene else None)
        assert told == [ONE, REFUSED], (scene, number, place.why())


@pytest.mark.parametrize("scene", ["two pid namespaces", "a pid namespace and its host", "two terminals"])
def test_a_request_id_that_two_agents_choose_gets_one_yes(place: Place, scene: str) -> None:
    """As a release's number would. It belongs to the holder, so two processes of one pid need two names."""
    for number in range(FEW):
        told = place.contest(CONTESTS[scene], number, env={"TAKE": "leasehold acquire --request-id release-7"})
        assert told == [ONE, REFUSED], (scene, number, place.why())


def test_two_pid_namespaces_that_wait_for_each_other_are_told_of_the_deadlock(place: Place) -> None:
    meet = ": > round/has.$1; while [ ! -e round/has.$2 ]; do sleep 0.01; done"
    script = f"leasehold acquire $1 && {{ {meet}; leasehold acquire $2 --wait 1m; echo $? > round/got.$1; }}"
    (place.home / "cross.sh").write_text(f"{script}; leasehold release $1")
    (place.home / "round").mkdir()
    done = place.sh(f"{APART} sh cross.sh a b & {APART} sh cross.sh b a & wait", holder=None)
    told = sorted((place.home / "round" / f"got.{name}").read_text().strip() for name in "ab")
    assert told == ["0", "6"], done


NAMED = ", with one name given"
RLOCKS = (
    *("two terminals", "make -j", "two pid namespaces", "two agents, a session for each call"),
    f"two terminals{NAMED}",
)


def test_the_owner_of_grites_locks_ends_no_lease_that_another_process_took_under_its_name(place: Place) -> None:
    """In grite the name of an owner is enough. For what `leasehold acquire` took it is not, also if names are equal."""
    calls = ("lock acquire", "lock renew", "lock release")
    again = "; ".join(f"leasehold {call} $NAME > /dev/null 2>&1; echo $?" for call in calls)
    for number in range(FEW):
        env = {"NAME": f"thing-{number}", "AGAIN": again, "LEASEHOLD_HOLDER": "coder"}
        script = 'leasehold acquire $NAME > /dev/null; sh -c "$AGAIN"'
        beside = f"setsid -w sh -c '{script.partition(';')[0]}; : > up; while [ -e up ]; do sleep 0.01; done' &"
        done = place.sh(f'{beside} until [ -e up ]; do sleep 0.01; done; sh -c "$AGAIN"; rm up; wait', None, env)
        assert done.out.split() == ["4", "4", "4"], (number, done)
        assert place.holders(f"thing-{number}") == ["coder"]
        own = place.sh(script, None, {**env, "NAME": f"own-{number}"})
        assert own.out.split() == ["0", "0", "0"], (number, own)


@pytest.mark.parametrize("scene", RLOCKS)
def test_without_a_secret_one_of_two_agents_gets_a_yes_from_rlock(place: Place, scene: str) -> None:
    (place.home / "rlock.py").write_text(RLOCK)
    names = {"TAKE": "rlock", "KEEP": "rlock-heartbeat", "DROP": "runlock"}
    words = {key: f"$PYTHON $HOME/rlock.py {name}" for key, name in names.items()}
    given = {"LEASEHOLD_HOLDER": "coder"} if scene.endswith(NAMED) else {}
    for number in range(FEW):
        env = {**words, **given, "PYTHON": sys.executable}
        told = place.contest(CONTESTS[scene.removesuffix(NAMED)], number, env=env, name=f"a://thing-{number}")
        assert told == [ONE, "1 1"], (scene, number)


def test_without_a_secret_two_sub_agents_never_get_two_yeses_from_rlock(place: Place) -> None:
    (place.home / "rlock.py").write_text(RLOCK)
    (place.home / "bin" / "claude").write_text(HARNESS)
    script = "$PYTHON bin/claude 'set -- a; . ./turn.sh' 'set -- b; . ./turn.sh'"
    words = {"TAKE": "$PYTHON $HOME/rlock.py rlock", "DROP": "true", "KEEP": "true"}
    for number in range(FEW):
        env = {**SHOWN, **words, "PYTHON": sys.executable}
        told = place.contest(script, number, env=env, name=f"a://thing-{number}")
        assert sorted(each[0] for each in told) == ["0", "1"], number


@pytest.mark.parametrize("start", ["sh", "setsid -w sh"])
def test_without_a_secret_a_child_of_a_script_is_refused_by_rlock_and_may_runlock(place: Place, start: str) -> None:
    """They are one agent for runlock, as for `leasehold release`; both never get a yes."""
    (place.home / "rlock.py").write_text(RLOCK)
    call = '"$PYTHON" rlock.py {} a://$NAME > /dev/null; echo $?'
    (place.home / "child.sh").write_text("\n".join(map(call.format, ("rlock", "rlock", "runlock"))))
    (place.home / "locks.sh").write_text("\n".join((call.format("rlock"), f"{start} child.sh", call.format("runlock"))))
    for number in range(FEW):
        env = {"NAME": f"thing-{number}", "PYTHON": sys.executable}
        done = place.sh(f"{start} locks.sh", holder=None, env=env)
        assert done.out.split() == ["0", "1", "1", "0", "2"], done


@pytest.mark.parametrize("second", ["at once", "later"])
def test_sub_agents_that_nothing_tells_apart_never_get_two_yeses(place: Place, second: str) -> None:
    """Also where the second one could find the token of the first. Both are children of one agent's process."""
    (place.home / "bin" / "claude").write_text(HARNESS)
    after = "until test -e round/tried.a; do sleep 0.01; done; " if second == "later" else ""
    script = f"$PYTHON bin/claude 'set -- a; . ./turn.sh' '{after}set -- b; . ./turn.sh'"
    for number in range(ROUNDS):
        told = place.contest(script, number, env={**SHOWN, "FRESH": "1", "PYTHON": sys.executable})
        assert sorted(each[0] for each in told) == ["0", "4"], number
        said = "".join(place.why())
        is_early = second == "at once" and "Next: go on with something else, or wait for it" in said
        assert is_early or "if another agent of your session took it, leave it alone" in said


def test_two_users_of_one_repository_are_two(place: Place) -> None:
    repository(place.home / "app")
    shutil.copy(place.home / "turn.sh", place.home / "app")
    users = [f"HOME=$HOME/{name} USER={name} XDG_STATE_HOME=$HOME/{name} sh turn.sh {name}" for name in ("ada", "bob")]
    (place.home / "app" / "round").symlink_to(place.home / "round")
    for number in range(ROUNDS):
        told = place.contest(f"cd app; {users[0]} & {users[1]} & wait", number)
        assert told == [ONE, REFUSED], (number, place.why())


ALONE = {
    "a command substitution": 'bash -c \'x=$(leasehold acquire "$NAME") && leasehold release "$NAME"\'',
    "a subshell and a pipeline": "(leasehold acquire $NAME) | cat; leasehold renew $NAME; leasehold release $NAME",
    "a trap": "sh -c 'trap \"leasehold release $NAME\" EXIT; leasehold acquire $NAME'",
    "another directory": 'leasehold acquire "$NAME"; mkdir -p sub; cd sub; leasehold release "$NAME"',
    "an agent whose calls are sessions": (
        'claude -c \'setsid -w sh -c "leasehold acquire $NAME"; setsid -w sh -c "leasehold renew $NAME" &&'
        ' setsid -w sh -c "leasehold release $NAME"\''
    ),
    "Claude Code under the name of its version": (
        f'export CLAUDE_CODE_SESSION_ID=0f3c91d2; {VERSIONED} -c \'setsid -w sh -c "leasehold acquire $NAME";'
        ' setsid -w sh -c "leasehold release $NAME"; exit $?\''
    ),
    "the calls of an agent, each in a sandbox of its own": (
        f'export CLAUDE_CODE_SESSION_ID=0f3c91d2; claude -c \'{APART} bwrap -c "leasehold acquire $NAME; true";'
        f' {APART} bwrap -c "leasehold renew $NAME; true" && leasehold release $NAME; exit $?\''
    ),
    "the steps of a job": (
        'export CI_JOB_ID=7 GITLAB_CI=true; gitlab-runner -c \'setsid -w sh -c "leasehold acquire $NAME";'
        ' setsid -w sh -c "leasehold release $NAME"; exit $?\''
    ),
    "sudo": (
        "sudo -c 'setsid -w sh -c \"leasehold acquire $NAME\"; true';"
        " sudo -c 'setsid -w sh -c \"leasehold release $NAME\"; exit $?'"
    ),
}


@pytest.mark.parametrize("scene", ALONE)
def test_one_agent_acquires_and_releases_by_separate_commands(place: Place, scene: str) -> None:
    for number in range(ROUNDS):
        done = place.sh(ALONE[scene], holder=None, env={"NAME": f"thing-{number}"})
        assert done.code == 0, (scene, number, done)
        assert place.holders(f"thing-{number}") == []


LEFT = {
    "a closed terminal": 'setsid -w sh -c \'leasehold acquire "$NAME"; true\'; setsid -w sh -c "$AGAIN"',
    "a closed real terminal": ('script -qec \'leasehold acquire "$NAME"\' /dev/null; script -qec "$AGAIN" /dev/null'),
    "a lost state file": 'leasehold acquire "$NAME"; rm -r "$XDG_STATE_HOME"/leasehold/tokens*; sh -c "$AGAIN"',
    "a zombie parent": "$PYTHON zombie.py",
    "another pid namespace": f'{APART} leasehold acquire $NAME; sh -c "$AGAIN"',
}
AGAIN = "; ".join(
    f'leasehold {words}; echo "$?"' for words in ("acquire $NAME", "acquire $NAME --reentrant", "release $NAME")
)


@pytest.mark.parametrize("scene", LEFT)
def test_a_lease_of_an_agent_that_ended_belongs_to_no_other_agent(place: Place, scene: str) -> None:
    for number in range(ROUNDS):
        env = {"NAME": f"thing-{number}", "AGAIN": AGAIN, "PYTHON": sys.executable}
        done = place.sh(LEFT[scene], holder=None, env=env)
        told = [line for line in done.out.splitlines() if line.isdigit()]
        assert told == ["4", "4", "8"], (scene, number, done)
