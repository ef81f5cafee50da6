"""Everything one command needs: the locks, the caller's identity, tokens and session, and how to print its answer."""

# ruff: noqa: PTH123 (pathlib costs a one-shot process more than all of this)

from __future__ import annotations

import os
import sys

from leasehold.cli import output
from leasehold.cli.output import Output, complain, quoted
from leasehold.domain import durations
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Refused
from leasehold.domain.timestamps import SECOND
from leasehold.errors import InvalidInput
from leasehold.requests import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeVar

    from leasehold.cli.tokens import Tokens
    from leasehold.config.identity import CommandIdentity, NamedIdentity
    from leasehold.config.settings import Choice
    from leasehold.domain.leases import Lease, Waiting
    from leasehold.locks.sync import Locks

    T = TypeVar("T")

_SECRET_LENGTH = 4_096
_OF_OTHERS = ("lock ", "workflow ")
"""Commands of other systems, which identify the caller in their own way."""


class Context:
    """One command with its values. Locks, identity and tokens are opened when they are first used."""

    def __init__(self, verb: str, values: Mapping[str, Any]) -> None:
        self.verb = verb
        self.values = values
        self.out = Output(json=bool(values.get("json")))
        self._choice: Choice | None = None
        self._locks: Locks | None = None
        self._identity: CommandIdentity | NamedIdentity | None = None
        self._tokens: Tokens | None = None
        self._own: dict[str, frozenset[str]] = {}
        self._session: str | None = None
        self.progress: Callable[[], None] | None = None
        """Called repeatedly while this command waits in a queue."""

    def _show_progress(self) -> None:
        if self.progress is not None:
            self.progress()

    @property
    def choice(self) -> Choice:
        """The store and the settings of this command."""
        if self._choice is None:
            from leasehold.config.settings import find  # noqa: PLC0415 (e.g. `completion` has no locks)

            choice, timeout = find(self.values.get("url")), self.values.get("connect_timeout")
            self._choice = choice if timeout is None else choice.with_patience(timeout)
        return self._choice

    @property
    def address(self) -> str | None:
        """The store's URL without secrets, if the store was chosen already."""
        if self._choice is None:
            return None
        from leasehold.config.urls import shown as shown_url  # noqa: PLC0415

        return shown_url(self._choice.url)

    @property
    def locks(self) -> Locks:
        """The locks, opened at first use; this process drives the engine itself."""
        if self._locks is None:
            from leasehold.locks.connect import connect  # noqa: PLC0415

            if self.choice.url.startswith("git"):
                from leasehold.cli.git_remote import opened  # noqa: PLC0415 (only for a git remote)

                self._locks = opened(self, self._show_progress)
                return self._locks
            if self.values.get("max_skew") is not None:
                raise InvalidInput("max_skew", "is for locks at a git remote (git:., git+ssh://…)")
            self._locks = connect(
                self.choice, holder=self.holder, space=self.space, threaded=False, progress=self._show_progress
            )
        return self._locks

    @property
    def holder(self) -> str:
        """The caller's holder name."""
        return self.identity.holder

    @property
    def identity(self) -> CommandIdentity | NamedIdentity:
        """The identity of the agent, job or person that runs this command."""
        if self._identity is None:
            from leasehold.config import identity  # noqa: PLC0415 (e.g. `completion` asks for nothing)

            given = self.values.get("holder")
            if self.verb.startswith(_OF_OTHERS):
                name = identity.of_copy(self.choice) if given is None else checks.text(given, "holder", 256)
                self._identity = identity.NamedIdentity(name)
            else:
                self._identity = identity.find(self.choice, given)
        return self._identity

    @property
    def space(self) -> str:
        """The space of this command."""
        given = self.values.get("space")
        return checks.space(given if given is not None else self.choice.space)

    @property
    def tokens(self) -> Tokens:
        """The saved tokens of this user, as far as the caller may use them."""
        if self._tokens is None:
            self._tokens = self.tokens_of(self.space)
        return self._tokens

    def proofs(self, resources: Iterable[str]) -> list[str]:
        """Return tokens of what the caller holds, those on these resources first, and of its worktree's plan."""
        from leasehold.config import paths  # noqa: PLC0415 (its caller has it)

        found, private = self.tokens.proofs(resources), paths.private_directory(os.getcwd())  # noqa: PTH109
        if private is None:
            return found
        from leasehold.cli.git_worktrees import plan_of  # noqa: PLC0415 (only in a linked worktree)

        plan = plan_of(private, self.holder)
        from leasehold.cli.tokens import PROOFS  # noqa: PLC0415

        return found if plan is None else [plan, *found][:PROOFS]

    def tokens_of(self, space: str) -> Tokens:
        """Return the tokens for this space."""
        from leasehold.cli.tokens import Tokens  # noqa: PLC0415 (e.g. `completion` needs none)

        return Tokens(self.choice.url, space, self.identity)

    @property
    def session(self) -> str | None:
        """`ID.SECRET` of the session that this command acts in, if any."""
        if self._session is None:
            self._session = self._find_session() or ""
        return self._session or None

    def is_mine(self, each: Lease | Waiting, space: str | None = None) -> bool:
        """True if this lease, or place in a queue, is the caller's: by session, token or name."""
        if self.session is not None and each.session == checks.session_id(self.session):
            return True
        if each.id in self.own_in(space or self.space):
            return True
        # The name decides, unless another owner of that name took it: by this user's commands, or in a session.
        return each.holder == self.holder and each.session is None and not self.tokens.seen(each.id)

    def is_proven(self, lease: Lease) -> bool:
        """True if the caller can prove that it owns this lease, and no other process took it in the same session."""
        if lease.id in self.own_in(lease.space):
            return True
        is_in_session = self.session is not None and lease.session == checks.session_id(self.session)
        return is_in_session and not self.is_anothers(lease.id)

    @property
    def own(self) -> frozenset[str]:
        """Ids of the leases whose token the caller may use."""
        return self.own_in(self.space)

    def own_in(self, space: str) -> frozenset[str]:
        """Return the ids of the leases of this space whose token the caller may use."""
        if space not in self._own:
            self._own[space] = frozenset(line.lease for line in self.tokens_of(space).all())
        return self._own[space]

    def _find_session(self) -> str | None:
        path = self.values.get("session_file")
        if path is None:
            return self._session_around()
        token = "-" if self.values.get("token_stdin") else self.values.get("token_file")
        if path == token == "-" and self.verb != "acquire":
            raise InvalidInput("session_file", "the session and the token cannot both come from standard input")
        credential = read_secret(path, "session_file")
        checks.credential(credential)
        return credential

    def act_in(self, credential: str | None) -> None:
        """Act in this session from now on; None: in none."""
        self._session = credential or ""

    def _session_around(self) -> str | None:
        """Return the session in the environment, unless a `leasehold run` made it for other locks."""
        from leasehold.config import identity  # noqa: PLC0415

        credential = identity.session()
        if credential is None or not identity.is_of_run(os.environ):
            return credential
        return credential if identity.is_of_locks(os.environ, self.choice.url, self.space) else None

    @property
    def is_of_run(self) -> bool:
        """True if this command acts in the session that a `leasehold run` above it made."""
        from leasehold.config import identity  # noqa: PLC0415 (only where a session matters)

        return self.values.get("session_file") is None and self.session is not None and identity.is_of_run(os.environ)

    def is_anothers(self, lease: str) -> bool:
        """True if a living process that is no ancestor of this command took this lease."""
        from leasehold.cli.holders import is_of_neighbour  # noqa: PLC0415 (only after a refusal, or in a session)

        return any(is_of_neighbour(self, line) for line in self.tokens.seen(lease))

    @property
    def ttl(self) -> str | float:
        """The TTL: as given, as configured, or half an hour."""
        given: str | float | None = self.values.get("ttl")
        return given if given is not None else self.choice.ttl

    def suggest(self, verb: str, *words: str, more: str = "", holder: str | None = None, in_space: bool = True) -> str:
        """Return a command to try next, with the holder, space and store of this one."""
        same = {name: self.values.get(name) for name in ("holder", "space", "url")}
        same["holder"] = holder or same["holder"]
        if not in_space:
            same["space"] = None
        if same["url"] is not None and ("@" in same["url"] or "=" in same["url"]):
            from leasehold.config.urls import shown as shown_url  # noqa: PLC0415 (only for a suggestion)

            same["url"] = shown_url(same["url"])  # others may read a suggestion, too
        repeated = "".join(f" --{name} {quoted((given,))}" for name, given in same.items() if given is not None)
        named = "".join(f" {quoted((word,))}" for word in words)
        if any(word.startswith("-") for word in words):
            return f"leasehold {verb}{repeated}{more} --{named}"
        return f"leasehold {verb}{named}{repeated}{more}"

    def hint(self, message: str, command: str, *, now: bool = False) -> None:
        """Give a hint: with the answer, or at once (`now`) if the answer may take long."""
        if now and not self.out.json:
            tell_hint(message, command)
        else:
            self.out.hints.append({"message": message, "command": command})

    def hint_at_paths(self, names: Iterable[object]) -> None:
        """Hint at `path:` for each plain name that is a file here. The name is still used as given."""
        for name in names:
            if not isinstance(name, str) or ":" in name or "\0" in name:
                continue
            # A plain word is mostly no folder, though there may be a folder of that name.
            if os.path.isfile(name) or ("/" in name and os.path.isdir(name)):  # noqa: PTH112, PTH113
                from leasehold.cli.entry.hints import hint_at_path  # noqa: PLC0415 (only where there is something to hint at)

                hint_at_path(self, name)

    def number(self, name: str) -> int:
        """Return the value of an option as a whole number."""
        text = str(self.values[name])
        try:
            return int(text)
        except ValueError:
            raise InvalidInput(name, f"must be a whole number, not {shown(text)[:40]!r}") from None

    def seconds(self, name: str) -> float:
        """Return the value of an option, a duration, in seconds."""
        try:
            return durations.parse(self.values[name]) / SECOND
        except durations.BadDuration as error:
            raise InvalidInput(name, str(error)) from None

    def json_value(self, name: str) -> object:
        """Return the value of an option that is JSON."""
        text = self.values.get(name)
        if text is None:
            return None
        import json  # noqa: PLC0415 (slow to import)

        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(name, f"must be JSON: {error}") from None
        return value

    def end(self, outcome: object, text: str, data: dict[str, Any] | None = None) -> int:
        """Print an outcome and return its exit code: JSON, or this text for a success and an explanation of a refusal.

        In JSON, `data` replaces the usual answer of a success, and is added to a refusal.
        """
        code = output.exit_code(outcome)
        if self.out.json:
            from leasehold.wire import shapes as wire  # noqa: PLC0415

            if data is None and code in (output.HELD, output.TIMED_OUT):
                from leasehold.cli.refusals import in_your_own_way  # noqa: PLC0415 (as below)

                data = in_your_own_way(outcome, self)
            if data is None:
                self.out.give(wire.envelope(outcome))
            elif code == output.DONE:
                self.out.give({"schema_version": wire.SCHEMA_VERSION, "ok": True, "data": data})
            else:
                told = {**wire.answer(outcome), **data}
                self.out.give({"schema_version": wire.SCHEMA_VERSION, "ok": False, "error": told})
        elif code == output.DONE:
            self.out.say(text)
        else:
            from leasehold.cli.refusals import explain  # noqa: PLC0415 (only for a refusal)

            self.deny(explain(outcome, self))  # type: ignore[arg-type] # every other outcome is a success
        return code

    def caution(self) -> None:
        """Warn if a configuration file was ignored, so that the lease may be in an unexpected store."""
        for note in self.choice.notes:
            complain(f"Careful: {shown(note)}")

    def deny(self, text: str) -> None:
        """Print a refusal for people."""
        head, newline, rest = text.partition("\n")
        self.out.warn(self.out.paint(head, "red", sys.stderr) + newline + rest)

    def abandon(self) -> None:
        """Drop the locks without closing them: the store does not answer, and closing would wait for it."""
        self._locks = None

    def close(self) -> None:
        """Close the locks."""
        if self._locks is not None:
            self._locks.close()
            self._locks = None


class CommandRefused(Exception):
    """A refusal that ends the command."""

    def __init__(self, outcome: Refused) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


def accepted(outcome: T | Refused) -> T:
    """Return an outcome. Raises CommandRefused, which ends the command, for a refusal."""
    if isinstance(outcome, Refused):
        raise CommandRefused(outcome)
    return outcome


def read_secret(path: str, field: str) -> str:
    """Return the first line of a file or of standard input. A secret never stands on the command line."""
    try:
        if path == "-":
            line = sys.stdin.readline(_SECRET_LENGTH)
        else:
            with open(path, encoding="utf-8") as file:
                line = file.readline(_SECRET_LENGTH)
    except (OSError, ValueError) as error:
        raise InvalidInput(field, f"{shown(path)} cannot be read: {error}") from None
    except AttributeError:
        raise InvalidInput(field, "standard input is closed") from None
    if not line.strip():
        where = "standard input" if path == "-" else shown(path)
        raise InvalidInput(field, f"{where} is empty: a line with the secret is expected")
    return line.strip()


def tell_hint(message: str, command: str) -> None:
    """Write a hint for people to standard error."""
    complain(f"Hint: {shown(message)}:\n  {shown(command)}")
