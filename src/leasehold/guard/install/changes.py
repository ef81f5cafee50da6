"""Changes of files that belong to other programs: shown first, made atomically, and undone exactly.

The original of each file is kept in the user's state. If the file was not changed since, undoing restores every byte.
"""

from __future__ import annotations

import base64
import difflib
import json
import os
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.config import paths as places

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Edit = Callable[[bytes | None], bytes | None]


@dataclass(frozen=True)
class FileChange:
    """One file before and after; None: it does not exist."""

    path: Path
    before: bytes | None
    after: bytes | None
    mode: int | None = None

    @property
    def is_one(self) -> bool:
        """True if anything changes."""
        return self.before != self.after

    def diff(self) -> str:
        """Return the difference for people."""
        old, new = ((text or b"").decode("utf-8", "replace").splitlines() for text in (self.before, self.after))
        name = str(self.path)
        return "\n".join(difflib.unified_diff(old, new, name, name, lineterm="", n=2))


@dataclass(frozen=True)
class FileMove:
    """A file, or a link, that is renamed."""

    source: Path
    path: Path
    is_one = True

    def diff(self) -> str:
        """Describe the rename as git does."""
        return f"rename from {self.source}\nrename to {self.path}"


class Ledger:
    """The record of what was changed, to undo it."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._directory = Path(places.state_home(env)) / "installed"

    def install(self, path: Path, add: Edit, remove: Edit, mode: int | None = None) -> FileChange:
        """Return the change that adds our part and replaces an earlier one."""
        before = _read(path)
        return FileChange(path, before, add(self._without(path, before, remove)), mode)

    def uninstall(self, path: Path, remove: Edit) -> FileChange:
        """Return the change that removes our part."""
        before = _read(path)
        return FileChange(path, before, self._without(path, before, remove))

    def _without(self, path: Path, now: bytes | None, remove: Edit) -> bytes | None:
        kept = self._kept(path)
        if kept is not None and now is not None and kept["after"] == _hash(now):
            original = kept["before"]
            return None if original is None else base64.b64decode(original)
        return None if now is None else remove(now)

    def make(self, change: FileChange | FileMove) -> None:
        """Make a change. It is recorded first, so that it can be undone even after a crash in between."""
        if isinstance(change, FileMove):
            change.source.replace(change.path)
            return
        if not change.is_one:
            return
        self._remember(change)
        if change.after is None:
            change.path.unlink()
            directory = change.path.parent
            while directory.name in _OURS and not any(directory.iterdir()):
                directory.rmdir()
                directory = directory.parent
        else:
            _write(change.path, change.after, change.mode)

    def _remember(self, change: FileChange) -> None:
        """Record the original of a first installation; a second one keeps that."""
        if change.after is None:
            return
        kept = self._kept(change.path)
        original = change.before
        if kept is not None and change.before is not None and kept["after"] == _hash(change.before):
            original = None if kept["before"] is None else base64.b64decode(kept["before"])
        before = None if original is None else base64.b64encode(original).decode()
        note = {"path": str(change.path), "before": before, "after": _hash(change.after)}
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(self._file(change.path), json.dumps(note).encode(), 0o600)

    def _kept(self, path: Path) -> dict[str, str | None] | None:
        try:
            kept: dict[str, str | None] = json.loads(self._file(path).read_bytes())
        except FileNotFoundError:
            return None
        return kept

    def _file(self, path: Path) -> Path:
        return self._directory / places.digest(str(path.resolve()))


def _hash(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _write(path: Path, content: bytes, mode: int | None) -> None:
    """Replace a file atomically, with its mode or a given one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    target = path.resolve()  # a link stays one
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    draft.write_bytes(content)
    if mode is not None or target.exists():
        draft.chmod(mode if mode is not None else target.stat().st_mode & 0o7777)
    draft.replace(target)


_OURS = (
    *("leasehold", "skills", "hooks", "plugins", ".agents", ".claude", ".codex", ".cursor", ".gemini", ".github"),
    *(".vscode", ".copilot", ".opencode", ".windsurf"),
)


# ------------------------------------------------------------------------------------------ marked blocks


def put_block(text: bytes | None, begin: str, body: str, end: str) -> bytes:
    """Append this block after one newline, which `take_block` removes again."""
    block = f"{begin}\n{body.rstrip()}\n{end}\n".encode()
    return text + b"\n" + block if text else block


def take_block(text: bytes, begin: str, end: str) -> bytes | None:
    """Return the text without the block; None if nothing else is left."""
    start = text.find(begin.encode())
    stop = text.find(end.encode(), start)
    if start < 0 or stop < 0:
        return text
    stop += len(end.encode())
    stop += text[stop : stop + 1] == b"\n"
    before, after = text[:start], text[stop:]
    before = before.removesuffix(b"\n")
    return before + after if (before + after).strip() else None
