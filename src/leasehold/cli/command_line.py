"""From the words of a command line to an exit code: read them, find the command's handler, run it, report how it ended.

``argparse`` costs a fresh process about as much as an acquire does. So a plain command line is read here, from the same
table from which ``entry.help`` builds the argparse parser. Help, an unknown option or a missing word go there, and get
an explanation.
"""

from __future__ import annotations

import gc
import os
import sys

from leasehold.cli import output
from leasehold.cli.context import CommandRefused, Context, tell_hint
from leasehold.cli.output import complain, fill_gaps, step
from leasehold.domain.names import shown
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.requests.calls import refusal

_TAKING = ("acquire", "steal", "lock acquire", "lock renew", "workflow create")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Plain classes, not nouns: there are many of these in every command, and a noun's constructor has to be compiled.


class Flag:
    """An option of a command: a flag, with a value if it has a `metavar`."""

    __slots__ = ("choices", "default", "flag", "help", "many", "metavar")

    def __init__(
        self,
        flag: str,
        about: str,
        metavar: str | None = None,
        default: object = None,
        choices: tuple[str, ...] = (),
        *,
        many: bool = False,
    ) -> None:
        self.flag = flag
        self.help = about
        self.metavar = metavar
        """The name of its value in the help; None: a flag without a value."""
        self.default = default
        self.choices = choices
        self.many = many
        """True if it may be given several times."""

    @property
    def name(self) -> str:
        """The key of its value among a command's values."""
        return self.flag[2:].replace("-", "_")

    @property
    def absent(self) -> object:
        """Its value if it is not given."""
        return [] if self.many else self.default if self.metavar is not None else False


class CliArgument:
    """A positional argument of a command."""

    __slots__ = ("help", "name", "number")

    def __init__(self, name: str, about: str, number: str = "1") -> None:
        self.name = name
        self.help = about
        self.number = number
        """`1`, `?` (optional), `+` (one or more), `*` (any number), or `--` (everything after a `--`)."""


class CliVerb:
    """One command."""

    __slots__ = ("handler", "help", "name", "options", "words")

    def __init__(
        self, name: str, about: str, handler: str, words: tuple[CliArgument, ...] = (), options: tuple[Flag, ...] = ()
    ) -> None:
        self.name = name
        self.help = about
        self.handler = handler
        """`module:function` below `leasehold.cli.commands`."""
        self.words = words
        self.options = options

    @property
    def runs_command(self) -> bool:
        """True if the words after `--` are a command line; otherwise they are names that begin with a dash."""
        return any(word.number == "--" for word in self.words)


class CommandLine:
    """A parsed command line."""

    __slots__ = ("values", "verb")

    def __init__(self, verb: CliVerb, values: Mapping[str, object]) -> None:
        self.verb = verb
        self.values = values


def parse(argv: Sequence[str], verbs: Mapping[str, CliVerb]) -> CommandLine | None:
    """Parse a plain command line; None if it is not plain."""
    verb = verbs.get(" ".join(argv[:2])) or verbs.get(argv[0] if argv else "")
    if verb is None:
        return None
    options = {option.flag: option for option in verb.options}
    values: dict[str, object] = {option.name: option.absent for option in verb.options}
    words: list[str] = []
    rest: list[str] = []
    given = list(argv[verb.name.count(" ") + 1 :])
    given.reverse()
    while given:
        word = given.pop()
        if word == "--":
            (rest if verb.runs_command else words).extend(reversed(given))
            break
        if not word.startswith("-") or word == "-":
            words.append(word)
        elif not _option(word, options, values, given):
            return None
    return with_words(verb, values, words, rest)


def _option(word: str, options: Mapping[str, Flag], values: dict[str, object], given: list[str]) -> bool:
    """Read an option and its value into `values`. Return False if argparse has to explain what is wrong."""
    flag, equals, value = word.partition("=")
    option = options.get(flag)
    if option is None:
        return False
    if option.metavar is None:
        values[option.name] = True
        return not equals
    if not equals:
        value = given.pop() if given else "--"
        if value[:1] == "-" and value != "-" and not value[1:2].isdigit():  # `--priority -5` and `--token-file -`
            return False
    if option.choices and value not in option.choices:
        return False
    if option.many:
        known = values[option.name]
        values[option.name] = [*(known if isinstance(known, list) else ()), value]
    else:
        values[option.name] = value
    return True


def with_words(verb: CliVerb, values: dict[str, object], words: list[str], rest: list[str]) -> CommandLine | None:
    """Assign these words to the command's arguments; None if there are too few or too many."""
    for word in verb.words:
        if word.number == "--":
            if not rest:
                return None
            values[word.name] = rest
        elif word.number in ("+", "*"):
            if not words and word.number == "+":
                return None
            values[word.name], words = words, []
        elif words:
            values[word.name] = words.pop(0)
        elif word.number == "?":
            values[word.name] = None
        else:
            return None
    return None if words else CommandLine(verb, values)


