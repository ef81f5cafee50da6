"""Prove that the installed hooks fire: run each as its agent would, with a probe edit of two sessions on its own store.

The second session must be refused what the first holds, and must read that a command changed it. The real store is not
touched, nor is the project. A hook in a checkout may be of
anybody: only our own program is run, without a shell, and with the options that `install` gives.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold.config import paths as places
from leasehold.guard.editors.adapters import ADAPTERS, AFTER, BEFORE, WINDSURF
from leasehold.guard.editors.hook import called_mark
from leasehold.guard.install.targets import GROUPED, PLUGIN, TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Probed(NamedTuple):
    """The result of probing one installed hook; `ok` is None if it runs and refuses nothing."""

    agent: str
    ok: bool | None
    text: str


PROBE = "leasehold-doctor-probe"
"""The file that the probe edits, which does not exist."""
LOCAL = "settings.local.json"
"""Where `install --http` puts the hooks of Claude Code."""
PATIENCE = 30
"""Seconds; agents wait as long for a hook."""


def probed(env: Mapping[str, str]) -> Iterator[Probed]:
    """Return what a probe found for each agent whose hooks are installed, in this project or for this user."""
    here = os.path.realpath(Path.cwd())
    copy = places.working_copy(here, env)
    root = Path(copy.root if copy is not None else here)
    for agent, target in TARGETS.items():
        for path in (root / target.hooks.project, Path(places.home(env)) / target.hooks.user):
            for words in _commands(path, is_plugin=target.shape == PLUGIN):
                if lacking := _lacking(agent, path):
                    told = f"{path}: has no hook of ours for {', '.join(lacking)}, so some changes go unseen"
                    yield Probed(agent, False, f"{told}: leasehold install {agent}")
                elif _is_ours(words, agent):
                    yield _probe(agent, path, words, root, env)
                else:
                    told = f"{path}: is not as it was installed, so it was not run: {words[0]}"
                    yield Probed(agent, False, told)
        if target.shape == GROUPED and "/v1/hooks/" in _text((root / target.hooks.project).with_name(LOCAL)):
            told = "asks a server, which sees what an edit names, not what a command changes; it was not probed"
            yield Probed(agent, None, told)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _is_ours(words: list[str], agent: str) -> bool:
    """Return True if this is a hook as `install` writes it."""
    program, rest = words[: words.index("hook")], words[words.index("hook") :]
    options = rest[2:]
    is_known = rest[:2] == ["hook", agent] and set(options[::2]) <= {"--policy", "--on-failure"}
    beside = [str(Path(sys.executable).with_name("leasehold"))]
    return is_known and program in (["leasehold"], beside, [sys.executable, "-m", "leasehold.cli"])


def _commands(path: Path, *, is_plugin: bool) -> list[list[str]]:
    """Return the words of the different commands of our hooks in this file."""
    text = _text(path)
    plugin = re.search(r"^const HOOK = (\[.*\])$", text, re.MULTILINE) if is_plugin else None
    try:
        document = json.loads(plugin.group(1) if plugin else text)
    except ValueError:
        return []
    if is_plugin:
        return [[*map(str, document)]] if isinstance(document, list) and "hook" in document else []
    found = dict.fromkeys(each for each in _texts(document) if "leasehold" in each and " hook " in each)
    return [_words(each) for each in found]


def _words(command: str) -> list[str]:
    """Return the words of a command, the word `hook` among them."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = [command]
    return words if "hook" in words else [*words, "hook"]


def _texts(document: Any) -> Iterator[str]:  # noqa: ANN401 (any JSON)
    if isinstance(document, dict):
        for key, each in document.items():
            if key == "command" and isinstance(each, str):
                yield each
            else:
                yield from _texts(each)
    elif isinstance(document, list):
        for each in document:
            yield from _texts(each)


