"""From the words of a command line to a verb and its values; imports next to nothing.

``argparse`` costs a fresh process about as much as taking a lease does. So a plain command line is read by hand,
from the same table from which ``help`` builds the argparse parser; whatever is not plain (help, an unknown
option, a missing word) goes there, and gets an explanation.
"""

from __future__ import annotations

from leasehold.noun import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Option(Noun):
    """An option of a verb."""

    flag: str
    help: str
    metavar: str | None = None
    """What its value is called; None: it takes none, it is on or off."""
    default: object = None
    choices: tuple[str, ...] = ()
    many: bool = False
    """Whether it may be given several times."""

    @property
    def name(self) -> str:
        """What its value is found under."""
        return self.flag[2:].replace("-", "_")

    @property
    def absent(self) -> object:
        """Its value when it was not given."""
        return [] if self.many else self.default if self.metavar is not None else False


class Word(Noun):
    """A word without a flag."""

    name: str
    help: str
    number: str = "1"
    """`1`, `?` (may be missing), `+` (one or more), or `--` (all that follows a `--`)."""


class Verb(Noun):
    """One command."""

    name: str
    help: str
    handler: str
    """`module:function` below `leasehold.cli`."""
    words: tuple[Word, ...] = ()
    options: tuple[Option, ...] = ()

    @property
    def runs_command(self) -> bool:
        """Whether what follows a `--` is somebody else's command; otherwise it is words that begin with a dash."""
        return any(word.number == "--" for word in self.words)


class Line(Noun):
    """A command line that was understood."""

    verb: Verb
    values: Mapping[str, object]


def parse(argv: Sequence[str], verbs: Mapping[str, Verb]) -> Line | None:
    """Read a plain command line; None if it is not plain."""
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


def _option(word: str, options: Mapping[str, Option], values: dict[str, object], given: list[str]) -> bool:
    flag, equals, value = word.partition("=")
    option = options.get(flag)
    if option is None:
        return False
    if option.metavar is None:
        values[option.name] = True
        return not equals
    if not equals:
        if not given or _looks_like_option(given[-1]):
            return False
        value = given.pop()
    if option.choices and value not in option.choices:
        return False
    if option.many:
        known = values[option.name]
        values[option.name] = [*(known if isinstance(known, list) else ()), value]
    else:
        values[option.name] = value
    return True


def _looks_like_option(word: str) -> bool:
    """A negative number is a value (`--priority -5`), and so is a dash alone (`--token-file -`)."""
    return word[:1] == "-" and word != "-" and not word[1:2].isdigit()


def with_words(verb: Verb, values: dict[str, object], words: list[str], rest: list[str]) -> Line | None:
    """The command line with these words in their places; None if there are too few or too many."""
    for word in verb.words:
        if word.number == "--":
            if not rest:
                return None
            values[word.name] = rest
        elif word.number == "+":
            if not words:
                return None
            values[word.name], words = words, []
        elif words:
            values[word.name] = words.pop(0)
        elif word.number == "?":
            values[word.name] = None
        else:
            return None
    return None if words else Line(verb, values)
