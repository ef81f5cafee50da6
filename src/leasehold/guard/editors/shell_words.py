"""From the text of a shell command to its words and operators. It knows quotes, comments, here-documents; runs nothing.

Every text is read, in one pass and with no way back: what is never closed reaches to the end, and is told.
"""

from __future__ import annotations

import re

from leasehold.domain.nouns import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Piece: TypeAlias = "ShellWord | str"
    """A word, or an operator as it is written; the end of a line is one."""

_BREAKS = frozenset(" \t\n;&|<>()")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_NUMBER = re.compile(r"(?:\d+|\{\w+\})(?=[<>])")
"""Of what is redirected: `2>`."""
_OPERATOR = re.compile(r"&>>|&>|>>|>\||>&|<<<|<<-|<<|<>|<&|[<>]|&&|\|\||\|&|;;&|;;|;&|[;&|()]")
_RUN = re.compile(r"[^ \t\n;&|<>()'\"\\$`*?\[{~]+")
_RUN_IN_QUOTES = re.compile(r'[^"\\$`]+')
_SPELLED_OUT = re.compile(r"\$'((?:[^'\\]++|\\.)*+)'", re.DOTALL)
_BACKTICKS = re.compile(r"`((?:[^`\\]++|\\.)*+)`", re.DOTALL)
_DEEP = 16
"""Commands in commands in commands are read so far down."""
STEPS = 20_000
"""So many words, their parts and operators of one command are read: 80 ms of work. A here-document counts as one."""


class ShellWord(Noun):
    """One word, without its quotes."""

    text: str
    is_plain: bool = True
    """The shell takes it as it stands: no variable, no pattern, nothing that another command prints."""
    is_bare: bool = True
    """Nothing of it was quoted: it may be a keyword."""
    inner: tuple[list[Any], ...] = ()
    """The commands in it, `$(…)`, each as its tokens."""


class TooMuch(Exception):
    """There is more to read than anybody should wait for."""


class Budget:
    """How much of one command may still be read, by however many readers."""

    def __init__(self, steps: int = STEPS) -> None:
        self._left = steps

    def spend(self) -> None:
        """Raises `TooMuch` once there is nothing left."""
        self._left -= 1
        if self._left < 0:
            raise TooMuch


def read(command: str, budget: Budget) -> tuple[list[Piece], bool]:
    """The tokens of this command, and whether everything that it opens is closed, too."""
    reader = _Reader(command, budget)
    return reader.tokens(), reader.is_whole


