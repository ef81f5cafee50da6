"""What macOS says of its processes is read as its headers lay it out; the library itself is made here."""

# What ctypes passes has no types:
# ruff: noqa: ANN401

from __future__ import annotations

import ctypes
import os
import struct
import sys
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from leasehold.config.identity import NAMED, CommandIdentity, descent, macos
from leasehold.config.identity.descent import GONE, MINE, OTHERS
from tests.config.test_identity_agents import A

if TYPE_CHECKING:
    from collections.abc import Callable

RUNNING, ZOMBIE, NO_TERMINAL = 2, 5, 0xFFFFFFFF
BSD_INFO = struct.Struct("<IIIIIIIIIIII16s32sIIIIIiQQ")
"""`struct proc_bsdinfo` of <sys/proc_info.h>, xnu-10063."""


class System:
    """As much of libSystem as is asked: `add` a process, and it is there."""

    def __init__(self) -> None:
        self.processes: dict[int, tuple[bytes, list[bytes]]] = {}
        self.sessions: dict[int, int] = {}
        self.programs: dict[int, bytes] = {}

    def add(
        self, pid: int, parent: int, name: str, *words: str, status: int = RUNNING, session: int = 0, tty: int = 0
    ) -> int:
        ids = (0, status, 0, pid, parent, *[501] * 6, 0)
        comm, long = name.encode()[:15], name.encode()
        info = BSD_INFO.pack(*ids, comm, long, 3, pid, 1, tty or NO_TERMINAL, pid, 0, 1_700_000_000 + pid, 42)
        self.processes[pid] = (info, [name.encode(), *(word.encode() for word in words)])
        self.sessions[pid] = session or self.sessions.get(parent, pid)
        return pid

    def end(self, *pids: int) -> None:
        for pid in pids:
            del self.processes[pid]

    # --------------------------------------------------------------------------------- as the library has it

    def sysctlbyname(self, name: bytes, buffer: Any, size: Any, _new: None, _length: object) -> int:
        assert name == b"kern.bootsessionuuid"
        return _fill(buffer, b"6F1A2C2E-0000-4A4B-9D3E-0123456789AB\0", size._obj)

    def proc_pidinfo(self, pid: Any, flavor: Any, arg: Any, buffer: Any, size: Any) -> int:
        assert (flavor.value, arg.value, size.value) == (3, 0, 136)
        if pid.value not in self.processes:
            return 0
        ctypes.memmove(buffer, self.processes[pid.value][0], 136)
        return 136

    def sysctl(self, query: Any, length: int, buffer: Any, size: Any, _new: None, _length: object) -> int:
        assert (list(query)[:2], length) == ([1, 49], 3)
        if query[2] not in self.processes:
            return -1
        words = self.processes[query[2]][1]
        text = struct.pack("<i", len(words)) + b"/usr/bin/" + words[0] + b"\0" * 5
        return _fill(buffer, text + b"\0".join(words) + b"\0PATH=/usr/bin\0", size._obj)

    def proc_pidpath(self, pid: Any, buffer: Any, size: Any) -> int:
        path = self.programs.get(pid.value, b"")
        assert len(path) < size.value
        ctypes.memmove(buffer, path, len(path))
        return len(path)


def _fill(buffer: Any, text: bytes, size: Any) -> int:
    ctypes.memmove(buffer, text, len(text))
    size.value = len(text)
    return 0


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    system = System()

    def getsid(pid: int) -> int:
        if pid not in system.sessions:
            raise PermissionError
        return system.sessions[pid]

    def kill(pid: int, _signal: int) -> None:
        if pid not in system.processes:
            raise ProcessLookupError

    monkeypatch.setattr(ctypes, "CDLL", lambda _name, use_errno: system)
    monkeypatch.setattr(os, "getsid", getsid)
    monkeypatch.setattr(os, "kill", kill)
    return system


@pytest.fixture
def command(system: System, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], descent.Lineage]:
    """A `leasehold` below a process, which ends at once."""

    monkeypatch.setattr(sys, "platform", "darwin")
    fresh = count(900)

    def run(parent: int) -> descent.Lineage:
        pid = system.add(next(fresh), parent, "python3.11", "-m", "leasehold.cli")
        monkeypatch.setattr(os, "getpid", lambda: pid)
        line = descent.of_this_command()
        system.end(pid)
        return line

    return run


