"""Answer one call of a hook: read, decide, ask, answer. The agent's session is kept in a private file."""

# Pathlib costs a one-shot process more than all of this, and so does contextlib
# ruff: noqa: SIM105, PTH103, PTH108, PTH110, PTH118, PTH119, PTH120, PTH123

from __future__ import annotations

import os

from leasehold import names, places
from leasehold.guard.editors import deciding
from leasehold.guard.editors.deciding import YES, Decision, Terms
from leasehold.guard.editors.occasions import AFTER, BEFORE, END

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasehold.guard.editors.deciding import Deciding
    from leasehold.guard.editors.occasions import Occasion

_SHORT = 12


def holder_of(occasion: Occasion, given: str | None = None) -> str:
    """A readable name for this agent: `claude-0f3c…`, and for its subagents `claude-0f3c….7b…`."""
    name = given or f"{occasion.editor}-{_short(occasion.session) or 'somebody'}"
    return f"{name}.{_short(occasion.agent)}" if occasion.agent else name


def _short(id_: str) -> str:
    plain = "".join(one for one in id_ if one.isalnum() or one in "-_")
    return plain[:_SHORT]


def session_id(occasion: Occasion) -> str:
    """The id of this agent's session: the same for every hook of its run."""
    return f"h{places.digest(occasion.editor, occasion.session, occasion.agent)}"


def steps(occasion: Occasion, terms: Terms, root: str) -> Deciding | None:
    """What has to be asked; None if this occasion is no concern of ours."""
    if terms.policy == deciding.OFF or not occasion.session:
        return None
    if occasion.moment == BEFORE:
        return _before(occasion, terms, root)
    if occasion.moment == AFTER:
        return deciding.after_tool(terms)
    return deciding.at_end(terms) if occasion.moment == END else None


def _before(occasion: Occasion, terms: Terms, root: str) -> Deciding | None:
    if occasion.lock_tool:
        return _named(terms)
    if occasion.command:
        from leasehold.guard.editors.shell import written  # noqa: PLC0415 (only before a command)

        paths = resources(written(occasion.command), occasion.cwd, root)
        return deciding.before_command(paths, terms) if paths else None
    paths = resources(occasion.paths, occasion.cwd, root)
    return deciding.before_edit(paths, terms) if paths else None


def _named(terms: Terms) -> Deciding:
    """Our own tools know who calls them."""
    return Decision(agent_id=terms.holder)
    yield  # a generator that asks nothing


def resources(paths: tuple[str, ...], cwd: str, root: str) -> tuple[str, ...]:
    """The `path:` names of these files; what is outside of the root is nobody's concern."""
    top = os.path.realpath(root)
    found = []
    for path in paths:
        whole = os.path.join(os.path.realpath(os.path.dirname(os.path.join(cwd, path))), os.path.basename(path))
        if whole.startswith(top.rstrip("/") + "/") and not _is_of_git(whole, top):
            found.append(names.parse(f"path:{whole[len(top.rstrip('/')) + 1 :]}"))
    return tuple(dict.fromkeys(found))


def _is_of_git(path: str, top: str) -> bool:
    return path.startswith(os.path.join(top, ".git") + "/")


# --------------------------------------------------------------------------------- the session of an agent


def credential(occasion: Occasion, env: Mapping[str, str], scope: str) -> str:
    """`ID.SECRET`, drawn with the first edit of this agent and kept for the next ones."""
    path = _file(occasion, env, scope)
    id_ = session_id(occasion)
    try:
        with open(path, encoding="ascii") as file:
            secret = file.read().strip()
    except FileNotFoundError:
        secret = _draw(path)
    return f"{id_}.{secret}"


def _draw(path: str) -> str:
    """A new secret; whoever comes second takes the first one's."""
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    secret = os.urandom(16).hex()
    draft = f"{path}.{os.getpid()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(secret)
    try:
        os.link(draft, path)
    except FileExistsError:
        with open(path, encoding="ascii") as file:
            secret = file.read().strip()
    finally:
        os.unlink(draft)
    return secret


def forget(occasion: Occasion, env: Mapping[str, str], scope: str) -> None:
    """The agent is done: its secret opens nothing any more."""
    try:
        os.unlink(_file(occasion, env, scope))
    except FileNotFoundError:
        pass  # it never edited anything


def is_known(occasion: Occasion, env: Mapping[str, str], scope: str) -> bool:
    """Whether this agent has taken anything through its hooks."""
    return os.path.exists(_file(occasion, env, scope))


def _file(occasion: Occasion, env: Mapping[str, str], scope: str) -> str:
    return os.path.join(places.state_home(env), "hooks", places.digest(session_id(occasion), scope))


__all__ = ["YES", "credential", "forget", "holder_of", "is_known", "resources", "steps"]
