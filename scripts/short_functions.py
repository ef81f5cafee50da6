"""Count the functions of at most three lines that the package calls in one place only.

    python scripts/short_functions.py [--list] [SRC]

A function counts if its body, without its docstring, has at most three lines, and its name occurs once besides its
definition, in a call: a private name in its own module, any other in the whole package. Callbacks do not count, nor do
decorated functions and those with two underscores, which Python or a decorator calls, nor the empty methods of
protocols, nor methods that only call what they override: a library calls those.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 3
"""Lines of a short function's body."""
SOURCES = Path(__file__).resolve().parents[1] / "src" / "leasehold"


def short(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the short functions of a module."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.decorator_list:
            continue
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        is_short = body and (body[-1].end_lineno or 0) - body[0].lineno < MOST
        if is_short and not node.name.startswith("__"):
            yield node


def called_once(sources: Path) -> list[str]:
    """Return where each short function is defined whose name the package mentions once more."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(sources.rglob("*.py"))}
    inside = {path: _words(text) for path, text in texts.items()}
    everywhere = Counter[str]()
    for words in inside.values():
        everywhere.update(words)
    return [
        f"{path.relative_to(sources)}:{function.lineno} {function.name}"
        for path, text in texts.items()
        for function in short(ast.parse(text))
        for words in (inside[path] if function.name.startswith("_") else everywhere,)
        if words[function.name] == words[f"{function.name}("] == 2
        and f"super().{function.name}(" not in ast.unparse(function)
    ]


def _words(text: str) -> Counter[str]:
    """Count all words, and once more those before a parenthesis, with it."""
    return Counter(re.findall(r"\w+", text)) + Counter(re.findall(r"\w+\(", text))


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--list"]
    found = called_once(Path(words[0]) if words else SOURCES)
    if "--list" in sys.argv:
        print("".join(f"{each}\n" for each in found), end="")
    print(f"{len(found)} functions of at most {MOST} lines are called once")
