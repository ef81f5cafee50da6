"""The man page of `leasehold`, from the tables of the command line.

python scripts/manual.py > leasehold.1
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from leasehold import __version__
from leasehold.cli.entry.table import VERBS
from leasehold.cli.output import MEANINGS

ABOUT = """\
Leasehold is a lock service for agents. Before you touch something shared, acquire a lease on its name: it has one
holder at a time and expires by itself, so a crash blocks no one for long. Inside a git repository the locks live in its
git directory; LEASEHOLD_URL or --url name another store or a server."""
ENVIRONMENT = {
    "LEASEHOLD_URL": "where the locks live",
    "LEASEHOLD_HOLDER": "your name, for others to see",
    "LEASEHOLD_SPACE": "the space of the names",
    "LEASEHOLD_TTL": "how long a lease lives unless a command says so",
    "LEASEHOLD_SESSION": "ID.SECRET of the session that a command acts in",
    "LEASEHOLD_API_KEY": "the key of a server",
}


def page(version: str = __version__) -> str:
    """Return the page in the macros of man(7)."""
    lines = [f'.TH LEASEHOLD 1 "" "leasehold {version}" "User Commands"', ".SH NAME"]
    lines += [
        r"leasehold \- the lock service for agents",
        ".SH SYNOPSIS",
        r".B leasehold",
        r"\fIcommand\fR [\fIoptions\fR]",
    ]
    lines += [".SH DESCRIPTION", _escaped(ABOUT), ".SH COMMANDS"]
    for name, verb in VERBS.items():
        words = " ".join(word.name for word in verb.words)
        lines += [f".SS {_escaped(f'leasehold {name} {words}'.strip())}", _sentence(verb.help)]
        for option in verb.options:
            value = rf" \fI{_escaped(option.metavar)}\fR" if option.metavar else ""
            lines += [".TP", rf"\fB{_escaped(option.flag)}\fR{value}", _sentence(option.help)]
    lines += [".SH EXIT STATUS"]
    for code, meaning in MEANINGS.items():
        lines += [".TP", rf"\fB{code}\fR", _sentence(meaning)]
    lines += [".SH ENVIRONMENT"]
    for name, meaning in ENVIRONMENT.items():
        lines += [".TP", rf"\fB{name}\fR", _sentence(meaning)]
    return "\n".join((*lines, ""))


def _sentence(text: str) -> str:
    return _escaped(text[:1].upper() + text[1:]) + ("" if text.endswith(".") else ".")


def _escaped(text: str) -> str:
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in plain.splitlines())


if __name__ == "__main__":
    print(page(), end="")
