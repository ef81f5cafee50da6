"""Split a shell command into words and operators. It knows quotes, comments and here-documents, and runs nothing.

Every text is parsed, in one pass without backtracking: an unclosed construct extends to the end, and is reported.
"""

from __future__ import annotations

import re

from leasehold.domain.nouns import Noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Piece: TypeAlias = "ShellWord | str"
    """A word, or an operator as it is written; the end of a line is an operator."""

_BREAKS = frozenset(" \t\n;&|<>()")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_NUMBER = re.compile(r"(?:\d+|\{\w+\})(?=[<>])")
"""The number before a redirection: `2>`."""
_OPERATOR = re.compile(r"&>>|&>|>>|>\||>&|<<<|<<-|<<|<>|<&|[<>]|&&|\|\||\|&|;;&|;;|;&|[;&|()]")
_RUN = re.compile(r"[^ \t\n;&|<>()'\"\\$`*?\[{~]+")
_RUN_IN_QUOTES = re.compile(r'[^"\\$`]+')
_SPELLED_OUT = re.compile(r"\$'((?:[^'\\]++|\\.)*+)'", re.DOTALL)
_BACKTICKS = re.compile(r"`((?:[^`\\]++|\\.)*+)`", re.DOTALL)
_DEEP = 16
"""The deepest nesting of commands in commands."""
STEPS = 20_000
"""The most words, parts of words and operators in one command: 80 ms of work. A here-document counts as one."""


class ShellWord(Noun):
    """One word, without its quotes."""

    text: str
    is_plain: bool = True
    """True without variables, patterns and command substitutions."""
    is_bare: bool = True
    """True if no part was quoted, so that it may be a keyword."""
    inner: tuple[list[Any], ...] = ()
    """The tokens of each command substitution in it, `$(…)`."""


class TooMuch(Exception):
    """The command is too long to parse in time."""


class Budget:
    """The steps left for one command, shared by all of its readers."""

    def __init__(self, steps: int = STEPS) -> None:
        self._left = steps

    def spend(self) -> None:
        """Use one step. Raises `TooMuch` if there is none left."""
        self._left -= 1
        if self._left < 0:
            raise TooMuch


def read(command: str, budget: Budget) -> tuple[list[Piece], bool]:
    """Return the tokens of this command, and whether every construct in it is closed."""
    reader = _Reader(command, budget)
    return reader.tokens(), reader.is_whole


class _Draft:
    """A word that is being parsed."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.is_plain = self.is_bare = True
        self.inner: list[list[Piece]] = []

    def quote(self, text: str) -> None:
        """Add a quoted part."""
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
        self._due: list[tuple[str, bool]] = []  # here-documents that begin with the next line
        self._absent: set[str] = set()

    def tokens(self, *, is_inner: bool = False) -> list[Piece]:
        """Return all tokens, or for an inner command those up to its closing parenthesis."""
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
            self._at = self._find("]]") + 2  # `<` and `>` are comparisons in there

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match.group()

    def _find(self, mark: str) -> int:
        """Return where this comes next; -1 if it does not. A mark that was not found is never searched for again."""
        place = -1 if mark in self._absent else self.text.find(mark, self._at)
        if place < 0:
            self._absent.add(mark)
        return place

    def _give_up(self) -> None:
        """Skip to the end: a construct is never closed."""
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
        """Read the next piece of a word: plain text, a quoted part, or an expansion."""
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
        else:  # a pattern, a brace, a home directory
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
        r"""Read a part in double quotes, in which `\\`, `$` and backticks keep their meaning."""
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
        """Read what `$` begins: a quoted text, a sum, a command, or a variable, whose value is not known."""
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
        """Skip `$'…'`: its escapes are not decoded."""
        self._at -= 1
        draft.is_plain = False
        if not self._take(_SPELLED_OUT):
            self._give_up()

    def _command(self, draft: _Draft) -> None:
        """Parse a command in parentheses, from the opening one on."""
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
