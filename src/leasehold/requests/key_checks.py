"""What may be said of an API key, checked like all else in ``checks``. Pure; a plain acquire does not import it."""

from __future__ import annotations

from leasehold.domain import names
from leasehold.domain.timestamps import SECOND
from leasehold.errors import InvalidInput
from leasehold.requests import verbs
from leasehold.requests.checks import choice, kind_of, span, text

PREFIXES_MOST = 64


def role(value: object) -> str:
    """What a key lets its owner do."""
    return choice(value, "role", verbs.ROLES.split("|"))


def prefixes(value: object) -> tuple[str, ...]:
    """What names must begin with."""
    if not isinstance(value, list | tuple):
        raise InvalidInput("prefixes", f"must be a list of beginnings of names, not {kind_of(value)}")
    if len(value) > PREFIXES_MOST:
        raise InvalidInput("prefixes", f"at most {PREFIXES_MOST}, not {len(value)}")
    return tuple(dict.fromkeys(_prefix(each) for each in value))


def _prefix(value: object) -> str:
    """As names are spelled that begin with it: they are compared in that spelling, and no other would match any."""
    try:
        return names.prefix(text(value, "prefixes", names.MAX_NAME))
    except names.BadName as error:
        raise InvalidInput("prefixes", error.message) from None


def overlap(value: object) -> int:
    """For how long the key before still counts."""
    return span(value, "overlap", 0, verbs.OVERLAP_MOST * SECOND)


def key_id(value: object) -> str:
    """The id of a key: what stands between `lh_` and the secret."""
    spelled = text(value, "key", 64)
    if spelled.startswith("lh_"):
        raise InvalidInput(
            "key", "must be the id of a key, as `keys list` shows it, without lh_ and without its secret"
        )
    return spelled
