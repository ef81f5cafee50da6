"""Does a shell command only read? Then no picture of the working trees is taken. In doubt it may write."""

from __future__ import annotations

import re

from leasehold.guard.editors.shell_words import Budget, ShellWord, TooMuch, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.guard.editors.shell_words import Piece

_READERS = frozenset(
    (
        *("[", "basename", "cat", "cd", "cmp", "column", "comm", "cut", "date", "df", "diff", "dirname", "du", "echo"),
        *("egrep", "false", "fgrep", "fold", "free", "grep", "groups", "head", "hexdump", "hostname", "id", "jq", "ls"),
        *("md5sum", "nl", "nproc", "od", "paste", "pgrep", "popd", "printenv", "printf", "ps", "pushd", "pwd"),
        *("readlink", "realpath", "sha1sum", "sha256sum", "sleep", "stat", "strings", "tac", "tail", "test", "tr"),
        *("true", "type", "uname", "uptime", "wait", "wc", "which", "whoami"),
    )
)
"""Commands that write no file, whatever their arguments are."""
_UNLESS = {
    "file": ("-C", "--compile"),
    "find": ("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf", "-fls"),
    "rg": ("--pre",),
    "sort": ("-o", "--output"),
    "tree": ("-o",),
}
"""Commands that read, unless an argument begins so."""
_GIT_READERS = frozenset(
    (
        *("blame", "cat-file", "describe", "diff", "grep", "log", "ls-files", "ls-tree", "merge-base", "name-rev"),
        *("rev-list", "rev-parse", "shortlog", "show", "show-ref", "status", "whatchanged"),
    )
)
_SED_OPTIONS = ("-n", "-E", "-r", "-nE", "-nr", "--quiet")
_SED_SCRIPT = re.compile(r"[0-9,$ ]*[pdq]|s(\W)(?:(?!\1).)*\1(?:(?!\1).)*\1[gIp0-9]*")
"""Scripts of sed that only print and replace: others can write files and run commands."""
_INTO_NOTHING = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")
_WRITING = (">", ">>", "&>", "&>>", ">|", "<>")
_DUPLICATING = (">&",)
_OPERATORS = ("|", "|&", "&&", "||", ";", "&", "\n")
_LASTING = re.compile(r"(?<![&>|<])&(?![&>])|\b(?:nohup|setsid|disown|daemonize|tmux|screen|systemd-run|batch|at)\b")
"""Words and operators of commands that go on in the background; some that do not are matched, too."""


def may_last(command: str) -> bool:
    """Return True if this command may leave something running when it ends."""
    return _LASTING.search(command) is not None


def only_reads(command: str) -> bool:
    """Return True if nothing in this command can write a file."""
    try:
        tokens, is_whole = read(command, Budget())
    except TooMuch:
        return False
    return is_whole and _all_read(tokens)


def _all_read(tokens: list[Piece]) -> bool:
    """Return True if every command of this line only reads, redirections included. In doubt, return False."""
    words: list[ShellWord] = []
    before = ""
    for token in [*tokens, "\n"]:
        if isinstance(token, ShellWord):
            if not all(_all_read(inner) for inner in token.inner):
                return False
            if before in _WRITING:
                if token.text not in _INTO_NOTHING:
                    return False
            elif before in _DUPLICATING:
                if not token.text.rstrip("-").isdigit() and token.text != "-":
                    return False
            elif not before.startswith("<"):
                words.append(token)
            before = ""
        elif token in _OPERATORS:
            if not _reads(words):
                return False
            words, before = [], ""
        elif token in _WRITING or token in _DUPLICATING or token.startswith("<"):
            before = token
        else:
            return False  # a group or a keyword: not worth the reading
    return True


def _reads(words: list[ShellWord]) -> bool:
    if not words:
        return True
    if not words[0].is_plain:
        return False
    folder, _, name = words[0].text.rpartition("/")
    if folder not in ("", "/bin", "/usr/bin"):
        return False  # a program of this name, which may do anything
    rest = [word.text for word in words[1:]]
    if name == "git":
        return _git_reads(rest)
    if name in _UNLESS:
        return not any(_is_option(word, _UNLESS[name]) for word in rest)
    if name == "uniq":
        return len(rest) - sum(word.startswith("-") for word in rest) <= 1  # a second file is written
    if name == "sed":
        scripts = [word for word in rest if word not in _SED_OPTIONS]
        is_plain = not any(word.startswith("-") for word in scripts)  # `-i` and `-e` may come last
        return bool(scripts) and is_plain and _SED_SCRIPT.fullmatch(scripts[0]) is not None
    return name in _READERS


def _is_option(word: str, options: tuple[str, ...]) -> bool:
    """Return True if this word may be one of the options: abbreviated, with its value, or among other letters."""
    if word.startswith("--"):
        return any(each.startswith(word.partition("=")[0]) for each in options)
    letters = [each[1] for each in options if len(each) == 2]
    return word.startswith("-") and (word.startswith(options) or any(letter in word for letter in letters))


def _git_reads(rest: list[str]) -> bool:
    while rest and rest[0] in ("-C", "--no-pager", "-P"):
        rest = rest[2 if rest[0] == "-C" else 1 :]
    return (
        bool(rest)
        and rest[0] in _GIT_READERS
        and not any(word.startswith(("--output", "-O", "--open")) for word in rest)
    )
