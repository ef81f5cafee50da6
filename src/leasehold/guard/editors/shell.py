"""Which files a shell command plainly writes: a guess. What it misses is caught by nobody; what it finds is checked.

It knows redirections, `tee`, `sed -i`, `mv`, `cp`, `rm`, `touch`, `truncate`, `git checkout --`, `git restore`. It does
not run anything, expand variables or follow what a script does.
"""

from __future__ import annotations

import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_ENDS = frozenset(("|", "||", "&&", ";", "&", "|&", "(", ")", "\n"))
_REDIRECTIONS = frozenset((">", ">>", "&>", "&>>", ">|"))
_ALL = ("rm", "touch", "truncate", "tee", "mv", "shred", "unlink")
"""Commands that change every file they name."""
_LAST = ("cp", "install", "ln", "rsync")
"""Commands that write the last file they name."""


def written(command: str) -> tuple[str, ...]:
    """The paths that this command plainly writes, as they are spelled there."""
    try:
        lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
    except ValueError:  # an open quote: the shell will refuse it, too
        return ()
    found: list[str] = []
    for part in _parts(words):
        found += _redirected(part)
        found += _named(list(_without_redirections(part)))
    return tuple(dict.fromkeys(path for path in found if _is_plain(path)))


def _parts(words: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in words:
        if word in _ENDS:
            yield part
            part = []
        else:
            part.append(word)
    yield part


def _redirected(part: list[str]) -> list[str]:
    return [part[place + 1] for place, word in enumerate(part[:-1]) if word in _REDIRECTIONS]


def _without_redirections(part: list[str]) -> Iterator[str]:
    skip = False
    for word in part:
        if skip or word in _REDIRECTIONS or word in ("<", "<<", "<<<"):
            skip = not skip
            continue
        yield word


def _named(words: list[str]) -> list[str]:
    """What the command itself writes, by its name."""
    while words and ("=" in words[0] or words[0] in ("sudo", "env", "command", "nohup", "time", "xargs")):
        words = words[1:]
    if not words:
        return []
    name, rest = words[0].rpartition("/")[2], words[1:]
    plain = [word for word in rest if not word.startswith("-")]
    if name == "git":
        return _git(rest)
    if name == "sed":
        return _sed(rest)
    if name in _ALL:
        return plain
    return plain[-1:] if name in _LAST and len(plain) > 1 else []


def _sed(rest: list[str]) -> list[str]:
    if not any(word.startswith(("-i", "--in-place")) or word in ("-ni", "-Ei", "-ri") for word in rest):
        return []
    files = [
        word
        for before, word in zip(["", *rest], rest, strict=False)
        if not word.startswith("-") and before not in ("-e", "-f", "--expression", "--file")
    ]
    has_script = any(word.startswith(("-e", "-f", "--expression", "--file")) for word in rest)
    return files if has_script else files[1:]


def _git(rest: list[str]) -> list[str]:
    if not rest or rest[0] not in ("checkout", "restore", "rm", "mv"):
        return []
    if rest[0] == "checkout":
        return rest[rest.index("--") + 1 :] if "--" in rest else []
    return [word for word in rest[1:] if not word.startswith("-")]


def _is_plain(path: str) -> bool:
    """Neither a device, a descriptor nor something that only the shell can expand."""
    return bool(path) and not path.startswith(("/dev/", "&", "-", "~")) and not any(mark in path for mark in "$`*?{[")
