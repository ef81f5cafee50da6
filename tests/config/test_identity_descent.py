"""From which processes a command comes, and which tokens it may use for that: on trees of processes made here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest

from leasehold.config.identity import DESCENDED, GIVEN, NAMED, CommandIdentity, descent, of_process
from leasehold.config.identity.descent import GONE, MINE, OTHERS, UNKNOWN, Lineage, Process

MACHINE, CONTAINER = "boot/pid:[4026531836]", "boot/pid:[4026532999]"


class Tree:
    """Processes by their ids: `tree.add(12, 11, "bash")` is a bash below process 11."""

    def __init__(self, place: str = MACHINE) -> None:
        self.place = place
        self.is_whole = place == MACHINE
        self.processes: dict[int, Process] = {}
        self.told: dict[int, list[str]] = {}
        self.programs: dict[int, str] = {}
        """Paths of programs, where they matter."""
        self.fresh = count(900)
        self.add(1, 0, "systemd", leads=True)

    def add(self, pid: int, parent: int, name: str, *words: str, leads: bool = False, terminal: str = "") -> int:
        session = pid if leads or parent not in self.processes else self.processes[parent].session
        self.processes[pid] = Process(pid, f"s{pid}", parent, session, terminal, name)
        self.told[pid] = [name, *words]
        return pid

    def end(self, *pids: int) -> None:
        for pid in pids:
            del self.processes[pid]

    def read(self, pid: int) -> Process | None:
        return self.processes.get(pid)

    def words(self, pid: int) -> list[str]:
        return self.told[pid]

    def program(self, pid: int) -> str:
        return self.programs.get(pid, "")

    def command(self, parent: int) -> Lineage:
        """A `leasehold` below this process, which ends at once."""
        pid = self.add(next(self.fresh), parent, "leasehold")
        line = descent.trace(pid, self)
        self.end(pid)
        return line


@pytest.fixture(autouse=True)
def hidden(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Processes that exist and cannot be read, as those of other users under `hidepid`."""
    pids: set[int] = set()

    def kill(pid: int, _signal: int) -> None:
        if pid in pids:
            raise PermissionError
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", kill)
    return pids


@pytest.fixture
def tree() -> Tree:
    return Tree()


def names(line: Lineage) -> list[str]:
    return [each.name for each in line.chain]


# ------------------------------------------------------------------------------------------------- chains


def test_a_terminals_commands_belong_to_its_shell(tree: Tree) -> None:
    tree.add(10, 1, "gnome-terminal-", leads=True)
    zsh = tree.add(11, 10, "zsh", leads=True, terminal="pts/3")
    line = tree.command(zsh)
    assert names(line) == ["leasehold", "zsh"]
    assert line.owner is not None
    assert (line.owner.name, line.owner.terminal) == ("zsh", "pts/3")
    assert tree.command(tree.add(12, zsh, "bash", "deploy.sh")).judge(line.saved()) == MINE
    other = tree.add(20, 10, "zsh", leads=True)
    assert tree.command(other).judge(line.saved()) == OTHERS
    tree.end(zsh)
    assert tree.command(other).judge(line.saved()) == GONE


def test_two_background_jobs_are_two_and_their_script_inherits(tree: Tree) -> None:
    script = tree.add(30, tree.add(11, 1, "zsh", leads=True), "bash", "script.sh")
    one, two = tree.add(31, script, "bash", "script.sh"), tree.add(32, script, "bash", "script.sh")
    taken = tree.command(one).saved()
    assert tree.command(two).judge(taken) == tree.command(script).judge(taken) == OTHERS
    assert tree.command(tree.add(33, one, "bash", "-c", "…")).judge(taken) == MINE
    tree.end(33, one)
    assert tree.command(script).judge(taken) == MINE


def test_an_agents_calls_are_sessions_of_their_own_and_belong_to_the_agent(tree: Tree) -> None:
    claude = tree.add(40, tree.add(11, 1, "zsh", leads=True), "claude")
    call = tree.add(41, claude, "bash", "-c", "…", leads=True)
    line = tree.command(call)
    assert names(line) == ["leasehold", "bash", "claude"]
    tree.end(call)
    assert tree.command(tree.add(42, claude, "bash", leads=True)).judge(line.saved()) == MINE
    assert tree.command(11).judge(line.saved()) == OTHERS, "the terminal that started the agent is another agent"
    neighbour = tree.add(50, 11, "claude")
    assert tree.command(tree.add(51, neighbour, "bash", leads=True)).judge(line.saved()) == OTHERS


