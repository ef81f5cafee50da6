"""Prove that the installed hooks fire: run each as its agent would, with a probe edit of two sessions on its own store.

The second session must be refused what the first holds. The real store is not touched. A hook in a checkout may be of
anybody: only our own program is run, without a shell, and with the options that `install` gives.
"""

from __future__ import annotations

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
from leasehold.guard.editors.adapters import ADAPTERS, BEFORE, WINDSURF
from leasehold.guard.install.targets import PLUGIN, TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Probed(NamedTuple):
    """The result of probing one installed hook; `ok` is None if it runs and refuses nothing."""

    agent: str
    ok: bool | None
    text: str


PROBE = "leasehold-doctor-probe"
"""The file that the probe edits, which does not exist."""
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
                if _is_ours(words, agent):
                    yield _probe(agent, path, words, root, env)
                else:
                    told = f"{path}: is not as it was installed, so it was not run: {words[0]}"
                    yield Probed(agent, False, told)


def _is_ours(words: list[str], agent: str) -> bool:
    """Return True if this is a hook as `install` writes it."""
    program, rest = words[: words.index("hook")], words[words.index("hook") :]
    options = rest[2:]
    is_known = rest[:2] == ["hook", agent] and set(options[::2]) <= {"--policy", "--on-failure"}
    beside = [str(Path(sys.executable).with_name("leasehold"))]
    return is_known and program in (["leasehold"], beside, [sys.executable, "-m", "leasehold.cli"])


def _commands(path: Path, *, is_plugin: bool) -> list[list[str]]:
    """Return the words of the different commands of our hooks in this file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
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


def payload(agent: str, session: str, root: Path) -> dict[str, Any]:
    """Return what this agent sends before it edits the probe."""
    row = ADAPTERS[agent]
    event = next(name for name, moment in row.moments.items() if moment == BEFORE)
    file = str(root / PROBE)
    told: dict[str, Any] = {}
    texts = {row.event[0]: event, row.session[0]: session, row.tool[0]: row.writing[0] if row.writing else "Write"}
    path = row.paths[0]
    for field, value in {**texts, row.cwd[0]: str(root), path.removesuffix("[]"): file}.items():
        inner = told
        *outer, last = field.split(".")
        for name in outer:
            inner = inner.setdefault(name, {})
        inner[last] = [value] if path == f"{field}[]" else value
    return told


def _probe(agent: str, path: Path, words: list[str], root: Path, env: Mapping[str, str]) -> Probed:
    """Run the hook for an edit by two sessions on a store of its own: it fires if only the second is refused."""
    title = ADAPTERS[agent].title
    with tempfile.TemporaryDirectory() as folder:
        own = {**env, "LEASEHOLD_URL": f"sqlite:///{folder}/locks.db", "XDG_STATE_HOME": folder}
        own = {name: value for name, value in own.items() if name not in ("LEASEHOLD_SESSION", "LEASEHOLD_HOLDER")}
        answers = []
        for session in ("doctor-first", "doctor-second"):
            text = json.dumps(payload(agent, session, root))
            try:
                done = subprocess.run(  # noqa: S603 (our own program: see `_is_ours`)
                    words, input=text, capture_output=True, text=True, env=own, cwd=root, timeout=PATIENCE, check=False
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                return Probed(agent, False, f"{path}: its command fails: {error}")
            answers.append(done)
    first, second = answers
    is_refused = PROBE in second.stdout + second.stderr and (second.returncode == 2) == (
        ADAPTERS[agent].answer == WINDSURF
    )
    if first.returncode == 0 and not first.stdout and is_refused:
        return Probed(agent, True, f"fires: {title} refuses the edit of a file that another session holds ({path})")
    if (first.returncode, second.returncode, second.stdout) == (0, 0, ""):
        return Probed(agent, None, f"runs, and refuses nothing: is its policy off? ({path})")
    why = (second.stderr or second.stdout).strip().partition("\n")[0]
    return Probed(agent, False, f"{path}: it does not answer a probe edit as it should: {why}")