def test_a_process_is_read_with_all_that_tells_who_it_is(system: System) -> None:
    system.add(11, 1, "a-long-name-of-a-program", "-l", session=10, tty=0x10000003)
    process = macos.MacProcesses().read(11)
    assert process == descent.Process(11, "1700000011.000042", 1, 10, "ttys003", "a-long-name-of-a-program")
    assert macos.MacProcesses().words(11) == ["a-long-name-of-a-program", "-l"]
    assert macos.MacProcesses().place == "6F1A2C2E-0000-4A4B-9D3E-0123456789AB/macos"


def test_the_dead_the_hidden_and_zombies_are_not_there(system: System) -> None:
    system.add(12, 1, "sh", status=ZOMBIE)
    view = macos.MacProcesses()
    assert view.read(12) is None
    assert view.read(13) is None
    assert view.words(13) == []
    system.add(14, 1, "sh")
    del system.sessions[14]
    assert view.read(14) is None


def test_two_terminals_are_two_and_one_of_them_releases_what_it_took(
    system: System, command: Callable[[int], descent.Lineage]
) -> None:
    system.add(1, 0, "launchd")
    system.add(10, 1, "Terminal")
    one, two = (system.add(pid, 10, "zsh", session=pid, tty=0x10000000 + pid) for pid in (20, 30))
    taken = command(one)
    assert taken.end == "Terminal"
    assert [each.name for each in taken.chain] == ["python3.11", "zsh"]
    assert command(one).judge(taken.saved()) == MINE
    assert command(two).judge(taken.saved()) == OTHERS
    system.end(one)
    assert command(two).judge(taken.saved()) == GONE
    system.add(one, 10, "zsh", status=ZOMBIE)
    assert command(two).judge(taken.saved()) == GONE


def test_an_agent_is_known_by_the_script_that_node_runs(
    system: System, command: Callable[[int], descent.Lineage]
) -> None:
    system.add(1, 0, "launchd")
    zsh = system.add(20, system.add(10, 1, "iTerm2"), "zsh", session=20)
    claude = system.add(40, zsh, "node", "/opt/homebrew/lib/node_modules/@anthropic-ai/claude-code/cli.js")
    call = system.add(41, claude, "bash", "-c", "leasehold acquire x", session=41)
    line = command(call)
    assert line.agent is not None
    assert line.agent.pid == claude
    asker = CommandIdentity(None, {"CLAUDE_CODE_SESSION_ID": A}, line)
    assert (asker.layer, asker.is_agent) == (NAMED, True)
    system.end(call)
    assert command(system.add(42, claude, "bash", session=42)).judge(line.saved()) == MINE
    assert command(zsh).judge(line.saved()) == OTHERS


def test_claude_code_of_the_native_installer_is_known_although_its_name_is_a_version(
    system: System, command: Callable[[int], descent.Lineage]
) -> None:
    system.add(1, 0, "launchd")
    zsh = system.add(20, system.add(10, 1, "Terminal"), "zsh", session=20)
    claude = system.add(40, zsh, "2.1.139")
    system.programs[claude] = b"/Users/ada/.local/share/claude/versions/2.1.139"
    line = command(system.add(41, claude, "zsh", "-c", "leasehold acquire x", session=41))
    assert [each.name for each in line.chain] == ["python3.11", "zsh", "claude"]
    assert CommandIdentity(None, {"CLAUDE_CODE_SESSION_ID": A}, line).layer == NAMED
    assert macos.MacProcesses().program(7) == ""


def test_where_the_library_does_not_answer_nothing_is_allowed_by_descent(
    system: System, command: Callable[[int], descent.Lineage], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = command(system.add(20, 1, "zsh", session=20)).saved()

    def nothing(_name: str, use_errno: bool) -> object:
        raise OSError("no such library")

    monkeypatch.setattr(ctypes, "CDLL", nothing)
    line = command(20)
    assert (line.view, line.saved(), line.judge(taken)) == (None, "", descent.UNKNOWN)
