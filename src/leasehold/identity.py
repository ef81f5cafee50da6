"""Who asks, where nobody said: a readable name made of the user, the host and the place. It opens nothing.

On the way of a one-shot `leasehold acquire`. Agents that share a working copy would share this name, and so their
leases: give each of them a `LEASEHOLD_HOLDER` of its own.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH119, PTH120

from __future__ import annotations

import os

from leasehold import checks, config, places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasehold.config import Choice

SESSION = "LEASEHOLD_SESSION"
_PART = 72
"""Longest part of a name, in bytes: three of them, with what joins them, make a holder of at most 256."""


def holder(choice: Choice | None = None, *, env: Mapping[str, str] | None = None, cwd: str | None = None) -> str:
    """Who a command is: as configured, or one and the same for a user on a host in a working copy.

    Such as `ada@laptop:app-3f2a91c0`: the digits tell apart working copies of the same name.
    """
    env = os.environ if env is None else env
    choice = config.find(cwd=cwd, env=env) if choice is None else choice
    if choice.holder is not None:
        return choice.holder
    root = _root(config.working_directory(cwd), choice.path, env)
    return f"{_at_host(env)}:{_clean(os.path.basename(root), 'root')}-{places.digest(root)[:8]}"


def of_process(env: Mapping[str, str] | None = None) -> str:
    """Who a program is that did not say so: this process, and no other."""
    return f"{_at_host(os.environ if env is None else env)}:{os.getpid()}"


def session(env: Mapping[str, str] | None = None) -> str | None:
    """`ID.SECRET` of the session that a command is part of, if any."""
    value = (os.environ if env is None else env).get(SESSION)
    if not value:
        return None
    checks.credential(value)
    return value


def _root(here: str, project: str | None, env: Mapping[str, str]) -> str:
    """The top of the working copy; without one the directory of the project's configuration, or where we are."""
    copy = places.working_copy(here, env)
    if copy is not None:
        return os.path.realpath(copy.root)
    return here if project is None else os.path.dirname(project)


def _at_host(env: Mapping[str, str]) -> str:
    return f"{_clean(_user(env), 'somebody')}@{_clean(os.uname().nodename, 'localhost')}"


def _user(env: Mapping[str, str]) -> str:
    known = env.get("USER") or env.get("LOGNAME")
    if known:
        return known
    import pwd  # noqa: PLC0415 (rare)

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid{os.geteuid()}"


def _clean(text: str, otherwise: str) -> str:
    """The text as a part of a holder's name: nothing invisible, no blanks, not too long."""
    seen = "".join(one if one.isprintable() and not one.isspace() else "_" for one in text)
    return seen.encode()[:_PART].decode("utf-8", "ignore") or otherwise
