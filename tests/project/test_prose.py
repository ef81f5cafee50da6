"""Sentences that hide who does what are refused, in docstrings, comments, strings, help and docs."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.kit.shell import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = ROOT / "src" / "leasehold"

REFUSED = {
    r"\b[Ww]ho(?:m)?ever\b": "name the caller, the holder, the client, the waiter",
    r"\b(?:some|any|every)?body else's\b|\bsomebody\b": "name the caller, another holder, an admin, a person",
    r"(?:^|[.;:] )Who (?![^.]*\?)": "begin with a noun: the caller, a holder, a client",
    r"(?:^|\. )What (?![^.]*\?)": "begin with a verb or a noun: Return …, Events that …",
    r"(?:^|\. )Likewise\b": "repeat the noun",
    r"\bThe same, ": "repeat the noun",
    r"(?:^|\. )That there (?:is|are)\b": "say which fact",
    r"\b(?:gives?|gave|given|giving) (?:it |them |this |a lease |a lock )?back\b": "release, return",
    r"\blets? go\b": "release, close",
    r"\b(?:hung|hangs?|hanging) up\b": "disconnect",
    r"\b(?:is|are|was|were|be|been) told\b(?! apart)": "report, receive, learn",
    r"\bmend(?:s|ed|ing)?\b": "repair, fix",
    r"\bleft? in peace\b": "say what is skipped",
    r"\b(?:front |back )?doors?\b": "entry point, server, route",
    r"^So many ": "name what is counted: Streams that …, at most …",
    r"^Whether ": "begin with True if …, or with a noun",
    r"\btells? of\b": "report",
    r"\bcomes? to (?:nothing|an end|rest|it)\b": "fail, end",
    r"\bone's own\b|\boneself\b": "name the owner",
    r"\bin case that\b": "in case",
}
"""Each pattern, with what to write instead."""

NAMES_REFUSED = re.compile("whoever|whomever|somebody|giv(?:e|es|en)_back|h[au]ng_up|lets?_go|_mend")
"""Words that hide who does what in the name of a function."""
NO_VERBS = re.compile(
    "(the|an?|all|what|how|which|where|whether|one|each|every|no|none|it|they|that|this|those|these|more|there|if|when|"
    r"of|from|in|for|by|with|not|nothing|so|some|two|only|to|is|at|on|both|same|who)\b",
    re.IGNORECASE,
)
"""Words with which the docstring of a function never begins: it says what the function does, or returns."""
PROPERTIES = re.compile("property|fixture|contextmanager")


class Sentence(NamedTuple):
    """A piece of prose, and where it stands."""

    file: Path
    line: int
    text: str


def prose(file: Path) -> Iterator[Sentence]:
    """Everything that a person may read in this file."""
    text = file.read_text()
    if file.suffix == ".md":
        yield from _paragraphs(file, text)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield Sentence(file, node.lineno, " ".join(node.value.split()))
    yield from _comments(file, text)


def _paragraphs(file: Path, text: str) -> Iterator[Sentence]:
    plain = re.sub(r"```.*?```", lambda code: "\n" * code.group().count("\n"), text, flags=re.DOTALL)
    start, lines = 1, list[str]()
    for number, line in enumerate([*plain.splitlines(), ""], 1):
        if line.startswith("#"):  # "What is stored" is a good title
            continue
        if line.strip() and not line.startswith(("|", "- ", "* ")):
            lines.append(line.strip())
            continue
        if lines:
            yield Sentence(file, start, " ".join(lines))
        start, lines = (number, [line.lstrip("|-* ")]) if line.strip() else (number + 1, [])
    if lines:
        yield Sentence(file, start, " ".join(lines))


def _comments(file: Path, text: str) -> Iterator[Sentence]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield Sentence(file, token.start[0], token.string.lstrip("#! ").removeprefix("noqa"))


def room_of(file: Path) -> str:
    """The room of a module, or the folder of a page."""
    if file.is_relative_to(PACKAGE):
        return file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "/".join(file.relative_to(ROOT).parts[:-1]) or file.name


FILES = [
    *sorted(PACKAGE.rglob("*.py")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")),
    *(ROOT / name / "README.md" for name in ("clients/typescript", "examples", "examples/claude-code")),
]
ROOMS = sorted({room_of(file) for file in FILES})


def refused(sentence: Sentence) -> Iterator[str]:
    """What is wrong with this sentence, if anything."""
    for pattern, instead in REFUSED.items():
        found = re.search(pattern, sentence.text)
        if found is not None:
            place = f"{sentence.file.relative_to(ROOT)}:{sentence.line}"
            around = sentence.text[max(0, found.start() - 30) : found.end() + 50]
            yield f"{place}: {around!r}: {instead}"


@pytest.mark.parametrize("room", ROOMS)
def test_every_sentence_says_who_does_what(room: str) -> None:
    found = [
        fault for file in FILES if room_of(file) == room for sentence in prose(file) for fault in refused(sentence)
    ]
    assert not found, "\n".join(found)


def functions(folder: Path) -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield every function below this folder, with its file."""
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield file, node


def test_a_docstring_begins_with_what_the_function_does() -> None:
    found = []
    for file, function in functions(PACKAGE):
        says = ast.get_docstring(function)
        decorators = " ".join(map(ast.unparse, function.decorator_list))
        if function.name.startswith("test_") or PROPERTIES.search(decorators):
            continue  # a test has a promise there, a property a noun
        if says and NO_VERBS.match(says):
            found.append(f"{file.relative_to(ROOT)}:{function.lineno} {function.name}: {says.splitlines()[0]}")
    assert not found, "\n".join(found)


def test_the_sentences_of_tests_name_their_subjects() -> None:
    """Tests are read less often than the package: only the worst words are refused there."""
    worst = re.compile(r"\b[Ww]ho(?:m)?ever\b|\bhung up on\b|\bgives? back\b|\bsomebody else\b(?!'s\b)|^Likewise\b")
    rare = re.compile(r"ho(?:m)?ever|hung|give|somebody|Likewise")  # a file without these words need not be parsed
    found = [
        f"{file.relative_to(ROOT)}:{sentence.line}: {sentence.text[:100]}"
        for file in sorted((ROOT / "tests").rglob("*.py"))
        if file != Path(__file__) and rare.search(file.read_text(encoding="utf-8"))
        for sentence in prose(file)
        if worst.search(sentence.text)
    ]
    assert not found, "\n".join(found)


def test_the_names_of_functions_say_who_does_what() -> None:
    places = ((PACKAGE, r"\bdef (\w+)"), (ROOT / "tests", r"\bdef (test_\w+)"))
    files = ((file, name) for folder, name in places for file in folder.rglob("*.py"))
    names = {found for file, name in files for found in re.findall(name, file.read_text(encoding="utf-8"))}
    assert len(names) > 1_000
    assert sorted(filter(NAMES_REFUSED.search, names)) == []
