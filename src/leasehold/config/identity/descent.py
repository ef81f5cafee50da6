"""The processes that a command comes from, and whether it may use another command's token.

The chain of a command is the command itself, its parent, and so on, upward to the process that owns it: a terminal's
shell, a script, an agent. A later command may use a token if the nearest process of the token's chain that still lives
is the later command itself or one of its ancestors.

Processes are read from `/proc` (0.15 ms for six processes), on macOS by ``macos``. Where they cannot be read, descent
never allows a token.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH115, PTH119, PTH123

from __future__ import annotations

import os
import sys

from leasehold.config.identity.agents import (
    CARRIERS,
    DAEMONS,
    INTERPRETERS,
    MULTIPLEXERS,
    NOBODY,
    OF_MANY,
    OF_ONE_RUN,
    SHELLS,
    VERSIONED,
)
from leasehold.domain.nouns import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class ProcessTable(Protocol):
        """The processes of a system."""

        place: str
        """Boot and pid namespace, in which process ids are valid."""
        is_whole: bool
        """True if every process of the machine can be seen."""

        def read(self, pid: int) -> Process | None:
            """Return a living process; None for one that is dead, a zombie, or hidden from us."""

        def words(self, pid: int) -> list[str]:
            """Return the command line of a process; empty if it cannot be read."""

        def program(self, pid: int) -> str:
            """Return the path of a process's program; empty if it cannot be read."""


MINE, OTHERS, GONE, UNKNOWN = "mine", "others", "gone", "unknown"
_FIRST_NAMESPACE = "pid:[4026531836]"
"""The number that Linux gives to the pid namespace of the machine itself (PROC_PID_INIT_INO)."""
_MOST = 64
"""The longest chain that is followed."""


class Process(Noun):
    """One living process."""

    pid: int
    start: str
    """Its start time, as the system counts; with the pid, unique until the machine restarts."""
    parent: int
    session: int
    terminal: str
    name: str
    """The name of its program, or of the script that it interprets."""


class Lineage(Noun):
    """The processes that one command comes from."""

    view: ProcessTable | None
    """None if processes cannot be read."""
    chain: tuple[Process, ...]
    """The processes that own this command's tokens, the command itself first."""
    above: frozenset[tuple[int, str]]
    """Pid and start of the command and its ancestors, up to the nearest agent."""
    end: str
    """Name of the program that ended the search: an agent's, or one that starts others on behalf of many."""
    is_cut: bool
    """True if ancestors may be hidden from us, as in a container."""

    @property
    def agent(self) -> Process | None:
        """The process of the nearest agent, if one was met."""
        return self.chain[-1] if self.end in OF_ONE_RUN else None

    @property
    def owner(self) -> Process | None:
        """The process after which this command is named: its agent's, else its parent, or who ran that by sudo."""
        above = self.chain[1:]
        return self.agent or next((each for each in above if each.name not in CARRIERS), above[0] if above else None)

    def saved(self) -> str:
        """Return the chain as text, to save with a token."""
        if self.view is None:
            return ""
        return " ".join((self.view.place, *(f"{each.pid}:{each.start}" for each in self.chain)))

    def judge(self, saved: str) -> str:
        """Judge who owns a token that a command with this chain saved.

        `mine`, `others` (another owner lives), `gone` (all of them are dead), `unknown` (another machine or namespace).
        """
        place, *chain = saved.split(" ")
        if self.view is None or place != self.view.place:
            return UNKNOWN
        for each in chain:
            pid, _, start = each.partition(":")
            if (int(pid), start) in self.above:
                return MINE
            if _lives(self.view, int(pid), start):
                return OTHERS
        return GONE


def of_this_command() -> Lineage:
    """Return the lineage of the current process."""
    try:
        view = _view()
    except (OSError, ValueError):
        return Lineage(None, (), frozenset(), "", is_cut=True)
    return trace(os.getpid(), view)


def trace(pid: int, view: ProcessTable) -> Lineage:
    """Follow the parents of a process upward, to the nearest agent or to a program that starts others for many."""
    line: list[Process] = []
    end, parent = "", pid
    while len(line) < _MOST and (process := view.read(parent)) is not None:
        program = process.name
        if line:
            process = process._replace(name=_known_name(process, view))
        if line and _is_nobody(process, program, view):
            end = process.name
            break
        line.append(process)
        if len(line) > 1 and process.name in OF_ONE_RUN:
            end = process.name
            break
        parent = process.parent
    # The first process of a container, or of an agent's sandbox, hides who started it.
    is_inside = parent == 1 and not view.is_whole and end not in MULTIPLEXERS | OF_ONE_RUN
    is_cut = is_inside if end else not (parent == 0 and view.is_whole)
    above = frozenset((each.pid, each.start) for each in line)
    return Lineage(view, _owners(line, is_agent=end in OF_ONE_RUN and bool(line)), above, end, is_cut)