def test_an_unknown_harness_with_a_session_for_each_call_gets_no_yes(tree: Tree) -> None:
    harness = tree.add(60, 1, "harness", leads=True)
    call = tree.add(61, harness, "bash", leads=True)
    taken = tree.command(call).saved()
    tree.end(call)
    assert tree.command(tree.add(62, harness, "bash", leads=True)).judge(taken) == GONE


def test_an_agent_whose_program_has_a_version_for_a_name_is_known_by_its_place(tree: Tree) -> None:
    """As macOS shows Claude Code, and every system the workers of its background sessions."""
    claude = tree.add(40, tree.add(11, 1, "zsh", leads=True), "2.1.201")
    tree.programs[claude] = "/home/ada/.local/share/claude/versions/2.1.201"
    call = tree.add(41, claude, "bash", leads=True)
    taken = tree.command(call)
    assert names(taken) == ["leasehold", "bash", "claude"]
    tree.end(call)
    assert tree.command(tree.add(42, claude, "bash", leads=True)).judge(taken.saved()) == MINE


@pytest.mark.parametrize("daemon", ["claude", "2.1.201"])
def test_two_background_sessions_of_one_daemon_are_two_agents(tree: Tree, daemon: str) -> None:
    place = "/home/ada/.local/share/claude/versions/2.1.201"
    many = tree.add(20, 1, daemon, "daemon", "run", leads=True)
    tree.programs[many] = place
    workers = [tree.add(pid, tree.add(pid + 1, many, "2.1.201", leads=True), "2.1.201") for pid in (30, 40)]
    tree.programs |= dict.fromkeys((30, 31, 40, 41), place)
    one, other = (tree.command(tree.add(pid + 5, pid, "bash", leads=True)) for pid in workers)
    assert names(one)[-1] == "claude"
    tree.end(35)
    assert tree.command(tree.add(36, 30, "bash", leads=True)).judge(one.saved()) == MINE
    assert other.judge(one.saved()) == OTHERS
    tree.end(30, 31)
    assert other.judge(one.saved()) == GONE, "the daemon inherits nothing"
    resumed = tree.add(50, many, "unknown", leads=True)
    named = asker(tree.command(resumed), CLAUDE_CODE_SESSION_ID="run-1")
    assert named.layer == NAMED, "the daemon confirms an id"
    assert names(named.lineage) == ["leasehold", "unknown"], "and owns nothing, also above a worker that is unknown"


def test_a_nested_agent_is_another_one_in_both_directions(tree: Tree) -> None:
    outer = tree.add(70, 1, "claude", leads=True)
    inner = tree.add(72, tree.add(71, outer, "bash", leads=True), "codex")
    of_outer, of_inner = tree.command(outer), tree.command(tree.add(73, inner, "bash", leads=True))
    assert names(of_inner) == ["leasehold", "bash", "codex"]
    assert of_inner.judge(of_outer.saved()) == of_outer.judge(of_inner.saved()) == OTHERS


@pytest.mark.parametrize(
    "name",
    [
        *("tmux: server", "SCREEN", "zellij", "sshd", "cron", "gnome-terminal-", "Runner.Listener", "gitlab-runner"),
        *("init", "act_runner", "woodpecker-agen", "woodpecker-agent"),
    ],
)
def test_what_starts_others_on_behalf_of_many_owns_nothing(tree: Tree, name: str) -> None:
    many = tree.add(80, 1, name)
    one, two = tree.command(tree.add(81, many, "sh")), tree.command(tree.add(82, many, "sh"))
    assert names(one) == ["leasehold", "sh"]
    tree.end(81)
    assert two.judge(one.saved()) == GONE


def test_the_first_process_of_a_machine_owns_nothing(tree: Tree) -> None:
    tree.add(1, 0, "bash", leads=True)
    assert names(tree.command(tree.add(2, 1, "sh"))) == ["leasehold", "sh"]


def test_a_script_that_is_the_first_process_of_a_container_owns() -> None:
    tree = Tree(CONTAINER)
    tree.add(1, 0, "sh", "deploy.sh", leads=True)
    assert names(tree.command(1)) == ["leasehold", "deploy.sh"]


@pytest.mark.parametrize(("name", "owns"), [("bash", True), ("claude", True), ("tini", False), ("server", False)])
def test_the_first_process_of_a_container_owns_if_it_is_a_shell_or_an_agent(name: str, owns: bool) -> None:
    tree = Tree(CONTAINER)
    tree.add(1, 0, name, leads=True)
    assert names(tree.command(1)) == ["leasehold", *([name] if owns else [])]


