"""Git's hooks: install ours, which run the hooks that were there before first.

With husky, its own files get a marked block instead, since husky rewrites the hooks themselves.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.errors import InvalidInput
from leasehold.guard.install.changes import FileChange, FileMove

if TYPE_CHECKING:
    from leasehold.guard.install.changes import Ledger

CLIENT = ("pre-commit", "prepare-commit-msg", "commit-msg", "pre-push")
SERVER = ("pre-receive",)
FEEDING = ("pre-push", "pre-receive")
"""Hooks that read standard input."""
BEFORE = ".before-leasehold"
MARK = "# Leasehold checks here what others hold of the files about to change; remove it by: leasehold uninstall git"
BEGIN, END = "# leasehold: begin", "# leasehold: end"
NOT_CHECKED = 'echo "leasehold is not installed: not checked" >&2'


def changes(
    project: Path, ledger: Ledger, command: tuple[str, ...], *, server: bool, remove: bool
) -> list[FileChange | FileMove]:
    """Return the changes of all hook files; `command` calls this program on this machine."""
    found: list[FileChange | FileMove] = []
    directory = _directory(project)
    husky = _husky(directory)
    for name in SERVER if server else CLIENT:
        if husky is not None:
            found.append(_block(husky / name, name, ledger, remove=remove))
        else:
            found += _chained(directory / name, script(name, command), remove=remove)
    return found


def _directory(project: Path) -> Path:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    asked = ["git", "-C", str(project), "rev-parse", "--path-format=absolute", "--git-path", "hooks"]
    done = subprocess.run(asked, capture_output=True, text=True, env=clean, check=False)  # noqa: S603 (git, as the user has it)
    if done.returncode:
        raise InvalidInput("what", f"{project} is no git repository: {done.stderr.strip()}")
    directory = Path(done.stdout.rstrip("\n"))
    if directory.exists() and not directory.is_dir():
        raise InvalidInput("what", f"hooks are switched off here: core.hooksPath is {directory}, which is no directory")
    return directory


def _husky(directory: Path) -> Path | None:
    """Return the directory of husky's own files: beside its hooks, or (before version 9) the hooks themselves."""
    if directory.name == "_" and directory.parent.name == ".husky":
        return directory.parent
    return directory if directory.name == ".husky" else None


# ---------------------------------------------------------------------------------------- a hook of our own


def script(name: str, command: tuple[str, ...]) -> str:
    """Return the hook. Without Leasehold a commit continues with a message, and a server refuses the push."""
    missing = "exit 1" if name in SERVER else "exit 0"
    ask = f'{shlex.join(command)} git-hook {name} "$@"'
    lines = [
        "#!/bin/sh",
        MARK,
        f'before="$0{BEFORE}"',
        *(_feeding(ask) if name in FEEDING else ('[ ! -x "$before" ] || "$before" "$@" || exit $?', f"exec {ask}")),
    ]
    check = f"command -v {shlex.quote(command[0])} >/dev/null || {{ {NOT_CHECKED}; {missing}; }}"
    lines.insert(-1, check)
    return "\n".join(lines) + "\n"


def _feeding(ask: str) -> list[str]:
    return [
        "told=$(cat; echo .); told=${told%.}",
        '[ ! -x "$before" ] || printf %s "$told" | "$before" "$@" || exit $?',
        f'printf %s "$told" | {ask}',
    ]


def _is_ours(content: bytes | None) -> bool:
    return content is not None and MARK.encode() in content


def _chained(path: Path, text: str, *, remove: bool) -> list[FileChange | FileMove]:
    """Move an existing hook aside unchanged: a link stays a link, and a hook that is not executable stays so."""
    before = path.with_name(path.name + BEFORE)
    there = path.read_bytes() if path.exists() else None
    if not remove:
        if _is_there(path) and not _is_ours(there):
            return [*_spared(before), FileMove(path, before), FileChange(path, None, text.encode(), 0o755)]
        return [FileChange(path, there, text.encode(), 0o755)]
    legacy = path.with_name(f"{path.name}.legacy")  # where the pre-commit framework moves existing hooks
    found: list[FileChange | FileMove] = [_away(legacy)] if legacy.exists() and _is_ours(legacy.read_bytes()) else []
    if not _is_ours(there):
        return found
    return [*found, FileMove(before, path) if _is_there(before) else _away(path)]


def _is_there(path: Path) -> bool:
    """True for a broken link, too."""
    return path.is_symlink() or path.exists()


def _spared(path: Path) -> list[FileChange | FileMove]:
    """Rename a hook that an earlier installation kept, so that it is not overwritten."""
    if not _is_there(path):
        return []
    names = (path.with_name(f"{path.name}.{number}") for number in count(1))
    return [FileMove(path, next(name for name in names if not _is_there(name)))]


def _away(path: Path) -> FileChange:
    return FileChange(path, path.read_bytes(), None)


# ------------------------------------------------------------------------------------------- husky's files


def _asked_in_passing(name: str) -> str:
    """Return the check for a file with other commands after it, which still get the same standard input.

    The file is in the repository, whose other users may not have Leasehold, so it is called by its name.
    """
    if name not in FEEDING:
        ask = f'leasehold git-hook {name} "$@" || exit $?'
        return f"if command -v leasehold >/dev/null; then {ask}; else {NOT_CHECKED}; fi"
    return f"""\
if command -v leasehold >/dev/null; then
  leasehold_told=$(cat)
  printf '%s\\n' "$leasehold_told" | leasehold git-hook {name} "$@" || exit $?
  [ -z "$leasehold_told" ] || exec <<LEASEHOLD
$leasehold_told
LEASEHOLD
else {NOT_CHECKED}; fi"""


def _block(path: Path, name: str, ledger: Ledger, *, remove: bool) -> FileChange:
    body = f"{BEGIN}\n{_asked_in_passing(name)}\n{END}\n".encode()

    def put(text: bytes | None) -> bytes:
        first, newline, rest = (text or b"").partition(b"\n")
        if first.startswith(b"#!"):
            return first + newline + body + rest
        return body + (text or b"")

    def take(text: bytes | None) -> bytes | None:
        marked = f"{BEGIN}\n.*?{END}\n".encode()
        return (None if text is None else re.sub(marked, b"", text, flags=re.DOTALL)) or None

    return ledger.uninstall(path, take) if remove else ledger.install(path, put, take, None if path.exists() else 0o755)