def _lacking(agent: str, path: Path) -> list[str]:
    """Return the events that `install` has a hook for, and this file has none, or one for fewer tools."""
    if not TARGETS[agent].events:
        return []
    try:
        hooks = json.loads(path.read_text(encoding="utf-8"))["hooks"]
        found = {event: [*_matchers(entries)] for event, entries in hooks.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return [event for event, _ in TARGETS[agent].events]
    return [event for event, matcher in TARGETS[agent].events if not {matcher, "", "*", ".*"} & {*found.get(event, ())}]


def _matchers(entries: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the patterns of tools for which our hook is called."""
    for entry in entries:
        if any("leasehold" in each and " hook " in each for each in _texts(entry)):
            yield entry.get("matcher") or ""


def payload(agent: str, session: str, root: Path) -> dict[str, Any]:
    """Return what this agent sends before it edits the probe."""
    row = ADAPTERS[agent]
    event = next(name for name, moment in row.moments.items() if moment == BEFORE)
    path = row.paths[0]
    told = {row.event[0]: event, row.session[0]: session, row.tool[0]: row.writing[0] if row.writing else "Write"}
    told |= {row.cwd[0]: str(root), path: str(root / PROBE)}
    return _nested(told)


def _of_command(agent: str, moment: str, root: Path) -> dict[str, Any]:
    """Return what this agent sends before or after a command whose words do not show what it writes."""
    row = ADAPTERS[agent]
    events = [name for name, each in row.moments.items() if each == moment]
    event = next((name for name in events if name.endswith(row.shells[0])), events[0])
    told = {row.event[0]: event, row.session[0]: "doctor-second", row.tool[0]: row.shells[0]}
    return _nested({**told, row.cwd[0]: str(root), row.command[0]: "./probe", **dict.fromkeys(row.call[:1], "probe")})


def _nested(fields: dict[str, str]) -> dict[str, Any]:
    """Return the fields, which are named by their paths, as the agent sends them."""
    told: dict[str, Any] = {}
    for field, value in fields.items():
        inner = told
        *outer, last = field.removesuffix("[]").split(".")
        for name in outer:
            inner = inner.setdefault(name, {})
        inner[last] = [value] if field.endswith("[]") else value
    return told


class _Caller(NamedTuple):
    """An installed hook, and where it is called."""

    words: list[str]
    root: Path
    env: dict[str, str]

    def call(self, told: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 (our own program: see `_is_ours`)
            self.words,
            input=json.dumps(told),
            capture_output=True,
            text=True,
            env=self.env,
            cwd=self.root,
            timeout=PATIENCE,
            check=False,
        )


def _probe(agent: str, path: Path, words: list[str], root: Path, env: Mapping[str, str]) -> Probed:
    """Run the hook for an edit by two sessions on a store of its own: it fires if only the second is refused."""
    title = ADAPTERS[agent].title
    with tempfile.TemporaryDirectory() as folder:
        own = {**env, "LEASEHOLD_URL": f"sqlite:///{folder}/locks.db", "XDG_STATE_HOME": folder}
        own = {name: value for name, value in own.items() if name not in ("LEASEHOLD_SESSION", "LEASEHOLD_HOLDER")}
        caller = _Caller(words, root, own)
        try:
            first, second = (caller.call(payload(agent, who, root)) for who in ("doctor-first", "doctor-second"))
            sees_effects = _sees_effects(agent, caller._replace(root=Path(folder) / "tree"))
        except (OSError, subprocess.TimeoutExpired) as error:
            return Probed(agent, False, f"{path}: its command fails: {error}")
    is_refused = PROBE in second.stdout + second.stderr and (second.returncode == 2) == (
        ADAPTERS[agent].answer == WINDSURF
    )
    if first.returncode == 0 and not first.stdout and is_refused:
        if not sees_effects:
            return Probed(agent, False, f"{path}: refuses an edit, and does not notice what a command changes")
        told = (
            f"fires: {title} refuses the edit of a file that another session holds, and learns if a command changed it"
        )
        return Probed(agent, True, f"{told} ({path}; {_last_call(agent, env)})")
    if (first.returncode, second.returncode, second.stdout) == (0, 0, ""):
        return Probed(agent, None, f"runs, and refuses nothing: is its policy off? ({path})")
    why = (second.stderr or second.stdout).strip().partition("\n")[0]
    return Probed(agent, False, f"{path}: it does not answer a probe edit as it should: {why}")


def _sees_effects(agent: str, caller: _Caller) -> bool:
    """Return True if the hooks report a command that changed a held file, in a folder of the probe's own."""
    caller.root.mkdir()
    caller.call(payload(agent, "doctor-first", caller.root))
    caller.call(_of_command(agent, BEFORE, caller.root))
    (caller.root / PROBE).write_text("changed by a command\n")
    after = caller.call(_of_command(agent, AFTER, caller.root))
    if ADAPTERS[agent].answer == WINDSURF:  # it reads only refusals
        after = caller.call(_of_command(agent, BEFORE, caller.root))
    return PROBE in after.stdout + after.stderr


def _last_call(agent: str, env: Mapping[str, str]) -> str:
    """Return when the agent itself last began to call its hooks: one that was never trusted has not."""
    title = ADAPTERS[agent].title
    try:
        seconds = Path(called_mark(agent, env)).stat().st_mtime
    except FileNotFoundError:
        trust = ": trust it in /hooks" if agent == "codex" else ""
        return f"no session of {title} has called it on this machine yet{trust}"
    began = dt.datetime.fromtimestamp(seconds).astimezone()
    return f"a session of {title} last began to call it at {began:%Y-%m-%d %H:%M}"
