"""Check the arguments of the verbs for API keys. Pure; a plain acquire does not import it."""

from __future__ import annotations

from leasehold.domain import names
from leasehold.domain.timestamps import SECOND
from leasehold.errors import InvalidInput
from leasehold.requests import verbs
from leasehold.requests.checks import choice, kind_of, span, text

PREFIXES_MOST = 64


def role(value: object) -> str:
    """Check the role of a key."""
    return choice(value, "role", verbs.ROLES.split("|"))


def prefixes(value: object) -> tuple[str, ...]:
    """Check the prefixes of names that a key is for."""
    if not isinstance(value, list | tuple):
        raise InvalidInput("prefixes", f"must be a list of prefixes of names, not {kind_of(value)}")
    if len(value) > PREFIXES_MOST:
        raise InvalidInput("prefixes", f"at most {PREFIXES_MOST}, not {len(value)}")
    return tuple(dict.fromkeys(_prefix(each) for each in value))


def _prefix(value: object) -> str:
    """Normalise a prefix as names are normalised: otherwise it would match none."""
    try:
        return names.prefix(text(value, "prefixes", names.MAX_NAME))
    except names.BadName as error:
        raise InvalidInput("prefixes", error.message) from None


def overlap(value: object) -> int:
    """Check for how long the previous key stays valid."""
    return span(value, "overlap", 0, verbs.OVERLAP_MOST * SECOND)


def key_id(value: object) -> str:
    """Check the id of a key: the part between `lh_` and the secret."""
    spelled = text(value, "key", 64)
    if spelled.startswith("lh_"):
        raise InvalidInput(
            "key", "must be the id of a key, as `keys list` shows it, without lh_ and without its secret"
        )
    return spelled
