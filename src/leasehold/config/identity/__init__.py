"""The identity of a command: the first of three layers that knows a name decides it.

1. `--holder`, `LEASEHOLD_HOLDER` or a configuration file; a session by `LEASEHOLD_SESSION` proves itself.
2. An agent or CI job that the environment names by an id that is unique to one run (``agents``), if its process is
   among the ancestors, where these can be read.
3. The process that the command comes from (``descent``).

A name alone gives no access to a token (see `CommandIdentity.may_use`). Every one-shot command imports this module.
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
    from leasehold.config.identity.descent import Lineage
    from leasehold.config.settings import Choice

SESSION = "LEASEHOLD_SESSION"
RUN = "LEASEHOLD_RUN"
"""Set by `leasehold run` for its command: the id of its session, and for which locks the session is."""
GIVEN, NAMED, DESCENDED = 1, 2, 3
"""The layers."""
_PART = 72
"""The longest part of a name, in bytes: three parts and their separators make a holder of at most 256."""


class CommandIdentity:
    """The agent, job or person that runs this command."""

    __slots__ = ("_env", "_given", "_lineage", "_named")

    def __init__(self, given: str | None, env: Mapping[str, str] | None = None, line: Lineage | None = None) -> None:
        self._given = given
        self._env = os.environ if env is None else env
        self._lineage = line
        self._named: tuple[System, str] | str | None = ""

    @property
    def lineage(self) -> Lineage:
        """The processes that this command comes from; read at first use."""
        if self._lineage is None:
            from leasehold.config.identity.descent import of_this_command  # noqa: PLC0415 (a named command may do without)

            self._lineage = of_this_command()
        return self._lineage

    @property
    def layer(self) -> int:
        """The layer that names this command."""
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
            return _by_process(self.lineage, self._env)
        return _name_of(*found, self._env)

    @property
    def is_agent(self) -> bool:
        """True if a recognised agent or CI job runs this command, under any name.

        Its process proves it, also if its variables were cleared (sudo, `env -i`). Otherwise its variables do, unless
        they were left behind in a terminal multiplexer.
        """
        from leasehold.config.identity.agents import (  # noqa: PLC0415 (only for people's verbs)
            MARKS_OF_OTHERS,
            MULTIPLEXERS,
            SYSTEMS,
        )

        is_told = any(
            self._env.get(variable)
            for system in SYSTEMS
            for variable in (*system.marks, *(group[0] for group in system.ids if len(group) == 1))
        ) or any(_has(self._env, mark) for mark in MARKS_OF_OTHERS)
        return self.lineage.agent is not None or (is_told and self.lineage.end not in MULTIPLEXERS)

    def may_use(self, holder: str, layer: int, saved: str) -> bool:
        """True if this command may use a token that a command with this name and this chain saved.

        Descent decides; a name counts only if no other owner lives. Two names differ in any case if one was given, or
        if they are ids of two runs that share a process.
        """
        if self._given is not None and holder != self._given:
            return False
        if layer == NAMED and holder != self.holder and self._is_beside(holder):
            return False
        from leasehold.config.identity import descent  # noqa: PLC0415 (a command with a given name does without)

        judged = self.lineage.judge(saved)
        if judged in (descent.MINE, descent.OTHERS):
            return judged == descent.MINE
        return DESCENDED not in (layer, self.layer) and holder == self.holder

    def _is_beside(self, holder: str) -> bool:
        """True if this name is of a run of the same system, whose process serves several runs at a time."""
        found = None if self._given is not None else self._system()
        return found is not None and found[0].shares_process and holder.startswith(f"{found[0].label}-")

    def saved(self) -> str:
        """Return the processes that this command comes from, to save with a token."""
        return self.lineage.saved()

    def explain(self) -> str:
        """Say for people how this command got its name."""
        if self._given is not None:
            return "as it was given"
        found = self._system()
        if found is not None:
            return f"as the environment names it ({found[0].label}), by an id of this run"
        owner = self.lineage.owner
        if owner is None:
            return "by its process: the processes that this command comes from cannot be read"
        return f"by descent from {owner.name} {owner.pid}"

    @property
    def run(self) -> tuple[str, str] | None:
        """The agent, no CI job, and the id of its run that the environment names; also under a given name."""
        found = _named(self._env, self.lineage)
        return None if found is None or found[0].words or "\0" in found[1] else (found[0].label, found[1])

    def _system(self) -> tuple[System, str] | None:
        if isinstance(self._named, str):
            self._named = _named(self._env, self.lineage) if self._given is None else None
        return self._named


class NamedIdentity:
    """The identity in another system's commands: the name alone, without descent."""

    layer = GIVEN

    def __init__(self, holder: str) -> None:
        self.holder = holder

    def saved(self) -> str:
        """Return nothing: processes do not matter."""
        return ""

    def may_use(self, holder: str, layer: int, saved: str) -> bool:  # noqa: ARG002 (as a `CommandIdentity` has it)
        """True if the names are equal. A token of `leasehold acquire` also needs its process to be an ancestor."""
        if holder != self.holder or not saved:
            return holder == self.holder
        from leasehold.config.identity import descent  # noqa: PLC0415 (only where both spellings are mixed)

        return descent.of_this_command().judge(saved) == descent.MINE


