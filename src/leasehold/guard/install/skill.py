"""The skill and the block for AGENTS.md: files that agents read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.guard.install import blocks, words

if TYPE_CHECKING:
    from pathlib import Path

    from leasehold.guard.install.changes import Change, Ledger

TARGETS = {"claude": ".claude/skills", "codex": ".codex/skills", "cursor": ".cursor/skills", "agents": ".agents/skills"}
"""Where each kind of agent looks for skills."""


def changes(target: str, place: Path, ledger: Ledger, *, remove: bool) -> list[Change]:
    """The skill's own file, and the block in AGENTS.md."""
    skill = place / TARGETS[target] / "leasehold" / "SKILL.md"
    agents = place / "AGENTS.md"
    if remove:
        return [ledger.uninstall(skill, lambda _: None), ledger.uninstall(agents, _take)]
    return [ledger.install(skill, lambda _: words.SKILL.encode(), lambda _: None), ledger.install(agents, _put, _take)]


def _put(text: bytes | None) -> bytes:
    return blocks.put(text, words.BEGIN, words.BLOCK, words.END)


def _take(text: bytes | None) -> bytes | None:
    return None if text is None else blocks.take(text, words.BEGIN, words.END)
