"""The MCP entries and hooks of Claude Code, Codex and Cursor, each in the editor's own file."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from leasehold.errors import InvalidInput
from leasehold.guard.install import splice
from leasehold.guard.install.changes import put_block, take_block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from leasehold.guard.install.changes import Edit, FileChange, Ledger

TOML_BEGIN, TOML_END = "# leasehold: begin", "# leasehold: end"
_CHANGING = "Edit|MultiEdit|Write|NotebookEdit|Bash|mcp__leasehold__.*"
_PATCHING = "apply_patch|Bash|mcp__leasehold__.*"


@dataclass(frozen=True)
class InstallOptions:
    """The options of an installation."""

    command: tuple[str, ...] = ("leasehold",)
    """The command that calls this program."""
    policy: str = "require"
    on_failure: str = "open"
    http: str | None = None
    """The base URL of a server that answers the hooks, so that no process starts for each edit."""
    root: str = ""
    user: bool = False


def changes(editor: str, wish: InstallOptions, place: Path, ledger: Ledger, *, remove: bool) -> list[FileChange]:
    """Return the changes of all files for this editor."""
    if wish.http is not None and wish.on_failure != "open":
        raise InvalidInput("on_failure", "is open with --http: an editor goes on if nobody answers")
    if wish.http is not None and editor != "claude":
        raise InvalidInput("http", f"{editor} has no http hooks; only Claude Code does")
    made = []
    for path, add, take in _FILES[editor](wish, place):
        made.append(ledger.uninstall(path, take) if remove else ledger.install(path, add, take))
    return made


def _claude(wish: InstallOptions, place: Path) -> Iterator[tuple[Path, Edit, Edit]]:
    entry = {"type": "stdio", "command": wish.command[0], "args": [*wish.command[1:], "mcp"]}
    where = place / (".claude.json" if wish.user else ".mcp.json")
    yield where, _adding_server(where, entry), _taking_server(where)
    one = _claude_hook(wish)
    hooks: dict[str, list[Any]] = {
        "SessionStart": [{"hooks": [{"type": "command", "command": _hook_command("claude", wish), "timeout": 30}]}],
        "PreToolUse": [{"matcher": _CHANGING, "hooks": [one]}],
        "PostToolUse": [{"matcher": "*", "hooks": [one]}],
        "SubagentStop": [{"hooks": [one]}],
        "SessionEnd": [{"hooks": [one]}],
    }
    path = place / ".claude" / "settings.json"
    yield path, _adding_hooks(path, hooks), _taking_hooks(path)


def _claude_hook(wish: InstallOptions) -> dict[str, Any]:
    if wish.http is None:
        return {"type": "command", "command": _hook_command("claude", wish), "timeout": 30}
    asked = urlencode({"policy": wish.policy, "root": wish.root})
    return {
        "type": "http",
        "url": f"{wish.http.rstrip('/')}/v1/hooks/claude?{asked}",
        "timeout": 30,
        "headers": {"Authorization": "Bearer $LEASEHOLD_API_KEY"},
        "allowedEnvVars": ["LEASEHOLD_API_KEY"],
    }


def _codex(wish: InstallOptions, place: Path) -> Iterator[tuple[Path, Edit, Edit]]:
    words = wish.command
    body = f"[mcp_servers.leasehold]\ncommand = {json.dumps(words[0])}\nargs = {json.dumps([*words[1:], 'mcp'])}"
    yield (
        place / ".codex" / "config.toml",
        lambda text: put_block(text, TOML_BEGIN, body, TOML_END),
        lambda text: None if text is None else take_block(text, TOML_BEGIN, TOML_END),
    )
    one = {"type": "command", "command": _hook_command("codex", wish), "timeout": 30}
    hooks: dict[str, list[Any]] = {
        "PreToolUse": [{"matcher": _PATCHING, "hooks": [one]}],
        "PostToolUse": [{"matcher": _PATCHING, "hooks": [one]}],
        "SubagentStop": [{"hooks": [one]}],
        "Stop": [{"hooks": [one]}],
    }
    path = place / ".codex" / "hooks.json"
    yield path, _adding_hooks(path, hooks), _taking_hooks(path)


def _cursor(wish: InstallOptions, place: Path) -> Iterator[tuple[Path, Edit, Edit]]:
    where = place / ".cursor" / "mcp.json"
    entry = {"command": wish.command[0], "args": [*wish.command[1:], "mcp"]}
    yield where, _adding_server(where, entry), _taking_server(where)
    one = {"command": _hook_command("cursor", wish)}
    moments = ("preToolUse", "beforeShellExecution", "postToolUse", "afterFileEdit", "subagentStop", "sessionEnd")
    path = place / ".cursor" / "hooks.json"
    yield path, _adding_hooks(path, {moment: [one] for moment in moments}, version=1), _taking_hooks(path)


_FILES: dict[str, Callable[[InstallOptions, Path], Iterator[tuple[Path, Edit, Edit]]]] = {
    "claude": _claude,
    "codex": _codex,
    "cursor": _cursor,
}
EDITORS = tuple(_FILES)


def _hook_command(editor: str, wish: InstallOptions) -> str:
    closed = "" if wish.on_failure == "open" else f" --on-failure {wish.on_failure}"
    return f"{shlex.join(wish.command)} hook {editor} --policy {wish.policy}{closed}"


# ------------------------------------------------------------------------------------- JSON files of editors


def _adding_server(path: Path, entry: dict[str, Any]) -> Edit:
    return _edit(path, lambda text: splice.add(text, ("mcpServers",), entry, "leasehold"))


def _taking_server(path: Path) -> Edit:
    def take(text: str) -> str:
        servers = splice.parse(text).value.get("mcpServers", {})
        return splice.drop(text, ("mcpServers", "leasehold")) if "leasehold" in servers else text

    return _edit(path, take, is_taking=True)


def _adding_hooks(path: Path, hooks: dict[str, list[Any]], version: int | None = None) -> Edit:
    def add(text: str) -> str:
        if version is not None and "version" not in splice.parse(text).value:
            text = splice.add(text, (), version, "version")
        for moment, entries in hooks.items():
            for entry in entries:
                text = splice.add(text, ("hooks", moment), entry)
        return text

    return _edit(path, add)


def _taking_hooks(path: Path) -> Edit:
    def take(text: str) -> str:
        while (where := _ours(splice.parse(text).value)) is not None:
            text = splice.drop(text, where)
        return text

    return _edit(path, take, is_taking=True)


def _ours(settings: dict[str, Any]) -> tuple[str | int, ...] | None:
    """Return the path of our first hook in the settings."""
    hooks = settings.get("hooks", {})
    for moment, entries in hooks.items() if isinstance(hooks, dict) else ():
        for number, entry in enumerate(entries if isinstance(entries, list) else ()):
            if _is_ours(entry):
                return ("hooks", moment, number)
    return None


def _is_ours(entry: Any) -> bool:  # noqa: ANN401 (any JSON)
    """True for a hook of ours, and for a group of nothing else."""
    if not isinstance(entry, dict):
        return False
    if isinstance(entry.get("hooks"), list):
        return bool(entry["hooks"]) and all(_is_ours(each) for each in entry["hooks"])
    called = f"{entry.get('command', '')} {entry.get('url', '')}"
    return "leasehold" in called and (" hook " in called or "/v1/hooks/" in called)


def _edit(path: Path, change: Callable[[str], str], *, is_taking: bool = False) -> Edit:
    def edit(content: bytes | None) -> bytes | None:
        try:
            text = (content or b"{}\n").decode()
            changed = change(splice.checked(text))
        except (ValueError, TypeError) as error:
            raise InvalidInput("target", f"{path} is left alone, since it is not what it should be: {error}") from None
        if is_taking and changed == text:
            return content  # there was no part of ours
        is_empty = is_taking and not set(splice.parse(changed).value) - {"version"}
        return None if is_empty else changed.encode()

    return edit