class _Draft:
    """A word that is being read."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.is_plain = self.is_bare = True
        self.inner: list[list[Piece]] = []

    def quote(self, text: str) -> None:
        """A part that the shell leaves alone."""
        self.text.append(text)
        self.is_bare = False

    def word(self) -> ShellWord:
        return ShellWord("".join(self.text), self.is_plain, self.is_bare, tuple(self.inner))


class _Reader:
    def __init__(self, text: str, budget: Budget, depth: int = 0) -> None:
        self.text = text
        self._budget = budget
        self.is_whole = True
        self._at = 0
        self._depth = depth
        self._due: list[tuple[str, bool]] = []  # here-documents whose text comes with the next line
        self._absent: set[str] = set()

    def tokens(self, *, is_inner: bool = False) -> list[Piece]:
        """All of them, or those up to the parenthesis that closes what was opened before."""
        found: list[Piece] = []
        opened = 0
        while self._at < len(self.text):
            self._budget.spend()
            if self._take(_BLANKS) or self._take(_COMMENT) or self._take(_NUMBER):
                continue
            if self._is_word():
                self._add(found, self._word())
            elif operator := self._take(_OPERATOR):
                if is_inner and operator == ")" and not opened:
                    return found
                opened += (operator == "(") - (operator == ")")
                found.append(operator)
            else:
                self._at += 1
                found.append("\n")
                self._skip_documents()
        self.is_whole = self.is_whole and not is_inner
        return found

    def _is_word(self) -> bool:
        is_file = self.text.startswith(("<(", ">("), self._at) and self._depth < _DEEP
        return self.text[self._at] not in _BREAKS or is_file or self._is_sum()

    def _is_sum(self) -> bool:
        return self.text.startswith("((", self._at) and self._find("))") >= 0

    def _add(self, found: list[Piece], word: ShellWord) -> None:
        if found and found[-1] in ("<<", "<<-"):
            self._due.append((word.text, found[-1] == "<<-"))
        found.append(word)
        if word.text == "[[" and word.is_bare and self._find("]]") >= 0:
            self._at = self._find("]]") + 2  # what looks like a redirection in there compares

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match.group()

    def _find(self, mark: str) -> int:
        """Where this comes next; what was not found once is not looked for again."""
        place = -1 if mark in self._absent else self.text.find(mark, self._at)
        if place < 0:
            self._absent.add(mark)
        return place

    def _give_up(self) -> None:
        """What was opened is not closed."""
        self.is_whole = False
        self._at = len(self.text)

    def _skip_documents(self) -> None:
        for end, is_indented in self._due:
            while self._at < len(self.text):
                line = self.text[self._at : self._end_of_line()]
                self._at = self._end_of_line() + 1
                if (line.lstrip("\t") if is_indented else line) == end:
                    break
        self._due = []

    def _end_of_line(self) -> int:
        place = self._find("\n")
        return place if place >= 0 else len(self.text)

    # ------------------------------------------------------------------------------------------- one word

    def _word(self) -> ShellWord:
        draft = _Draft()
        if self._is_sum():
            self._at = self._find("))") + 2
            draft.is_plain = False
        elif self.text[self._at] in "<>":  # <(…) stands for a file
            self._at += 1
            self._command(draft)
        while self._at < len(self.text) and self.text[self._at] not in _BREAKS:
            self._part(draft)
        return draft.word()

    def _part(self, draft: _Draft) -> None:
        self._budget.spend()
        one = self.text[self._at]
        if run := self._take(_RUN):
            draft.text.append(run)
        elif one == "\\":
            draft.quote(self.text[self._at + 1 : self._at + 2].replace("\n", ""))
            self._at += 2
        elif one == "'":
            self._single(draft)
        elif one == '"':
            self._double(draft)
        elif one == "$":
            self._dollar(draft)
        elif one == "`":
            self._backticks(draft)
        else:  # a pattern, a brace, somebody's home
            draft.is_plain = draft.is_plain and one == "~" and bool(draft.text)
            draft.text.append(one)
            self._at += 1

    def _single(self, draft: _Draft) -> None:
        self._at += 1
        end = self._find("'")
        draft.quote(self.text[self._at : end] if end >= 0 else "")
        if end < 0:
            self._give_up()
        else:
            self._at = end + 1

    def _double(self, draft: _Draft) -> None:
        self._at += 1
        draft.quote("")
        while self._at < len(self.text):
            self._budget.spend()
            one = self.text[self._at]
            if run := self._take(_RUN_IN_QUOTES):
                draft.text.append(run)
            elif one == "\\":
                after = self.text[self._at + 1 : self._at + 2]
                draft.text.append(after.replace("\n", "") if after in '"\\$`\n' else one + after)
                self._at += 2
            elif one == "$":
                self._dollar(draft, is_quoted=True)
            elif one == "`":
                self._backticks(draft)
            else:
                self._at += 1
                return
        self._give_up()

    def _dollar(self, draft: _Draft, *, is_quoted: bool = False) -> None:
        self._at += 1
        after = self.text[self._at : self._at + 1]
        if after == "'" and not is_quoted:
            self._spelled_out(draft)
        elif after == '"' and not is_quoted:
            self._double(draft)
        elif self._is_sum():
            self._at = self._find("))") + 2
            draft.is_plain = False
        elif after == "(" and self._depth < _DEEP:
            self._command(draft)
        elif after == "{" and self._find("}") >= 0:
            self._at = self._find("}") + 1
            draft.is_plain = False
        else:
            draft.text.append("$")
            draft.is_plain = draft.is_plain and not (after.isalnum() or after in tuple("_@*#?$!-"))

    def _spelled_out(self, draft: _Draft) -> None:
        """`$'…'`: what its escapes stand for is left alone."""
        self._at -= 1
        draft.is_plain = False
        if not self._take(_SPELLED_OUT):
            self._give_up()

    def _command(self, draft: _Draft) -> None:
        """What stands in parentheses; we are at the first of them."""
        self._at += 1
        draft.is_plain = False
        self._depth += 1
        draft.inner.append(self.tokens(is_inner=True))
        self._depth -= 1

    def _backticks(self, draft: _Draft) -> None:
        draft.is_plain = False
        text = self._take(_BACKTICKS)
        if not text:
            self._give_up()
        elif self._depth < _DEEP:
            inner = _Reader(re.sub(r"\\([`\\$])", r"\1", text[1:-1]), self._budget, self._depth + 1)
            draft.inner.append(inner.tokens())
            self.is_whole = self.is_whole and inner.is_whole
