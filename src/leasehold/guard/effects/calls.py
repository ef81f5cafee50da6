"""Which tool calls run in a tree at the same time, and what each of them accounts for.

Each call of each agent is a small file beside the others of its tree: when it began and ended, which paths it said that
it would write, and in which state it left the files that it changed. So a change can be told apart from what another
agent did meanwhile.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH103, PTH105, PTH108, PTH116, PTH118, PTH123, PTH208

from __future__ import annotations

import os
from stat import S_ISREG

from leasehold.config.paths import digest
from leasehold.domain.nouns import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from leasehold.guard.effects.picture import State

KEPT_NS = 3600 * 10**9
"""A call is forgotten so long after it began, in nanoseconds: agents end their tool calls within minutes."""
KEPT_MOST, KEPT_BYTES = 64, 4 * 1024 * 1024
"""Files that are copied as a call left them, each of at most this size."""
NONE_LEFT: Mapping[str, State] = {}
MINE, THEIRS, UNKNOWN = "mine", "theirs", "unknown"


class ToolUse(Noun):
    """One tool call of one agent."""

    id: str
    session: str
    """The id of the agent's session, as the hooks call it."""
    holder: str
    began: int
    """In nanoseconds, by the clock that stamps the tree's files; see `Register.now`."""
    ended: int | None = None
    said: tuple[str, ...] = ()
    """The paths that it plainly writes, below the root of the tree."""
    left: Mapping[str, State] = NONE_LEFT
    """In which state it left the files that it changed."""
    is_edit: bool = False
    """True for a file tool, which writes what it said and nothing else."""

    def may_have_written(self, path: str, state: State) -> bool:
        """Return True if this call may have left the file in this state."""
        ran = state is None or (self.began <= state[3] and (self.ended is None or state[3] <= self.ended))
        return ran and (not self.is_edit or path in self.said)


class Register:
    """The calls of one tree, in a directory that all of its agents share."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def now(self) -> int:
        """Return the time by the clock that stamps files: it ticks every 1 to 10 ms, and a server may keep it."""
        os.makedirs(self._directory, 0o777, exist_ok=True)
        path = os.path.join(self._directory, f"clock.{os.getpid()}")
        with open(path, "wb") as file:
            moment = os.fstat(file.fileno()).st_ctime_ns
        _remove(path)
        return moment

    def write(self, call: ToolUse) -> None:
        """Record a call that begins, or what became of it."""
        os.makedirs(self._directory, 0o777, exist_ok=True)
        path = self._path(call.id, _OPEN if call.ended is None else _OVER)
        draft = f"{path}.{os.getpid()}"
        with open(draft, "wb") as file:
            file.write(_written(call))
        os.replace(draft, path)
        if call.ended is not None:
            _remove(self._path(call.id, _OPEN))

    def read(self, id_: str) -> ToolUse | None:
        """Return a call; None if it was never recorded or is forgotten."""
        for ending in (_OVER, _OPEN, _OVER):  # it may end between two looks
            try:
                with open(self._path(id_, ending), "rb") as file:
                    return _read(id_, file.read())
            except FileNotFoundError:
                continue
        return None

    def withdraw(self, id_: str) -> None:
        """Forget a call that will not run after all."""
        _remove(self._path(id_, _OPEN))

    def keep(self, call: ToolUse, root: str, paths: Iterable[str]) -> None:
        """Copy files that this call has left, if a shell of another agent may overwrite them before its hook looks."""
        if not self._is_beside_a_shell(call):
            return
        import shutil  # noqa: PLC0415 (rare)

        for path in list(paths)[:KEPT_MOST]:
            file = os.path.join(root, path)
            try:
                status = os.lstat(file)
                if S_ISREG(status.st_mode) and status.st_size <= KEPT_BYTES:
                    shutil.copy(file, self._copy(call, path))
            except OSError:
                continue  # it was removed meanwhile

    def kept(self, call: ToolUse, path: str) -> str:
        """Return the copy of a file as this call left it; empty if there is none."""
        copy = self._copy(call, path)
        return copy if os.path.lexists(copy) else ""

    def _is_beside_a_shell(self, mine: ToolUse) -> bool:
        try:
            names = os.listdir(self._directory)
        except FileNotFoundError:
            return False  # the call has moved the repository away
        opened = [name.removesuffix(_OPEN) for name in names if name.endswith(_OPEN)]
        calls = (self.read(id_) for id_ in opened if id_ != mine.id)
        return any(call is not None and not call.is_edit and call.session != mine.session for call in calls)

    def others(self, mine: ToolUse) -> list[ToolUse]:
        """Return the calls of other agents that ran while this one did; calls long gone are removed."""
        return [
            call
            for call in self._all(mine.began)
            if call.session != mine.session
            and (call.ended is None or call.ended >= mine.began)
            and (mine.ended is None or mine.ended >= call.began)
        ]

    def judged(self, mine: ToolUse) -> list[ToolUse]:
        """Return the agent's other calls, whose changes so far were judged with them."""
        return [call for call in self._all(mine.began) if call.session == mine.session and call.id != mine.id]

    def knows(self, holder: str) -> bool:
        """Return True if hooks of an agent of this name have recorded a call here lately."""
        return any(call.holder == holder for call in self._all(self.now()))

    def _all(self, now: int) -> Iterator[ToolUse]:
        try:
            names = os.listdir(self._directory)
        except FileNotFoundError:
            return
        for name in names:
            path = os.path.join(self._directory, name)
            try:
                is_old = os.stat(path).st_mtime_ns < now - KEPT_NS
            except FileNotFoundError:
                continue  # its own agent has just replaced or removed it
            if is_old:
                _remove(path)
            elif name.endswith((_OPEN, _OVER)):
                id_ = name.rpartition(".")[0]
                if not (name.endswith(_OPEN) and id_ + _OVER in names) and (call := self.read(id_)) is not None:
                    yield call

    def _path(self, id_: str, ending: str) -> str:
        return os.path.join(self._directory, id_ + ending)

    def _copy(self, call: ToolUse, path: str) -> str:
        return os.path.join(self._directory, f"{call.id}.{digest(path)}.kept")


