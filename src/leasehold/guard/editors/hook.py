"""Handle one call of an editor's hook. The secret of the agent's session is in a private file."""

# Pathlib costs a one-shot process more than all of this, and so does contextlib
# ruff: noqa: SIM105, PTH103, PTH108, PTH110, PTH120, PTH123

from __future__ import annotations

import os
from stat import S_ISREG

from leasehold.config import paths as places
from leasehold.config.identity import short
from leasehold.errors import StoreUnsuitable
from leasehold.guard.checking import OFF, ROOT, Below, hook_session, name_of
from leasehold.guard.editors import decision as deciding
from leasehold.guard.editors.adapters import AFTER, BEFORE, END
from leasehold.guard.editors.decision import Decision, HookTerms, KnownLease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasehold.guard.checking import Resource
    from leasehold.guard.editors.decision import Deciding
    from leasehold.guard.editors.payloads import HookCall


def holder_of(occasion: HookCall, given: str | None = None) -> str:
    """Return a readable name for this agent, `claude-0f3c91d2-5be07a16`; for a subagent with a dot and its id added."""
    name = given or f"{occasion.editor}-{short(occasion.session) or 'somebody'}"
    return f"{name}.{short(occasion.agent)}" if occasion.agent else name


def session_id(occasion: HookCall) -> str:
    """Return the id of this agent's session, the same for every hook of its run."""
    return hook_session(occasion.editor, occasion.session, occasion.agent)


def steps(occasion: HookCall, terms: HookTerms, root: str) -> Deciding | None:
    """Return the conversation for this call; None if there is nothing to check."""
    if terms.policy == OFF or not occasion.session:
        return None
    if occasion.moment == BEFORE:
        return _before(occasion, terms, root)
    if occasion.moment == AFTER:
        return deciding.after_tool(terms if occasion.is_heard else terms._replace(known=()))
    return deciding.at_end(terms) if occasion.moment == END else None


def _before(occasion: HookCall, terms: HookTerms, root: str) -> Deciding | None:
    """Decide about a tool call before it runs: the MCP lock tool, a shell command, or an edit."""
    if occasion.lock_tool:
        return _named(terms)
    if occasion.command:
        from leasehold.guard.editors.shell import MOST, written  # noqa: PLC0415 (only for a shell command)
        from leasehold.guard.editors.shell_words import TooMuch  # noqa: PLC0415 (only for a shell command)

        try:
            found = written(occasion.command)
        except TooMuch:
            note = "The command is too long to parse, so all paths were checked: "
            return deciding.before_command((ROOT,), terms, note)
        if len(found) > MOST:
            return deciding.before_command((ROOT,), terms, f"It writes more than {MOST} files, so all were checked: ")
        paths = resources(found, occasion.cwd, root)
        return deciding.before_command(paths, terms) if paths else None
    paths = resources(occasion.paths, occasion.cwd, root)
    return deciding.before_edit(paths, terms) if paths else None


def _named(terms: HookTerms) -> Deciding:
    """Add the agent's name to a call of a Leasehold tool."""
    return Decision(agent_id=terms.holder)
    yield  # a generator that asks nothing


def resources(paths: tuple[str, ...], cwd: str, root: str) -> tuple[Resource, ...]:
    """Return the `path:` names of these files, without those outside of the root and git's own."""
    below = Below(root, cwd)
    found = map(below.find, paths)
    return tuple(dict.fromkeys(name_of(path) for path in found if path and not path.startswith(".git/")))


# --------------------------------------------------------------------------------- the session of an agent


def credential(occasion: HookCall, env: Mapping[str, str], scope: str) -> str:
    """Return `ID.SECRET` of the agent's session, created with the agent's first edit."""
    path = _file(occasion, env, scope)
    try:
        secret = _kept(path)[0]
    except FileNotFoundError:
        secret = _draw(path)
        _mark_call(occasion.editor, env)
    return f"{session_id(occasion)}.{secret}"


def known(occasion: HookCall, env: Mapping[str, str], scope: str) -> tuple[KnownLease, ...]:
    """Return the leases that hooks of this agent took and whose loss it has not learned yet."""
    try:
        lines = _kept(_file(occasion, env, scope))[1:]
    except FileNotFoundError:
        return ()
    found: dict[str, str] = {}
    for line in lines:
        lease, _, name = line.partition(" ")
        if name:
            found[lease] = name
        else:
            found.pop(lease, None)
    return tuple(KnownLease(lease, name) for lease, name in found.items())


def remember(occasion: HookCall, env: Mapping[str, str], scope: str, decision: Decision) -> None:
    """Append what this hook took, and which losses it reported, for the next hooks; several may do so at once."""
    lines = [*(f"{each.lease} {each.name}" for each in decision.taken), *decision.lost]
    if not lines:
        return
    try:
        descriptor = os.open(_file(occasion, env, scope), os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # the agent has ended meanwhile
    try:
        os.write(descriptor, "".join(f"\n{line}" for line in lines).encode("utf-8", "surrogateescape"))
    finally:
        os.close(descriptor)


def _draw(path: str) -> str:
    """Create a secret. If another hook was quicker, use its secret."""
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    secret = os.urandom(16).hex()
    draft = f"{path}.{os.getpid()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(secret)
    try:
        os.link(draft, path)
    except FileExistsError:
        secret = _kept(path)[0]
    finally:
        os.unlink(draft)
    return secret


def called_mark(editor: str, env: Mapping[str, str]) -> str:
    """Return the file that is as old as the last session in which this agent began to call its hooks."""
    return places.state_home(env, "hooks", f"called-{editor}")


def _mark_call(editor: str, env: Mapping[str, str]) -> None:
    path = called_mark(editor, env)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        os.close(os.open(path, flags, 0o600))
    except OSError as error:  # such as a link, a FIFO or a directory in its place
        raise StoreUnsuitable(f"{path} cannot be written ({error.strerror}): remove it") from error


def _kept(path: str) -> list[str]:
    """Return the lines of this file, the secret first. Another user may have put it, or a FIFO, there."""
    status = os.lstat(path)
    if not S_ISREG(status.st_mode) or places.exposure(status):
        raise StoreUnsuitable(f"{path} is no private file of this user: remove it")
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read().decode("utf-8", "surrogateescape").strip().split("\n")


def forget(occasion: HookCall, env: Mapping[str, str], scope: str) -> None:
    """Remove the secret of an agent that has ended."""
    for path in (_file(occasion, env, scope), _unheard(occasion, env)):
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass  # it never edited anything


def keep_unheard(occasion: HookCall, env: Mapping[str, str], message: str) -> None:
    """Keep a message for an agent that does not read the output of a hook after a tool, until its next hook."""
    path = _unheard(occasion, env)
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(f"{message}\n")


def take_unheard(occasion: HookCall, env: Mapping[str, str]) -> str:
    """Return the messages that were kept for this agent, and remove them."""
    path = _unheard(occasion, env)
    try:
        lines = _kept(path)
    except FileNotFoundError:
        return ""
    os.unlink(path)
    return "\n".join(lines)


def _unheard(occasion: HookCall, env: Mapping[str, str]) -> str:
    return places.state_home(env, "hooks", places.digest(session_id(occasion), "unheard"))


def is_known(occasion: HookCall, env: Mapping[str, str], scope: str) -> bool:
    """True if this agent has acquired anything through its hooks."""
    return os.path.exists(_file(occasion, env, scope))


def _file(occasion: HookCall, env: Mapping[str, str], scope: str) -> str:
    return places.state_home(env, "hooks", places.digest(session_id(occasion), scope))
