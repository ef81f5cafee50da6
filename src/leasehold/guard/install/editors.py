"""Put our MCP server and hooks into each agent's own files, as ``targets`` describes them."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from leasehold.errors import InvalidInput
from leasehold.guard.editors.adapters import ADAPTERS
from leasehold.guard.install import splice
from leasehold.guard.install.changes import put_block, take_block
from leasehold.guard.install.targets import (
    OPENCODE_PLUGIN,
    PLUGIN,
    TARGETS,
    TOML,
    hook_entry,
    hooks_of,
    server_entry,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    from leasehold.guard.install.changes import Edit, FileChange, Ledger
    from leasehold.guard.install.targets import Target

    Files: TypeAlias = dict[Path, list[tuple[Edit, Edit]]]

TOML_BEGIN, TOML_END = "# leasehold: begin", "# leasehold: end"


class InstallOptions(NamedTuple):
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
    found = _removed(editor, wish, place) if remove else _files(editor, wish, place)
    made = []
    for path, edits in found.items():
        add, take = _all([add for add, _ in edits]), _all([take for _, take in edits])
        made.append(ledger.uninstall(path, take) if remove else ledger.install(path, add, take))
    return made


def _all(edits: list[Edit]) -> Edit:
    """Return one edit that makes all of these: an agent may keep its hooks and its servers in one file."""

    def edit(content: bytes | None) -> bytes | None:
        for each in edits:
            content = each(content)
        return content

    return edit


def _files(editor: str, wish: InstallOptions, place: Path) -> Files:
    """Return, by file, how our parts are added and removed."""
    target = TARGETS[editor]
    found: Files = {}
    for path, edits in (_server(editor, target, wish, place), _hooks(editor, target, wish, place)):
        if path is not None:
            found.setdefault(path, []).append(edits)
    return found


def _removed(editor: str, wish: InstallOptions, place: Path) -> Files:
    """Return the files that an installation may have changed, whatever its options were."""
    found = _files(editor, wish._replace(http=None), place)
    return found | _files(editor, wish._replace(http="http://"), place) if editor == "claude" else found


def _server(editor: str, target: Target, wish: InstallOptions, place: Path) -> tuple[Path | None, tuple[Edit, Edit]]:
    name = target.servers.of(user=wish.user)
    path = place / name if name else None
    entry = server_entry(editor, wish.command, user=wish.user)
    if target.servers_format == TOML:
        body = "\n".join(["[mcp_servers.leasehold]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())])
        return path, (
            lambda text: put_block(text, TOML_BEGIN, body, TOML_END),
            lambda text: None if text is None else take_block(text, TOML_BEGIN, TOML_END),
        )
    key = "mcpServers" if editor == "copilot" and wish.user else target.servers_key
    where = path or place
    add = _edit(where, lambda text: splice.add(text, (key,), entry, "leasehold"))
    return path, (add, _taking_server(where, key))


def _hooks(editor: str, target: Target, wish: InstallOptions, place: Path) -> tuple[Path, tuple[Edit, Edit]]:
    path = place / target.hooks.of(user=wish.user)
    closed = [] if wish.on_failure == "open" else ["--on-failure", wish.on_failure]
    words = [*wish.command, "hook", editor, "--policy", wish.policy, *closed]
    if target.shape == PLUGIN:
        hook = {"hook": json.dumps(words), "reading": json.dumps(ADAPTERS[editor].reading)}
        return path, (lambda _: (OPENCODE_PLUGIN % hook).encode(), lambda _: None)
    first = hook_entry(target, shlex.join(words))
    entry = first if wish.http is None else _http_hook(wish.http, wish)
    if wish.http is not None:
        path = path.with_name("settings.local.json")  # it names the folder of the project on this machine
    return path, (_adding_hooks(path, hooks_of(target, entry, first), target.version), _taking_hooks(path))


def _http_hook(url: str, wish: InstallOptions) -> dict[str, object]:
    asked = urlencode({"policy": wish.policy, "root": wish.root})
    return {
        "type": "http",
        "url": f"{url.rstrip('/')}/v1/hooks/claude?{asked}",
        "timeout": 30,
        "headers": {"Authorization": "Bearer $LEASEHOLD_API_KEY"},
        "allowedEnvVars": ["LEASEHOLD_API_KEY"],
    }


EDITORS = tuple(TARGETS)


# ------------------------------------------------------------------------------------- JSON files of editors


def _taking_server(path: Path, key: str) -> Edit:
    def take(text: str) -> str:
        servers = splice.parse(text).value.get(key, {})
        return splice.drop(text, (key, "leasehold")) if "leasehold" in servers else text

    return _edit(path, take, is_taking=True)


def _adding_hooks(path: Path, hooks: dict[str, list[object]], version: int | None = None) -> Edit:
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