def test_a_chain_of_another_namespace_or_boot_never_matches(tree: Tree) -> None:
    sh = tree.add(90, 1, "sh", leads=True)
    taken = tree.command(sh).saved()
    inside = Tree(CONTAINER)
    assert inside.command(inside.add(90, 1, "sh", leads=True)).judge(taken) == UNKNOWN
    assert Lineage(None, (), frozenset(), "", is_cut=True).judge(taken) == UNKNOWN
    assert tree.command(sh).judge("") == UNKNOWN


def test_a_process_that_is_hidden_ends_the_chain_and_may_be_the_owner(tree: Tree, hidden: set[int]) -> None:
    above = tree.add(95, 1, "sudo")
    sh = tree.add(96, above, "sh")
    taken = tree.command(sh).saved()
    tree.end(above, sh)
    hidden.add(above)
    sh = tree.add(97, above, "sh")
    line = tree.command(sh)
    assert names(line) == ["leasehold", "sh"]
    assert line.is_cut
    assert line.judge(taken) == OTHERS


def test_a_number_that_another_process_has_now_is_not_the_owner(tree: Tree) -> None:
    sh = tree.add(100, 1, "sh", leads=True)
    taken = tree.command(sh).saved()
    tree.processes[sh] = tree.processes[sh]._replace(start="later")
    assert tree.command(sh).judge(taken) == GONE


def test_sudo_begins_a_session_for_a_person_who_stays_the_same(tree: Tree) -> None:
    zsh = tree.add(11, 1, "zsh", leads=True)
    monitor = tree.add(111, tree.add(110, zsh, "sudo"), "sudo", leads=True)
    taken = tree.command(monitor).saved()
    name = asker(tree.command(monitor)).holder
    assert ", zsh 11 #" in name
    tree.end(110, 111)
    monitor = tree.add(113, tree.add(112, zsh, "sudo"), "sudo", leads=True)
    assert tree.command(monitor).judge(taken) == MINE
    assert asker(tree.command(monitor)).holder == name
    assert ", sudo 115 #" in asker(tree.command(tree.add(115, tree.add(114, 1, "sudo", leads=True), "sudo"))).holder


@pytest.mark.parametrize(
    ("name", "words", "known"),
    [
        ("bash", ["deploy.sh"], "deploy.sh"),
        ("bash", ["-e", "deploy.sh"], "bash"),
        ("bash", ["/dev/fd/63"], "bash"),
        ("sh", ["-c", "leasehold acquire x"], "sh"),
        ("zsh", [], "zsh"),
        ("node", ["/usr/bin/gemini", "-p", "…"], "gemini"),
        ("node", ["--no-warnings", "/x/node_modules/@anthropic-ai/claude-code/cli.js"], "claude-code"),
        ("node", ["/x/node_modules/@anthropic-ai/claude-agent-sdk/cli.js", "--verbose"], "claude-agent-sdk"),
        ("node", ["/home/ada/codex/server.js"], "server.js"),
        ("MainThread", ["--use-system-ca", "/x/cursor-agent/versions/2026.08.04-aaa8809/index.js"], "cursor-agent"),
        ("claude.exe", ["--resume"], "claude"),
        ("opencode.exe", [], "opencode"),
        (".claude-wrapped", [], "claude"),
        (".opencode-wrapp", [], "opencode"),
        ("2.1.201", [], "2.1.201"),
        ("java", ["-jar", "/var/jenkins/agent.jar"], "agent.jar"),
        ("python3.11", ["/usr/bin/harness"], "harness"),
    ],
)
def test_a_script_is_known_by_its_own_name(tree: Tree, name: str, words: list[str], known: str) -> None:
    line = tree.command(tree.add(120, 1, name, *words, leads=True))
    assert known == (line.end if known == "agent.jar" else line.chain[1].name)


# ------------------------------------------------------------------------------------- names and descent


def asker(line: Lineage, given: str | None = None, **env: str) -> CommandIdentity:
    return CommandIdentity(given, {"USER": "ada", **env}, line)


def test_where_another_owner_lives_descent_wins_over_a_name(tree: Tree) -> None:
    one, two = (tree.add(pid, 1, "zsh", leads=True) for pid in (130, 131))
    taken = tree.command(one).saved()
    assert not asker(tree.command(two), "coder").may_use("coder", GIVEN, taken)
    tree.end(one)
    assert asker(tree.command(two), "coder").may_use("coder", GIVEN, taken)
    assert not asker(tree.command(two), "coder").may_use("other", GIVEN, taken)


def test_a_name_that_was_given_is_never_left_although_descent_allows_it(tree: Tree) -> None:
    zsh = tree.add(140, 1, "zsh", leads=True)
    taken = tree.command(zsh).saved()
    assert asker(tree.command(zsh)).may_use("bob", GIVEN, taken)
    assert not asker(tree.command(zsh), "ada").may_use("bob", GIVEN, taken)


