"""Which files a shell command plainly writes: a guess. What it misses is caught by nobody; what it finds is checked.

It knows redirections, `tee`, `sed -i`, `mv`, `cp`, `rm`, `touch`, `truncate`, `git checkout --`, `git restore`, and
follows a plain `cd`. It does not run anything, expand variables or follow what a script does.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH118

from __future__ import annotations

import os
import re
from itertools import pairwise

from leasehold.guard.editors.shell_words import Word, read
from leasehold.noun import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leasehold.guard.editors.shell_words import Piece

_WRITING = frozenset((">", ">>", "&>", "&>>", ">|", ">&", "<>"))
_READING = frozenset(("<", "<<", "<<-", "<<<", "<&"))
_DESCRIPTOR = re.compile(r"\d*-?")
_PIPES = frozenset(("|", "|&"))
_KEYWORDS = frozenset(("if", "then", "elif", "else", "fi", "while", "until", "do", "done", "!", "{", "}", "time"))
"""Words behind which a command begins."""
_PREFIXES = frozenset(("sudo", "env", "command", "builtin", "exec", "nohup", "xargs"))
"""Commands that run another one."""
_SHELLS = frozenset(("sh", "bash", "dash", "zsh"))
_ASSIGNMENT = re.compile(r"\w+\+?=")
_SCRIPTED = re.compile(r"-[a-z]*c")
_IN_PLACE = re.compile(r"-[nErsuz]*i|--in-place")
_ALL = ("rm", "touch", "truncate", "tee", "mv", "shred", "unlink")
"""Commands that change every file they name."""
_LAST = ("cp", "install", "ln", "rsync")
"""Commands that write the last file they name."""
_HOME = "~"
_MOST = 256 * 1024
"""So many characters are looked at: twice of what Linux hands to a shell in one piece."""


def written(command: str) -> tuple[str, ...]:
    """The paths that this command plainly writes, as they are spelled there, and below where it has gone by `cd`."""
    command = command[:_MOST]
    guess = _Guess()
    tokens, is_whole = read(command)
    guess.follow(tokens, "")
    if not is_whole:  # a shell runs the lines before the one that it cannot read; or we have misread it
        place = ""
        for line in command.splitlines():
            place = guess.follow(read(line)[0], place)
    return tuple(dict.fromkeys(guess.paths))


class _Command(Noun):
    """One simple command."""

    words: list[Word]
    targets: list[Word]
    """Where its output goes."""
    before: str
    after: str
    """The operators around it."""


def _commands(tokens: list[Piece]) -> Iterator[_Command]:
    command, arrow = _Command([], [], "\n", ""), ""
    for token in [*tokens, "\n"]:
        if isinstance(token, Word):
            if not arrow:
                command.words.append(token)
            elif arrow in _WRITING and not (arrow == ">&" and _DESCRIPTOR.fullmatch(token.text)):
                command.targets.append(token)
            arrow = ""
        elif token in _WRITING or token in _READING:
            arrow = token
        else:
            yield command._replace(after=token)
            command, arrow = _Command([], [], token, ""), ""


class _Guess:
    """What was found so far, command by command."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._left = ""

    def follow(self, tokens: list[Piece], place: str) -> str:
        """Look at these commands, of which the first is run in this place; gives where they end."""
        outside: list[str] = []  # of each open parenthesis
        beside = ""  # where to go on after what is only run if a `cd` fails
        for command in _commands(tokens):
            goes = self._run(command, place)
            if command.before in _PIPES or command.after in _PIPES or command.after == "&":
                goes = place  # that was a shell of its own
            if beside:
                goes, beside = beside, ""
            elif command.after == "||" and goes != place:
                goes, beside = place, goes
            if command.after == "(":
                outside.append(goes)
            elif command.after == ")" and outside:
                goes = outside.pop()
            place = goes
        return place

    def _run(self, command: _Command, place: str) -> str:
        """What this one writes; gives where the next one is run."""
        for word in (*command.words, *command.targets):
            for inner in word.inner:
                self.follow(inner, place)
        self._note(command.targets, place)
        words = _without_prefixes(command.words)
        if not words:
            return place
        name, rest = words[0].text.rpartition("/")[2], words[1:]
        if name in ("cd", "pushd", "popd"):
            self._left, left = place, self._left
            return left if name == "popd" else _entered(rest, place, left)
        if name in _SHELLS:
            self._scripted(rest, place)
        self._note(_named(name, rest), place)
        return place

    def _scripted(self, rest: list[Word], place: str) -> None:
        """`sh -c 'rm x'`."""
        for word, script in pairwise(rest):
            if _SCRIPTED.fullmatch(word.text) and script.is_plain:
                self.follow(read(script.text)[0], place)
                return

    def _note(self, words: Iterable[Word], place: str) -> None:
        """Neither a device, an option nor what only a shell can expand is a plain path."""
        paths = (os.path.join(place, word.text) for word in words if word.is_plain and word.text)
        self.paths += [path for path in paths if not path.startswith(("/dev/", "-", _HOME))]


def _entered(rest: list[Word], place: str, left: str) -> str:
    """Where a `cd` leads; one that cannot be told is taken for none, so that what comes next is looked at."""
    target = next((word for word in rest if word.text == "-" or not word.text.startswith("-")), None)
    if target is None or (target.is_bare and target.text.startswith("~")):
        return _HOME
    if target.text == "-":
        return left
    return os.path.join(place, target.text) if target.is_plain else place


def _without_prefixes(words: list[Word]) -> list[Word]:
    """The command proper: without keywords, assignments and commands that run it."""
    skipped = 0
    is_prefixed = False
    for word in words:
        is_keyword = word.is_bare and word.text in _KEYWORDS
        is_prefix = word.text in _PREFIXES
        is_option = is_prefixed and word.text.startswith("-")
        if not (is_keyword or is_prefix or is_option or _ASSIGNMENT.match(word.text)):
            break
        if word.text in ("-v", "-V"):
            return []  # `command -v rm` only asks
        is_prefixed = is_prefixed or is_prefix
        skipped += 1
    return words[skipped:]


def _named(name: str, rest: list[Word]) -> list[Word]:
    """What a command of this name writes."""
    plain = [word for word in rest if not word.text.startswith("-")]
    if name == "git":
        return _git(rest)
    if name == "sed":
        return _sed(rest)
    if name in _ALL:
        return plain
    return plain[-1:] if name in _LAST and len(plain) > 1 else []


def _sed(rest: list[Word]) -> list[Word]:
    if not any(_IN_PLACE.match(word.text) for word in rest):
        return []
    texts = [word.text for word in rest]
    files = [
        word
        for before, word in zip(["", *texts], rest, strict=False)
        if not word.text.startswith("-") and before not in ("-e", "-f", "--expression", "--file")
    ]
    has_script = any(text.startswith(("-e", "-f", "--expression", "--file")) for text in texts)
    return files if has_script else files[1:]


def _git(rest: list[Word]) -> list[Word]:
    if len(rest) > 1 and rest[0].text == "-C":
        place, rest = rest[1], rest[2:]
        return [_below(place, word) for word in _git_files(rest)]
    return _git_files(rest)


def _below(place: Word, word: Word) -> Word:
    return Word(os.path.join(place.text, word.text), place.is_plain and word.is_plain)


def _git_files(rest: list[Word]) -> list[Word]:
    texts = [word.text for word in rest]
    if not rest or texts[0] not in ("checkout", "restore", "rm", "mv"):
        return []
    if texts[0] == "checkout":
        return rest[texts.index("--") + 1 :] if "--" in texts else []
    return [word for word in rest[1:] if not word.text.startswith("-")]
