"""The API keys in the user's private credentials file, each for one server. The file is only read.

A key is sent to its own server alone: otherwise a project's configuration could send it anywhere.
"""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH118, PTH123

from __future__ import annotations

import os

from leasehold.config import paths as places
from leasehold.config import urls
from leasehold.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "credentials"


def path(env: Mapping[str, str]) -> str:
    """Return the path of the credentials file."""
    return os.path.join(places.config_home(env), FILE)


def stored(url: str, env: Mapping[str, str]) -> str | None:
    """Return the key for this server, if there is one: a line `URL KEY`, or `URL,URL KEY` for several."""
    where = path(env)
    try:
        with open(where, encoding="utf-8") as file:
            why = places.exposure(os.fstat(file.fileno()))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InvalidInput("credentials", f"{where} cannot be read: {error}") from None
    if why:
        raise InvalidInput("credentials", f"{where} is not private: {why}; make it yours and `chmod 600` it")
    wanted = urls.one_spelling(url)
    for line in lines:
        servers, _, key = line.strip().partition(" ")
        if not servers.startswith("#") and key.strip() and wanted in map(urls.one_spelling, servers.split(",")):
            return key.strip()
    return None
