"""The checks behind `leasehold doctor`: the store, the settings, the caller's identity, and whether all of it works.

Nothing here acquires a lease, creates a database or prints. Each problem comes with advice.
"""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

from leasehold.config import identity, urls
from leasehold.config import paths as places
from leasehold.config import settings as config
from leasehold.doctor.findings import Finding
from leasehold.domain.names import shown
from leasehold.errors import LeaseholdError
from leasehold.locks import connect as opening
from leasehold.requests import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from leasehold.config.settings import Choice

__all__ = ["Finding", "examine"]


def examine(
    choice: Choice,
    *,
    accept_restore: bool = False,
    env: Mapping[str, str] | None = None,
    is_read_by_person: bool = True,
) -> list[Finding]:
    """Run all checks for this choice. A failure is a finding, not an exception."""
    env = os.environ if env is None else env
    findings = [*_about_choice(choice), *_about_identity(choice, env), *_about_place(choice, accept_restore)]
    found = [*findings, *_about_tokens(Path(places.token_directory(env))), _versions()]
    if is_read_by_person and not identity.find(choice, env=env).is_agent:
        return found
    # An agent would run the command that it reads, and not every agent is recognised.
    peoples = tuple(f"leasehold {verb}" for verb in config.PEOPLES_VERBS)
    return [
        each._replace(command="", advice="a person has to look at this") if each.command.startswith(peoples) else each
        for each in found
    ]


def _about_place(choice: Choice, accept_restore: bool) -> Iterator[Finding]:
    """Check the store at its URL; if its place was refused, report why, with the way out that the refusal names."""
    if choice.trouble:
        head, command, *_ = choice.trouble.split("\n")
        told, _, way = head.rpartition(". ")
        advice = f"{way[0].lower()}{way[1:].rstrip(':')}"
        if not advice.startswith("set "):
            advice += ", or set LEASEHOLD_URL, or url in leasehold.toml, to the shared store"
        return iter([Finding("reachable", False, told, advice, command)])
    if choice.url.startswith("sqlite:"):
        from leasehold.doctor.embedded import about_sqlite  # noqa: PLC0415 (each kind when it is used)

        return about_sqlite(choice.store_url, accept_restore)
    from leasehold.doctor.network import about_server, about_store  # noqa: PLC0415

    return about_server(choice) if opening.is_served(choice.url) else about_store(choice)


# ------------------------------------------------------------------------------------------ who and where


def _about_choice(choice: Choice) -> Iterator[Finding]:
    yield Finding("url", True, f"{urls.shown(choice.url)} ({shown(choice.why)})")
    for note in choice.notes:
        yield Finding("url", None, shown(note), "set LEASEHOLD_URL, or url in leasehold.toml, to say where locks live")
    told = [f"{key} from {origin}" for key, origin in sorted(choice.origins.items()) if key != "url"]
    yield Finding("settings", True, shown("; ".join(told)) if told else "the defaults")


def _about_identity(choice: Choice, env: Mapping[str, str]) -> Iterator[Finding]:
    try:
        caller = identity.find(choice, env=env)
        yield Finding("holder", True, shown(f"{caller.holder} ({caller.explain()})"))
        session = identity.session(env)
    except LeaseholdError as error:
        yield Finding("holder", False, shown(str(error)))
        return
    if session is not None:
        yield Finding("session", True, shown(checks.session_id(session)))


# --------------------------------------------------------------------------------------- tokens, versions


def _about_tokens(directory: Path) -> Iterator[Finding]:
    """Report files of tokens that other users could read."""
    if not directory.is_dir():
        yield Finding("tokens", True, "none are kept")
        return
    try:
        files = [] if places.exposure(directory.stat()) else list(directory.iterdir())
        exposed = [each for each in (directory, *files) if places.exposure(each.lstat())]
    except OSError as error:
        yield Finding("tokens", False, f"{directory}: {error.strerror}")
        return
    for each in exposed:
        bits = "700" if each == directory else "600"
        text = f"{each} is not private: {places.exposure(each.lstat())}"
        yield Finding(
            "tokens",
            False,
            text,
            "make it private if you trust it, otherwise remove it",
            f"chmod {bits} {quote(str(each))}",
        )
    if not exposed:
        yield Finding("tokens", True, f"{len(files)} private files in {directory}")


def _versions() -> Finding:
    import sys  # noqa: PLC0415

    import apsw  # noqa: PLC0415

    from leasehold import __version__  # noqa: PLC0415

    python = sys.version.split()[0]
    sqlite = f"apsw {apsw.apsw_version()}, SQLite {apsw.sqlite_lib_version()}"
    system = os.uname()
    here = f"{system.sysname} {system.release} {system.machine}"
    return Finding("versions", True, f"leasehold {__version__}, Python {python}, {sqlite}, {here}")
