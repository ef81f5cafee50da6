"""From the words of a command line to a verb and its values; imports next to nothing.

``argparse`` costs a fresh process about as much as taking a lease does. So a plain command line is read by hand,
from the same table from which ``help`` builds the argparse parser; whatever is not plain (help, an unknown
option, a missing word) goes there, and gets an explanation.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Plain classes, not nouns: there are many of these in every command, and a noun's constructor has to be compiled.


class Option:
    """An option of a verb."""

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
        """What its value is called; None: it takes none, it is on or off."""
        self.default = default
        self.choices = choices
        self.many = many
        """Whether it may be given several times."""

    @property
    def name(self) -> str:
        """What its value is found under."""
        return self.flag[2:].replace("-", "_")

    @property
    def absent(self) -> object:
        """Its value when it was not given."""
        return [] if self.many else self.default if self.metavar is not None else False


class Word:
    """A word without a flag."""

    __slots__ = ("help", "name", "number")

    def __init__(self, name: str, about: str, number: str = "1") -> None:
        self.name = name
        self.help = about
        self.number = number
        """`1`, `?` (may be missing), `+` (one or more), `*` (any number), or `--` (all that follows a `--`)."""


class Verb:
    """One command."""

    __slots__ = ("handler", "help", "name", "options", "words")

    def __init__(
        self, name: str, about: str, handler: str, words: tuple[Word, ...] = (), options: tuple[Option, ...] = ()
    ) -> None:
        self.name = name
        self.help = about
        self.handler = handler
        """`module:function` below `leasehold.cli`."""
        self.words = words
        self.options = options

    @property
    def runs_command(self) -> bool:
        """Whether what follows a `--` is somebody else's command; otherwise it is words that begin with a dash."""
        return any(word.number == "--" for word in self.words)


class Line:
    """A command line that was understood."""

    __slots__ = ("values", "verb")

    def __init__(self, verb: Verb, values: Mapping[str, object]) -> None:
        self.verb = verb
        self.values = values


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
    return None if words else Line(verb, values)