_OPEN, _OVER = ".open", ".call"
"""How the names of the files of calls end, before and after the end of a call."""


def attributed(path: str, state: State, mine: ToolUse, others: Sequence[ToolUse]) -> tuple[str, ToolUse | None]:
    """Return whose change this is, `mine`, `theirs` or `unknown`, with the other call that it is or may be."""
    for call in others:
        if path in call.left and call.left[path] == state:
            return THEIRS, call
    if path in mine.said:
        return MINE, None
    rivals = [call for call in others if call.may_have_written(path, state)]
    return (UNKNOWN, rivals[0]) if rivals else (MINE, None)


def _written(call: ToolUse) -> bytes:
    """Return the call as lines of words; a path is the rest of its line. Importing `json` would take longer."""
    lines = [f"{call.session} {call.began} {call.ended or 0} {call.is_edit:d}", call.holder]
    lines += [f"said {_one_line(path)}" for path in call.said]
    for path, state in call.left.items():
        words = "gone" if state is None else " ".join(map(str, state))
        lines.append(f"left {words} {_one_line(path)}")
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _read(id_: str, content: bytes) -> ToolUse:
    head, holder, *lines = content.decode("utf-8", "surrogatepass").split("\n")
    session, began, ended, is_edit = head.split(" ")
    said = tuple(_path(line[5:]) for line in lines if line.startswith("said "))
    left: dict[str, State] = {}
    for line in lines:
        if line.startswith("left gone "):
            left[_path(line[10:])] = None
        elif line.startswith("left "):
            _, mode, inode, size, changed, path = line.split(" ", 5)
            left[_path(path)] = (int(mode), int(inode), int(size), int(changed))
    return ToolUse(id_, session, holder, int(began), int(ended) or None, said, left, is_edit == "1")


def _one_line(path: str) -> str:
    return path.replace("\\", "\\\\").replace("\n", "\\n")


def _path(line: str) -> str:
    return line.replace("\\n", "\n").replace("\\\\", "\\") if "\\" in line else line


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return  # another hook was quicker


__all__ = ["MINE", "THEIRS", "UNKNOWN", "Register", "ToolUse", "attributed"]
