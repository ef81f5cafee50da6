"""Who asks, on the command line: three layers, the first that knows a name decides it.

1. `--holder`, `LEASEHOLD_HOLDER` or a configuration file; a session by `LEASEHOLD_SESSION` proves itself.
2. An agent or CI job that the environment names by an id that is unique to one run (``agents``), if its process is
   among the ancestors, where these can be read.
3. The process that the command comes from (``descent``).

A name says who asks; it opens nothing by itself (see `Asker.may_use`). On the way of a one-shot `leasehold acquire`.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH119, PTH120

from __future__ import annotations

import os

from leasehold.config import paths as places
from leasehold.config import settings as config
from leasehold.config import urls
from leasehold.requests import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasehold.config.identity.agents import System
    from leasehold.config.identity.descent import Line
    from leasehold.config.settings import Choice

SESSION = "LEASEHOLD_SESSION"
RUN = "LEASEHOLD_RUN"
"""Set by `leasehold run` for its command: the id of the session that it made, and which locks the session is for."""
GIVEN, NAMED, DESCENDED = 1, 2, 3
"""The layers."""
_PART = 72
"""Longest part of a name, in bytes: three of them, with what joins them, make a holder of at most 256."""


class Asker:
    """The agent, job or person behind this command."""

    __slots__ = ("_env", "_given", "_line", "_named")

    def __init__(self, given: str | None, env: Mapping[str, str] | None = None, line: Line | None = None) -> None:
        self._given = given
        self._env = os.environ if env is None else env
        self._line = line
        self._named: tuple[System, str] | str | None = ""

    @property
    def line(self) -> Line:
        """The processes that this command comes from; read once, when it matters."""
        if self._line is None:
            from leasehold.config.identity.descent import of_this_command  # noqa: PLC0415 (a named command may do without)

            self._line = of_this_command()
        return self._line

    @property
    def layer(self) -> int:
        """Which layer names this command."""
        if self._given is not None:
            return GIVEN
        return NAMED if self._system() is not None else DESCENDED

    @property
    def holder(self) -> str:
        """The holder's name."""
        if self._given is not None:
            return self._given
        found = self._system()
        if found is None:
            return _by_process(self.line, self._env)
        from leasehold.config.identity.agents import name_of  # noqa: PLC0415 (as above)

        return name_of(*found, self._env)

    @property
    def is_agent(self) -> bool:
        """True if a recognised agent or CI job runs this command, whatever it calls itself.

        Its process tells, also where its variables were cleared (sudo, `env -i`). Otherwise its variables do, unless
        they were left behind in a terminal multiplexer.
        """
        from leasehold.config.identity.agents import MULTIPLEXERS, SYSTEMS  # noqa: PLC0415 (only for people's verbs)

        is_told = any(self._env.get(variable) for system in SYSTEMS for variable in _telling(system))
        return self.line.agent is not None or (is_told and self.line.end not in MULTIPLEXERS)

    def may_use(self, holder: str, layer: int, saved: str) -> bool:
        """Whether this command may use a token that was taken under this name, by a command with this chain.

        Descent decides; a name counts only where no other owner lives, and a name that was given is never left.
        """
        if self._given is not None and holder != self._given:
            return False
        from leasehold.config.identity import descent  # noqa: PLC0415 (as above)

        judged = self.line.judge(saved)
        if judged in (descent.MINE, descent.OTHERS):
            return judged == descent.MINE
        return DESCENDED not in (layer, self.layer) and holder == self.holder

    def saved(self) -> str:
        """The processes that this command comes from, to keep with a token."""
        return self.line.saved()

    def explain(self) -> str:
        """By which layer this command has its name, for people."""
        if self._given is not None:
            return "as it was given"
        found = self._system()
        if found is not None:
            return f"as the environment names it ({found[0].label}), by an id of this run"
        owner = self.line.owner
        if owner is None:
            return "by its process: the processes that this command comes from cannot be read"
        return f"by descent from {owner.name} {owner.pid}"

    def _system(self) -> tuple[System, str] | None:
        if isinstance(self._named, str):
            self._named = _named(self._env, self.line) if self._given is None else None
        return self._named


class ByName:
    """Who asks by the spelling of another system, whose actors are their names: descent does not apply to them."""

    layer = GIVEN

    def __init__(self, holder: str) -> None:
        self.holder = holder

    def saved(self) -> str:
        """Processes do not matter."""
        return ""

    def may_use(self, holder: str, layer: int, saved: str) -> bool:  # noqa: ARG002 (as an `Asker` has it)
        """Whether the names are the same."""
        return holder == self.holder


def find(choice: Choice, given: str | None = None, *, env: Mapping[str, str] | None = None) -> Asker:
    """Who a command is, by its options, the environment, the configuration and its processes."""
    return Asker(choice.holder if given is None else checks.text(given, "holder", 256), env)


def _named(env: Mapping[str, str], line: Line) -> tuple[System, str] | None:
    """The agent or job that the environment names, and the id of its run."""
    from leasehold.config.identity.agents import SYSTEMS, unique_id  # noqa: PLC0415 (as above)

    known = [(system, id_) for system in SYSTEMS if (id_ := unique_id(system, env)) is not None]
    if line.is_cut and known:
        # The nearest agent is hidden from us. All ids together are those of the innermost run, and of no other.
        return known[0][0], "\0".join(id_ for _, id_ in known)
    return next((each for each in known if line.end in each[0].processes | each[0].listeners), None)


def _telling(system: System) -> tuple[str, ...]:
    return (*system.marks, *(variable for group in system.ids for variable in group if len(group) == 1))


def _by_process(line: Line, env: Mapping[str, str]) -> str:
    """Such as `ada@laptop, zsh 4121 on pts/3`."""
    owner = line.owner
    if owner is None:
        return f"{_at_host(env)}, process {os.getppid()}"
    terminal = f" on {owner.terminal}" if owner.terminal else ""
    return f"{_at_host(env)}, {_clean(owner.name, 'process')} {owner.pid}{terminal}"


def of_copy(choice: Choice, *, env: Mapping[str, str] | None = None, cwd: str | None = None) -> str:
    """Who asks by the spellings of other systems: as configured, or one name for a user on a host in a working copy.

    Such as `ada@laptop:app-3f2a91c0`: the digits tell apart working copies of the same name.
    """
    env = os.environ if env is None else env
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


def marked(credential: str, url: str, space: str) -> dict[str, str]:
    """The variables that a `leasehold run` sets for its command, about the session that it made."""
    return {SESSION: credential, RUN: f"{checks.session_id(credential)} {_scope(url, space)}"}


def is_of_run(env: Mapping[str, str]) -> bool:
    """True if the session in this environment was made by a `leasehold run`, and nobody chose it."""
    begin = f"{(env.get(SESSION) or '.').partition('.')[0]} "
    return len(begin) > 1 and env.get(RUN, "").startswith(begin)


def is_of_locks(env: Mapping[str, str], url: str, space: str) -> bool:
    """True if the session of a `leasehold run` is one of these locks. It is unknown to others."""
    return env[RUN].partition(" ")[2] == _scope(url, space)


def _scope(url: str, space: str) -> str:
    return places.digest(urls.one_spelling(url), space)


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
    return seen.encode("utf-8", "ignore")[:_PART].decode("utf-8", "ignore") or otherwise