def find(choice: Choice, given: str | None = None, *, env: Mapping[str, str] | None = None) -> CommandIdentity:
    """Return the identity of a command, by its options, the environment, the configuration and its processes."""
    return CommandIdentity(choice.holder if given is None else checks.text(given, "holder", 256), env)


def _named(env: Mapping[str, str], line: Lineage) -> tuple[System, str] | None:
    """Return the agent or job that the environment names, with the id of its run."""
    from leasehold.config.identity.agents import SYSTEMS  # noqa: PLC0415 (a command with a given name does without)

    known = [(system, id_) for system in SYSTEMS if (id_ := _unique_id(system, env)) is not None]
    if line.is_cut and known:
        # The nearest agent is hidden from us. All ids together identify the innermost run.
        return known[0][0], "\0".join(id_ for _, id_ in known)
    return next((each for each in known if line.end in each[0].processes | each[0].listeners), None)


def _has(env: Mapping[str, str], mark: str) -> bool:
    """True if the environment has this variable, with this value if the mark names one."""
    name, _, value = mark.partition("=")
    return bool(env.get(name)) and value in ("", env[name])


def _unique_id(system: System, env: Mapping[str, str]) -> str | None:
    """Return the id of this run of the system; None if the environment has none."""
    for group in system.ids:
        values = [env.get(variable, "") for variable in group]
        if all(values) and (len(group) > 1 or values[0].startswith(system.begins)):
            return "\0".join(values)
    return None


def _name_of(system: System, id_: str, env: Mapping[str, str]) -> str:
    """Return the holder's name of one run: `claude-0f3c91d2-5be07a16`, `GitHub run 812 / build #5be07a16`."""
    if not system.words:
        return f"{system.label}-{short(id_)}"
    words = system.words
    for piece in system.words.split("{")[1:]:
        variable = piece.partition("}")[0]
        words = words.replace(f"{{{variable}}}", clean_part(env.get(variable, "?"), "", 48))
    return f"{system.label} {words} #{places.digest(id_)[:8]}"


def short(id_: str) -> str:
    """Return a short id as it is, a longer one as its start and a digest: ids of one day often start alike (UUIDv7)."""
    plain = "".join(one for one in id_[:12] if one.isalnum() or one in "-_")
    return plain if plain == id_ else f"{plain[:8]}-{places.digest(id_)[:8]}"