# ------------------------------------------------------------------------------------------- running a command


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Without `argv`, run as the program and end the process."""
    if argv is not None:
        return _run(list(argv))
    code = _run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)  # everything is written and closed by now: the interpreter need not shut down


def settle_down() -> None:
    """Turn garbage collection on: this command runs for a while."""
    gc.enable()


def _run(given: list[str]) -> int:
    words = [word if word.isascii() else _as_utf8(word) for word in given]
    from leasehold.cli.entry.quick import HOT  # noqa: PLC0415 (which is made of what stands in this module)

    line = parse(words, HOT) or _read(words)
    return run(line, handler_of(line))


def _read(words: list[str]) -> CommandLine:
    from leasehold.cli.entry.table import VERBS  # noqa: PLC0415 (a plain acquire does without all the others)

    line = parse(words, VERBS)
    if line is None and words[:1] == ["__complete"]:
        from leasehold.cli.commands.complete import NAME, VERB  # noqa: PLC0415 (only completion scripts ask this)

        line = parse(words, {NAME: VERB})
    if line is None:
        from leasehold.cli.entry.help import parse_or_explain  # noqa: PLC0415 (not for a plain command line)

        line = parse_or_explain(words)
    return line


def _as_utf8(word: str) -> str:
    """Decode as UTF-8 what the locale could not decode. A word that is no UTF-8 either is refused where it is used."""
    try:
        return os.fsencode(word).decode() if any("\udc80" <= one <= "\udcff" for one in word) else word
    except UnicodeError:
        return word


def handler_of(line: CommandLine) -> Callable[..., int]:
    """Import and return the function behind a command."""
    module, _, name = line.verb.handler.partition(":")
    __import__(f"leasehold.cli.commands.{module}")
    handler: Callable[..., int] = getattr(sys.modules[f"leasehold.cli.commands.{module}"], name)
    return handler


def run(line: CommandLine, handler: Callable[[Context], int]) -> int:
    """Run one command and turn its result, or an error, into a message and an exit code."""
    fill_gaps()
    context = Context(line.verb.name, line.values)
    code = _patiently(context, handler)
    for hint in context.out.hints if not context.out.json else ():
        tell_hint(**hint)
    if context.out.trouble is not None:
        held = f"; it is yours all the same\n{step('see what you hold', context.suggest('list', more=' --mine'))}"
        more = held if context.verb in _TAKING and not code else ""
        complain(f"leasehold {context.verb}: the answer could not be written: {context.out.trouble.strerror}{more}")
        return code or output.FAILURE
    return code


def _patiently(context: Context, handler: Callable[[Context], int]) -> int:
    """Run the handler; on a terminal, with a live line if the store is slow."""
    if sys.stderr is None or not sys.stderr.isatty():
        return _guarded(context, handler)
    from leasehold.cli.terminal.progress import Patience, may_be_shown  # noqa: PLC0415 (only on a terminal)

    if not may_be_shown(context):
        return _guarded(context, handler)
    with Patience(context):
        return _guarded(context, handler)


def _guarded(context: Context, handler: Callable[[Context], int]) -> int:
    try:
        try:
            return handler(context)
        finally:
            context.close()
    except CommandRefused as refused:
        return context.end(refused.outcome, "")
    except InvalidInput as error:
        return context.end(refusal(error), "")
    except LeaseholdError as error:
        return _broke(context, error.code, str(error), output.exit_code_of_error(error))
    except KeyboardInterrupt as error:
        code = output.INTERRUPTED
        if "leasehold.cli.terminal.interrupts" in sys.modules:
            code = sys.modules["leasehold.cli.terminal.interrupts"].disarm(error)
        return _broke(context, "interrupted", "it was interrupted before it was done", code)
    except Exception as error:  # noqa: BLE001 (the last resort: a bug is reported with its traceback)
        from traceback import format_exc  # noqa: PLC0415

        complain(format_exc())
        message = f"{type(error).__name__}: {error}; this is a bug, please report it with the lines on standard error"
        return _broke(context, "internal", message, output.FAILURE)


def _broke(context: Context, error_code: str, message: str, exit_code: int) -> int:
    if context.out.json:
        from leasehold.wire.shapes import SCHEMA_VERSION  # noqa: PLC0415

        error = {"code": error_code, "message": message}
        context.out.give({"schema_version": SCHEMA_VERSION, "ok": False, "error": error})
    elif error_code == "interrupted":
        complain(f"\nleasehold {context.verb}: interrupted")
    else:
        unreachable = exit_code == output.UNREACHABLE
        hint = f"\n{step('see what is wrong', context.suggest('doctor'))}" if unreachable else ""
        lines = "\n".join(map(shown, message.split("\n")))  # a suggested command keeps its own line
        context.deny(f"Failed: {lines}{hint}")
    return exit_code