def test_two_runs_that_share_a_process_are_told_apart_by_their_ids(tree: Tree) -> None:
    """As the threads of one `codex app-server`, sub-agents among them."""
    codex = tree.add(170, 1, "codex", leads=True)
    call = tree.add(171, codex, "bash", leads=True)
    one, two = (asker(tree.command(call), CODEX_THREAD_ID=id_) for id_ in ("thread-1", "thread-2"))
    assert two.lineage.judge(one.saved()) == MINE
    tree.end(call)
    assert asker(tree.command(codex), CODEX_THREAD_ID="thread-1").may_use(one.holder, NAMED, one.saved())
    assert not two.may_use(one.holder, NAMED, one.saved())


def test_a_run_whose_id_changes_keeps_what_its_process_holds(tree: Tree) -> None:
    """As of Claude Code by `/clear` or `/resume`."""
    claude = tree.add(180, 1, "claude", leads=True)
    before, after = (asker(tree.command(claude), CLAUDE_CODE_SESSION_ID=id_) for id_ in ("run-1", "run-2"))
    assert before.holder != after.holder
    assert after.may_use(before.holder, NAMED, before.saved())


def test_the_name_of_a_process_opens_nothing_once_it_has_ended(tree: Tree) -> None:
    zsh = tree.add(150, 1, "zsh", leads=True)
    line = tree.command(zsh)
    tree.processes[zsh] = tree.processes[zsh]._replace(start="later")
    later = asker(tree.command(zsh))
    assert later.holder != asker(line).holder, "it replays no request of the process that had its number before"
    assert not later.may_use(asker(line).holder, DESCENDED, line.saved())
    assert not later.may_use(later.holder, DESCENDED, line.saved())
    assert not later.may_use(later.holder, GIVEN, line.saved())


def test_processes_of_equal_pids_on_two_machines_have_two_names() -> None:
    """As of two containers of one pod, which share a host name: with one name, each would replay the other's calls."""
    found = set()
    for place in (MACHINE, CONTAINER, CONTAINER.replace("2999", "3000"), MACHINE.replace("boot", "later")):
        tree = Tree(place)
        tree.end(1)
        line = tree.command(tree.add(7, 1, "sh", leads=True))
        assert asker(line).holder == asker(tree.command(7)).holder, "the commands of one process share its name"
        found.add(asker(line).holder)
    assert len(found) == 4
    hidden = Lineage(None, (), frozenset(), "", is_cut=True)
    assert f", process {os.getppid()} #" in asker(hidden).holder


def test_a_process_without_a_name_and_its_fork_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = of_process()
    monkeypatch.setattr(os, "getpid", lambda: 4711)
    forked = of_process()
    assert ":4711-" in forked
    assert ours.rpartition("-")[2] != forked.rpartition("-")[2]


def test_the_steps_of_a_job_share_what_they_take_by_the_jobs_id(tree: Tree) -> None:
    runner = tree.add(160, 1, "gitlab-runner")
    step = tree.add(161, runner, "bash", leads=True)
    first = asker(tree.command(step), CI_JOB_ID="7", CI_SERVER_HOST="gitlab.example")
    taken = first.saved()
    tree.end(step)
    later = tree.command(tree.add(162, runner, "bash", leads=True))
    assert asker(later, CI_JOB_ID="7", CI_SERVER_HOST="gitlab.example").may_use(first.holder, NAMED, taken)
    assert not asker(later, CI_JOB_ID="8", CI_SERVER_HOST="gitlab.example").may_use(first.holder, NAMED, taken)


# ----------------------------------------------------------------------------------------- the real thing


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_processes_of_this_test_can_be_read() -> None:
    line = descent.of_this_command()
    assert line.view is not None
    assert (line.chain[0].pid, line.chain[1].pid) == (os.getpid(), os.getppid())
    assert line.judge(line.saved()) == MINE


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert descent.ProcProcesses().read(child.pid) is None
    child.wait()


WITHOUT_ITS_FIRST_THREAD = """
import ctypes, platform, sys, threading
threading.Thread(target=lambda: (sys.stdin.readline(), sys.stdin.readline())).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_whose_first_thread_has_ended_lives() -> None:
    with subprocess.Popen([sys.executable, "-c", WITHOUT_ITS_FIRST_THREAD], stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        stat = Path(f"/proc/{child.pid}/stat")
        while ") Z " not in stat.read_text():
            time.sleep(0.01)
        found = descent.ProcProcesses().read(child.pid)
        assert found is not None
        assert found.parent == os.getpid()
        child.stdin.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_view_of_another_namespace_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(ValueError, match="another pid namespace"):
        descent.ProcProcesses()
    assert descent.of_this_command().saved() == ""