def _by_process(line: Lineage, env: Mapping[str, str]) -> str:
    """Return a name such as `ada@laptop, zsh 4121 on pts/3 #5be07a16`.

    The digits distinguish processes of equal pids: in two containers, on two machines, before and after a restart. Two
    of them with one name would replay each other's requests, and no deadlock between them would be found.
    """
    owner = line.owner
    if owner is None or line.view is None:
        return f"{_at_host(env)}, process {os.getppid()} #{_mark_of_this_process()}"
    terminal = f" on {owner.terminal}" if owner.terminal else ""
    mark = places.digest(line.view.place, str(owner.pid), owner.start)[:8]
    return f"{_at_host(env)}, {clean_part(owner.name, 'process')} {owner.pid}{terminal} #{mark}"


def of_copy(choice: Choice, *, env: Mapping[str, str] | None = None, cwd: str | None = None) -> str:
    """Return the name for other systems' commands: as configured, or of the user, host and working copy.

    Such as `ada@laptop:app-3f2a91c0`: the digits distinguish working copies of the same name.
    """
    env = os.environ if env is None else env
    if choice.holder is not None:
        return choice.holder
    root = _root(config.working_directory(cwd), choice.path, env)
    return f"{_at_host(env)}:{clean_part(os.path.basename(root), 'root')}-{places.digest(root)[:8]}"


def of_process(env: Mapping[str, str] | None = None) -> str:
    """Return the name of a program that gave none, such as `ada@laptop:4711-5be07a16`: it identifies this process."""
    return f"{_at_host(os.environ if env is None else env)}:{os.getpid()}-{_mark_of_this_process()}"


def _mark_of_this_process() -> str:
    """Return random digits that stay the same for the life of this process, and that no fork of it shares."""
    pid = os.getpid()
    if pid not in _marks:
        _marks.clear()
        _marks[pid] = os.urandom(4).hex()
    return _marks[pid]


_marks: dict[int, str] = {}


def session(env: Mapping[str, str] | None = None) -> str | None:
    """Return `ID.SECRET` of the session in the environment, if any."""
    value = (os.environ if env is None else env).get(SESSION)
    if not value:
        return None
    checks.credential(value)
    return value


def marked(credential: str, url: str, space: str) -> dict[str, str]:
    """Return the variables by which a `leasehold run` exports its session to its command."""
    return {SESSION: credential, RUN: f"{checks.session_id(credential)} {_scope(url, space)}"}


def is_of_run(env: Mapping[str, str]) -> bool:
    """True if a `leasehold run` started the session in this environment."""
    begin = f"{(env.get(SESSION) or '.').partition('.')[0]} "
    return len(begin) > 1 and env.get(RUN, "").startswith(begin)


def is_of_locks(env: Mapping[str, str], url: str, space: str) -> bool:
    """True if the session of a `leasehold run` belongs to these locks. Other stores do not know it."""
    return env[RUN].partition(" ")[2] == _scope(url, space)


def _scope(url: str, space: str) -> str:
    return places.digest(urls.one_spelling(url), space)


def _root(here: str, project: str | None, env: Mapping[str, str]) -> str:
    """Return the top of the working copy, else the directory of the project's configuration, else this one."""
    copy = places.working_copy(here, env)
    if copy is not None:
        return os.path.realpath(copy.root)
    return here if project is None else os.path.dirname(project)


def _at_host(env: Mapping[str, str]) -> str:
    return f"{clean_part(_user(env), 'unknown')}@{host()}"


def host() -> str:
    """Return the name of this machine, or of the container, as a lease and a holder's name have it."""
    return clean_part(os.uname().nodename, "localhost")


def _user(env: Mapping[str, str]) -> str:
    known = env.get("USER") or env.get("LOGNAME")
    if known:
        return known
    import pwd  # noqa: PLC0415 (rare)

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid{os.geteuid()}"


def clean_part(text: str, otherwise: str, most: int = _PART) -> str:
    """Return the text as a part of a holder's name: printable, without blanks, at most so many bytes."""
    seen = "".join(one if one.isprintable() and not one.isspace() else "_" for one in text)
    return seen.encode("utf-8", "ignore")[:most].decode("utf-8", "ignore") or otherwise
