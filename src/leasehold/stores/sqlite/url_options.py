"""The query of a `sqlite:` URL. Only imported if there is one."""

from __future__ import annotations

from leasehold.domain.nouns import Noun
from leasehold.errors import InvalidInput

_MOST = {"retention_days": 36_500, "retention_rows": 1_000_000_000, "create": 1}


class UrlOptions(Noun):
    """How much history to keep, and whether to create the directory."""

    retention_days: int = 30
    retention_rows: int = 1_000_000
    create: int = 0


def parse(options: str) -> UrlOptions:
    """Parse `?retention_days=7&retention_rows=5000`."""
    found: dict[str, int] = {}
    for word in options.removeprefix("?").split("&"):
        name, _, value = word.partition("=")
        if name not in _MOST:
            raise InvalidInput("url", f"{name!a} is no option of a sqlite: URL; there are {', '.join(_MOST)}")
        if name in found:
            raise InvalidInput("url", f"{name} is there twice")
        if not (value.isascii() and value.isdigit() and len(value) <= 10 and int(value) <= _MOST[name]):
            raise InvalidInput("url", f"{name} must be a whole number from 0 to {_MOST[name]}, not {value!a}")
        found[name] = int(value)
    return UrlOptions(**found)
