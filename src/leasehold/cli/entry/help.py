"""Help and usage errors, by argparse, from the same table that plain command lines are read with."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from leasehold import __version__
from leasehold.cli.command_line import CommandLine
from leasehold.cli.entry.examples import EXAMPLES
from leasehold.cli.entry.families import FAMILIES
from leasehold.cli.entry.table import VERBS
from leasehold.cli.output import FAILURE, MEANINGS, USAGE, complain, dumps, forget, quoted, step, write
from leasehold.config.settings import PEOPLES_VERBS
from leasehold.domain.names import shown
from leasehold.wire.shapes import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from leasehold.cli.command_line import CliArgument, CliVerb, Flag

_ABOUT = f"""\
Leasehold: the lock service for agents.

Before you touch something shared, acquire a lease on its name. It has one holder at a time and expires, so a crash
blocks no one for long. Every command answers with an exit code:
{", ".join(f"{code} {meaning}" for code, meaning in MEANINGS.items())}.
"""
_MORE = """\
start here:
  leasehold acquire issue:42          # acquire it, or see who holds it
  leasehold run deploy://api -- CMD   # run a command while you hold it
  leasehold list                      # who holds what
  leasehold COMMAND --help            # the options and examples of one command
"""

MEANT = {
    **dict.fromkeys(("status", "ps", "locks", "leases"), "list"),
    **dict.fromkeys(("unlock", "done"), "release"),
    **dict.fromkeys(("claim", "take"), "acquire"),
    **dict.fromkeys(("show", "check", "get", "who"), "inspect"),
    **dict.fromkeys(("log", "events"), "history"),
    "heartbeat": "renew",
    "server": "serve",
    "top": "watch",
    "exec": "run",
}
"""Names of commands in other tools: by its letters alone, `unlock` would be taken for `lock`."""

FOR_PEOPLE = (*PEOPLES_VERBS, "adopt")
"""Commands that an error does not offer: an agent may read it."""


def parse_or_explain(words: Sequence[str]) -> CommandLine:
    """Parse with argparse, which prints help or an error and ends the process, unless the line is right after all."""
    if list(words[:1]) == ["help"]:
        words = [*words[1:], "--help"]
    own, rest = _split(words)
    Parser.as_json, Parser.words = "--json" in own, tuple(own)
    parser = build()
    if not words:
        parser.print_help()
        parser.exit(0)
    _refuse_unknown(parser, own)
    of_own = VERBS.get(own[0] if own else "")
    runs_rest = of_own is not None and of_own.runs_command
    found, unknown = parser.parse_known_args([*own, *(["--", *rest] if rest and not runs_rest else [])])
    known = vars(found)
    verb: CliVerb = known["verb"]
    its_parser: Parser = known.pop("parser")
    if verb.runs_command and not rest:
        its_parser.error(_what_is_not_after_dashes(own, known["resources"], unknown, verb))
    if unknown:
        its_parser.error(_what_is_too_much(unknown[0], verb))
    for word in verb.words:
        if word.number == "--":
            known[word.name] = rest
    return CommandLine(verb, known)


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the words at a `--`."""
    if "--" not in words:
        return list(words), []
    place = list(words).index("--")
    return list(words[:place]), list(words[place + 1 :])


def _refuse_unknown(parser: Parser, words: Sequence[str]) -> None:
    """Refuse an unknown command and suggest the one that was probably meant."""
    first = words[0] if words else ""
    known = dict.fromkeys(name.partition(" ")[0] for name in VERBS)
    if not first or first in known:
        return
    if first.startswith("-"):
        _refuse_global(parser, words, known)
        return
    from difflib import get_close_matches  # noqa: PLC0415

    close = [MEANT[first]] if first in MEANT else get_close_matches(first, known, 1)
    offered = (name for name in known if name not in FOR_PEOPLE)
    meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(offered)}"
    parser.error(f"there is no command {first!r}; {meant}")


def _what_is_not_after_dashes(words: Sequence[str], names: Sequence[str], unknown: Sequence[str], verb: CliVerb) -> str:
    """Say that the command after `--` is missing. Perhaps it was typed without the dashes."""
    second = names[1:2] or [word for word in unknown[:1] if not word.startswith("-")]
    place = next((at for at, word in enumerate(words) if word in second and word not in names[:1]), None)
    if place is None:
        if unknown:
            return _what_is_too_much(unknown[0], verb)
        return f"it needs a command after --, such as:\n  leasehold {verb.name} NAME -- ./work.sh"
    meant = quoted([*words[:place], "--", *words[place:]])
    return f"it needs a command after --; did you mean this?\n  leasehold {meant}"


def _refuse_global(parser: Parser, words: Sequence[str], known: Iterable[str]) -> None:
    """Refuse an option before the command: options go after it."""
    flag = words[0].partition("=")[0]
    verb = next((VERBS[name] for name in _verbs_in(words, known)), None)
    if flag in ("-h", "--help", "--version") or verb is None:
        return
    if any(option.flag == flag for option in verb.options):
        parser.error(f"{flag} goes after the command:\n  leasehold {verb.name} … {flag}")
    parser.error(
        f"there is no option {flag} before a command: options go after it, and only --help and --version before"
    )


def _verbs_in(words: Sequence[str], known: Iterable[str]) -> Iterator[str]:
    """Return the commands that are named anywhere on the line."""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        name = f"{word} {after}" if f"{word} {after}" in VERBS else word
        if word in known and name in VERBS:
            yield name