def _owners(line: list[Process], *, is_agent: bool) -> tuple[Process, ...]:
    """Return the processes up to the session's leader, and a recognised agent above it."""
    for place, process in enumerate(line):
        is_carried = place + 1 < len(line) and line[place + 1].name in CARRIERS
        if process.session == process.pid and not is_carried:
            led = line[: place + 1]
            return (*led, line[-1]) if is_agent and led[-1] is not line[-1] else tuple(led)
    return tuple(line)


def _is_nobody(process: Process, program: str, view: ProcessTable) -> bool:
    """True for a process that many have in common. In a container, the first process may be a shell, or its script."""
    if process.pid == 1 and (view.is_whole or (program not in SHELLS and process.name not in OF_ONE_RUN)):
        return True
    return process.name in OF_MANY or process.name in NOBODY


def _lives(view: ProcessTable, pid: int, start: str) -> bool:
    process = view.read(pid)
    if process is not None:
        return process.start == start
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # of another user, and hidden from us: it may be the owner
    except OSError:
        return False
    return False  # of this user, and a zombie


def _known_name(process: Process, view: ProcessTable) -> str:
    """Return the name of the program, or of the script that it runs."""
    name = _plain_name(process.name)
    if name[:1].isdigit():  # a version
        name = _by_place(view.program(process.pid)) or name
    if name in DAEMONS and view.words(process.pid)[1:2] == ["daemon"]:
        return f"{name} daemon"
    if not (name in SHELLS or name.startswith(INTERPRETERS)):
        return name
    for word in view.words(process.pid)[1:]:
        if word in ("-c", "-e", "-s", "-ec", "-lc", "-ic"):
            return name  # commands, not a script
        if word.startswith(("/dev/fd/", "/proc/")):
            return name  # `bash <(…)`: nobody would recognise a number
        if word and not word.startswith("-"):
            package = word.rpartition("/node_modules/")[2].split("/") if "/node_modules/" in word else ()
            agent = next((part for part in package if part in OF_ONE_RUN), None) or _by_place(word)
            return agent or os.path.basename(word) or name
    return name


def _plain_name(name: str) -> str:
    """Return the name as its makers have it: packages of npm add `.exe`, those of Nix `.…-wrapped`."""
    if name.startswith("."):
        name = name[1:].partition("-wrap")[0]
    return name.removesuffix(".exe")


def _by_place(path: str) -> str:
    """Return the name of the agent in whose directory this path is; empty if it is in none."""
    return next((agent for place, agent in VERSIONED.items() if place in path), "")


def _view() -> ProcessTable:
    if sys.platform == "darwin":
        from leasehold.config.identity.macos import MacProcesses  # noqa: PLC0415 (ctypes is slow to import)

        return MacProcesses()
    return ProcProcesses()


class ProcProcesses:
    """Linux's `/proc`. Raises OSError or ValueError if it is not there, or not that of our own namespace."""

    def __init__(self) -> None:
        if int(os.readlink("/proc/self")) != os.getpid():
            raise ValueError("/proc belongs to another pid namespace")
        namespace = os.readlink("/proc/self/ns/pid")
        with open("/proc/sys/kernel/random/boot_id", "rb", 0) as file:
            self.place = f"{file.read(36).decode('ascii')}/{namespace}"
        self.is_whole = namespace == _FIRST_NAMESPACE

    def read(self, pid: int) -> Process | None:
        """Return a living process."""
        try:
            with open(f"/proc/{pid}/stat", "rb", 0) as file:
                text = file.read(4_096)
        except OSError:
            return None
        head, _, rest = text.rpartition(b")")
        fields = rest.split()
        if len(fields) < 20 or (fields[0] in (b"Z", b"X", b"x") and int(fields[17]) < 2):
            return None  # with more threads, only the first one has ended
        name = head.partition(b"(")[2].decode("utf-8", "replace")
        return Process(pid, fields[19].decode("ascii"), int(fields[1]), int(fields[3]), _terminal(int(fields[4])), name)

    def words(self, pid: int) -> list[str]:
        """Return the command line of a process."""
        try:
            with open(f"/proc/{pid}/cmdline", "rb", 0) as file:
                return file.read(4_096).decode("utf-8", "replace").split("\0")
        except OSError:
            return []

    def program(self, pid: int) -> str:
        """Return the path of a process's program."""
        try:
            return os.readlink(f"/proc/{pid}/exe")
        except OSError:
            return ""


def _terminal(number: int) -> str:
    """Return the name of the terminal with this device number; empty for none."""
    major, minor = number >> 8 & 0xFFF, (number & 0xFF) | (number >> 12 & 0xFFF00)
    if 136 <= major <= 143:  # Unix98 pseudo terminals
        return f"pts/{(major - 136) * 256 + minor}"
    return f"tty{minor}" if major == 4 and minor < 64 else ""
