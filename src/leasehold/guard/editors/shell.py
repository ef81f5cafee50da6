"""Guess which files a shell command plainly writes. Writes that it misses are not checked.

It knows redirections, `tee`, `sed -i`, `mv`, `cp`, `rm`, `touch`, `truncate`, `git checkout --`, `git restore`, and
follows a plain `cd`, into several places if that is ambiguous (see ``shell_places``). It runs nothing, expands no
variables and does not follow scripts.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH118

from __future__ import annotations

import os
import re
from itertools import pairwise

from leasehold.domain.nouns import Noun
from leasehold.guard.editors.shell_places import HOME, MOVING, START, Chain, Frame, either, moved
from leasehold.guard.editors.shell_words import Budget, ShellWord, TooMuch, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leasehold.guard.editors.shell_places import Spots
    from leasehold.guard.editors.shell_words import Piece

_WRITING = frozenset((">", ">>", "&>", "&>>", ">|", ">&", "<>"))
_READING = frozenset(("<", "<<", "<<-", "<<<", "<&"))
_DESCRIPTOR = re.compile(r"\d*-?")
_ENDS = {"if": "fi", "while": "done", "until": "done", "for": "done", "select": "done", "case": "esac", "{": "}"}
"""Opening keywords, with the word that closes each."""
_BRANCHES = frozenset(("then", "elif", "else", "do"))
_KEYWORDS = frozenset((*_ENDS, *_ENDS.values(), *_BRANCHES, "function", "!", "time"))
"""Words after which a command begins."""
_CASES = frozenset((";;", ";&", ";;&"))
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
_LONGEST = 256 * 1024
"""In characters: twice the longest argument on Linux. Longer commands are not parsed."""
MOST = 1_000
"""The most paths that are collected; one more means that there are too many."""


def written(command: str) -> tuple[str, ...]:
    """Return the paths that this command plainly writes, as they are spelled, below the target of a `cd`.

    Raises `TooMuch` for a command that is too long to parse: it may write anything.
    """
    if len(command) > _LONGEST:
        raise TooMuch
    budget = Budget()
    guess = _Guess(budget)
    tokens, is_whole = read(command, budget)
    guess.follow(tokens, START)
    if not is_whole:  # a shell runs the lines before a syntax error; or this parser was wrong
        spots = START
        for line in command.splitlines():
            spots = guess.follow(read(line, budget)[0], spots)
    return tuple(guess.paths)


class _Command(Noun):
    """One simple command."""

    words: list[ShellWord]
    targets: list[ShellWord]
    """The targets of its output."""
    before: str
    after: str
    """The operators around it."""


def _commands(tokens: list[Piece]) -> Iterator[_Command]:
    command, arrow = _Command([], [], "\n", ""), ""
    for token in [*tokens, "\n"]:
        if isinstance(token, ShellWord):
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
    """The paths found so far."""

    def __init__(self, budget: Budget) -> None:
        self.paths: dict[str, None] = {}
        self._budget = budget

    @property
    def is_full(self) -> bool:
        """True if no more paths are collected."""
        return len(self.paths) > MOST

    def follow(self, tokens: list[Piece], spots: Spots) -> Spots:
        """Check these commands, the first of which runs in one of these places; return the places at their end."""
        shell = _Shell(self, spots)
        for command in _commands(tokens):
            if self.is_full:
                break
            shell.run(command)
        return shell.end()

    def run(self, words: list[ShellWord], spots: Spots) -> tuple[Spots, bool]:
        """Collect what one command writes; return the places after it, and whether it changed directory."""
        words = _without_prefixes(words)
        if not words:
            return spots, False
        name, rest = words[0].text.rpartition("/")[2], words[1:]
        if name in MOVING:
            return tuple(dict.fromkeys(moved(spot, name, rest) for spot in spots)), True
        if name == "exit":
            return tuple(spot._replace(is_over=True) for spot in spots), False
        if name in _SHELLS:
            self._scripted(rest, spots)
        self.note(_named(name, rest), spots)
        return spots, False

    def _scripted(self, rest: list[ShellWord], spots: Spots) -> None:
        """`sh -c 'rm x'`."""
        for word, script in pairwise(rest):
            if _SCRIPTED.fullmatch(word.text) and script.is_plain:
                self.follow(read(script.text, self._budget)[0], spots)
                return

    def note(self, words: Iterable[ShellWord], spots: Spots) -> None:
        """Collect these paths, except devices, options and words that only a shell can expand."""
        for word in words:
            for spot in spots if word.is_plain and word.text else ():
                path = os.path.join(spot.place, word.text)
                if not path.startswith(("/dev/", "-", HOME)) and not self.is_full:
                    self.paths[path] = None


class _Shell:
    """One shell: its possible places, and its open groups."""

    def __init__(self, guess: _Guess, spots: Spots) -> None:
        self._guess = guess
        self._chain = Chain(spots)
        self._frames: list[Frame] = []
        self._parentheses = 0
        self._made: Spots | None = None  # the places after the group that was just closed
        self._is_function = False  # the next group is a function's body

    def run(self, command: _Command) -> None:
        """Check one command, and follow it."""
        after = command.after
        is_empty = not command.words and not command.targets and self._made is None
        if is_empty and after == "\n" and self._chain.is_open:
            return  # the line goes on
        rest = self._keywords(command.words)
        here = self._chain.here
        for word in (*command.words, *command.targets):
            for inner in word.inner:
                self._guess.follow(inner, here)
        self._guess.note(command.targets, here)
        goes, is_move = self._guess.run(rest, here) if rest else (self._made or here, False)
        self._made = None
        self._is_function = (self._is_function and not rest) or (after == "(" and bool(rest))
        if self._frame and self._frame.is_pattern:
            self._frame.is_pattern = after != ")"
        elif after == "(":
            self._open("(")
        else:
            self._go_on(goes, is_move=is_move, after=after)

    def _go_on(self, goes: Spots, *, is_move: bool, after: str) -> None:
        self._chain.add(goes, is_move=is_move, after=after)
        if self._chain.is_open:
            return
        spots = self._chain.end(after)
        if after == ")" and self._parentheses:
            while self._close(spots) != "(":
                spots = self._made or spots  # of constructs that were left open inside
            return
        if after in _CASES and self._frame and self._frame.kind == "esac":
            self._frame.is_pattern = True
            spots = self._frame.begin(after, spots)
        self._chain = Chain(spots)

    def end(self) -> Spots:
        """Return the places after all commands."""
        spots = self._chain.end("")
        for frame in self._frames:  # never closed
            spots = either(spots, frame.outside.here)
        return spots

    # ------------------------------------------------------------------------------------------- groups

    @property
    def _frame(self) -> Frame | None:
        return self._frames[-1] if self._frames else None

    def _keywords(self, words: list[ShellWord]) -> list[ShellWord]:
        """Open and close constructs by these keywords; return the words of the command after them."""
        at = 0
        while at < len(words):
            text = words[at].text
            if self._frame and self._frame.is_pattern and text != "esac":
                return []
            if not words[at].is_bare or text not in _KEYWORDS:
                return words[at:]
            if text == "function":
                self._is_function = True
                at += 1  # its name
            elif text in _ENDS:
                self._open(_ENDS[text])
            else:
                self._branch_or_close(text)
            if text in ("for", "select"):
                return []
            at += 1
        return []

    def _branch_or_close(self, text: str) -> None:
        if self._frame is None:
            return
        if text == self._frame.kind:
            self._close(self._chain.here)
        elif text in _BRANCHES and self._frame.kind in ("fi", "done"):
            self._chain = Chain(self._frame.begin(text, self._chain.here))

    def _open(self, kind: str) -> None:
        is_group = kind == "("
        self._frames.append(Frame(kind, self._chain, may_not_run=self._is_function and not is_group))
        self._is_function = self._is_function and is_group
        self._parentheses += is_group
        self._chain = Chain(self._chain.here)
        self._made = None

    def _close(self, spots: Spots) -> str:
        frame = self._frames.pop()
        self._parentheses -= frame.kind == "("
        self._made = frame.end(spots)
        self._chain = frame.outside
        return frame.kind


def _without_prefixes(words: list[ShellWord]) -> list[ShellWord]:
    """Strip assignments and commands that run another one."""
    skipped = 0
    is_prefixed = False
    for word in words:
        is_prefix = word.text in _PREFIXES
        is_option = is_prefixed and word.text.startswith("-")
        if not (is_prefix or is_option or _ASSIGNMENT.match(word.text)):
            break
        if word.text in ("-v", "-V"):
            return []  # `command -v rm` only asks
        is_prefixed = is_prefixed or is_prefix
        skipped += 1
    return words[skipped:]


def _named(name: str, rest: list[ShellWord]) -> list[ShellWord]:
    """Return the arguments that a command of this name writes."""
    plain = [word for word in rest if not word.text.startswith("-")]
    if name == "git":
        return _git(rest)
    if name == "sed":
        return _sed(rest)
    if name in _ALL:
        return plain
    return plain[-1:] if name in _LAST and len(plain) > 1 else []


def _sed(rest: list[ShellWord]) -> list[ShellWord]:
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


def _git(rest: list[ShellWord]) -> list[ShellWord]:
    if len(rest) > 1 and rest[0].text == "-C":
        place, rest = rest[1], rest[2:]
        return [
            ShellWord(os.path.join(place.text, word.text), place.is_plain and word.is_plain)
            for word in _git_files(rest)
        ]
    return _git_files(rest)


def _git_files(rest: list[ShellWord]) -> list[ShellWord]:
    texts = [word.text for word in rest]
    if not rest or texts[0] not in ("checkout", "restore", "rm", "mv"):
        return []
    if texts[0] == "checkout":
        return rest[texts.index("--") + 1 :] if "--" in texts else []
    return [word for word in rest[1:] if not word.text.startswith("-")]