def _what_is_too_much(word: str, verb: CliVerb) -> str:
    if not word.startswith("-"):
        return f"{word!r} is one word too many"
    from difflib import get_close_matches  # noqa: PLC0415

    flag = word.partition("=")[0]
    close = get_close_matches(flag, [option.flag for option in verb.options], 1)
    if close == [flag]:  # it was typed before the command
        return f"{flag} goes after the command:\n  leasehold {verb.name} … {flag}"
    name = "; a name that begins with a dash goes after --" if not flag.startswith("--") else ""
    return f"there is no option {flag}{f'; did you mean {close[0]}?' if close else name}"


def _what_is_no_command(flag: str) -> str:
    if any(flag == option.flag for verb in VERBS.values() for option in verb.options):
        return f"{flag} goes after a command, such as:\n  leasehold list {flag}"
    meant = "; did you mean --version?" if flag.lower().startswith(("-v", "--ver")) else ""
    return f"there is no option {flag}, and a command is missing{meant}"


def _first_unknown(words: Sequence[str], verb: CliVerb) -> str | None:
    """Return the first word that looks like an option and is none."""
    flags = {option.flag: option for option in verb.options}
    for before, word in zip(("", *words), words, strict=False):
        is_value = before in flags and flags[before].metavar is not None
        if word[:1] == "-" and word != "-" and word.partition("=")[0] not in flags and not is_value:
            return word
    return None


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Wraps between words only: options, names and paths are never cut at dashes. Commands stay whole."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _wrapped(" ".join(text.split()), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(line for each in _paragraphs(text) for line in _filled(each, width, indent))


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap  # noqa: PLC0415 (argparse has imported it by now)

    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _paragraphs(text: str) -> Iterator[str]:
    """Join the lines of a paragraph; keep examples and tables line by line."""
    paragraph: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line and not line.startswith(" "):
            paragraph.append(line)
            continue
        if paragraph:
            yield " ".join(paragraph)
            paragraph = []
        yield line


def _filled(paragraph: str, width: int, indent: str) -> list[str]:
    """Wrap a paragraph. In an example, only the comment may move to a line of its own."""
    if not paragraph.startswith(" "):
        return [f"{indent}{line}" for line in _wrapped(paragraph, width)] or [""]
    if len(paragraph) <= width:
        return [paragraph]
    command, mark, comment = paragraph.partition("  # ")
    above = [f"  # {line}" for line in _wrapped(comment, width - 4)] if mark else []
    return [*above, command.rstrip()]


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are JSON with --json, written as all other output is."""

    as_json = False
    words: tuple[str, ...] = ()
    """The words of the command line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False, formatter_class=Formatter)

    def _print_message(self, message: str, file: Any = None) -> None:  # noqa: ANN401 (argparse's own signature)
        try:
            write(sys.stdout if file is None else file, message)
        except OSError as error:
            forget(sys.stdout)
            complain(f"{self.prog}: the help could not be written: {error.strerror}")
            sys.exit(FAILURE)

    def error(self, message: str) -> NoReturn:
        """Report a usage error and end with its exit code."""
        verb: CliVerb | None = self.get_default("verb")
        unknown = None if verb is None else _first_unknown(self.words, verb)
        if message.startswith("the following arguments are required"):
            if verb is not None and unknown is not None:
                message = _what_is_too_much(unknown, verb)  # perhaps this word was meant to be that argument
            elif verb is None and self.words[:1] and self.words[0].startswith("-"):
                message = _what_is_no_command(self.words[0].partition("=")[0])
        said = "\n".join(map(shown, message.split("\n")))
        if self.as_json:
            lines = "\n".join(shown(line.strip()) for line in message.split("\n"))
            way_out = f"See its options and examples:\n{self.prog} --help"
            told = {"code": "usage", "message": f"{self.prog}: {lines}\n{way_out}"}
            write(sys.stdout, dumps({"schema_version": SCHEMA_VERSION, "ok": False, "error": told}) + "\n")
        else:
            way_out = step("see its options and examples", f"{self.prog} --help")
            complain(f"{self.format_usage()}{self.prog}: {said}\n{way_out}")
        self.exit(USAGE)


def build() -> Parser:
    """Build the parser of all commands."""
    parser = Parser(prog="leasehold", description=_ABOUT, epilog=_MORE)
    parser.add_argument("--version", action="version", version=f"leasehold {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    families: dict[str, argparse._SubParsersAction[Parser]] = {}
    for verb in VERBS.values():
        family, space, name = verb.name.rpartition(" ")
        if space and family not in families:
            about = FAMILIES[family]
            group = commands.add_parser(family, help=about, description=about[:1].upper() + about[1:] + ".")
            families[family] = group.add_subparsers(metavar="COMMAND", required=True)
        _add(families[family] if space else commands, name, verb)
    return parser


def _add(commands: argparse._SubParsersAction[Parser], name: str, verb: CliVerb) -> None:
    about = verb.help[:1].upper() + verb.help[1:] + "."
    usage = "%(prog)s [options] NAME [NAME ...] -- COMMAND ..." if verb.runs_command else None
    parser = commands.add_parser(
        name, help=verb.help, description=about, epilog=EXAMPLES.get(verb.name, ""), usage=usage
    )
    parser.set_defaults(verb=verb, parser=parser)
    for word in verb.words:
        _add_word(parser, word)
    for option in verb.options:
        _add_option(parser, option)


def _add_word(parser: Parser, word: CliArgument) -> None:
    if word.number == "1":
        parser.add_argument(word.name, help=word.help)
    elif word.number != "--":
        parser.add_argument(word.name, help=word.help, nargs=word.number)


def _add_option(parser: Parser, option: Flag) -> None:
    if option.metavar is None:
        parser.add_argument(option.flag, help=option.help, action="store_true")
    elif option.many:
        parser.add_argument(
            option.flag, help=option.help, metavar=option.metavar, action="append", default=option.absent
        )
    else:
        choices = option.choices or None
        parser.add_argument(
            option.flag, help=option.help, metavar=option.metavar, default=option.default, choices=choices
        )
