"""Check a caller's arguments and build a command from them; raise `InvalidInput` naming the wrong field. Pure.

Every surface uses these checks, so a wrong argument gets the same answer everywhere, and the rules only see valid
commands.
"""

from __future__ import annotations

from _operator import itemgetter  # see `records`

from leasehold.domain import commands as c
from leasehold.domain import durations, keys, names
from leasehold.domain.entries import EXCLUSIVE, MODE_NAMES, SHARED, SLOTS, Alternative, Claim, LeaseRequest
from leasehold.domain.nouns import new
from leasehold.domain.rules.conflicts import outweighs
from leasehold.domain.timestamps import SECOND
from leasehold.errors import InvalidInput
from leasehold.requests import calls, verbs
from leasehold.requests.calls import Terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

TTL_LEAST: Final = 10_000
DAYS: Final = 10_000 * 86_400
WAIT_MOST: Final = verbs.DAY * SECOND
GRACE_MOST: Final = verbs.GRACE_MOST * SECOND
STATUSES: Final = tuple(verbs.STATUSES.split("|"))
BY_SECRET: Final = "secret:"  # noqa: S105 (a prefix, no secret)
"""Prefix of a credential that is only a secret: of a scheduler that draws it before there is a session."""
SECRET_LEAST: Final = 16
MODES: Final = {name: mode for mode, name in MODE_NAMES.items()}
Settings = calls.Settings
_DEFAULTS: Final = {**{row[0]: row[2] for row in verbs.ACQUIRE}, "space": "default"}
_ASKED: Final = len(_DEFAULTS)
_APART: Final = ("resources", "session", "context", "request_id", "token", "trace")
"""The arguments of an acquire that differ from request to request; all others are its terms."""
_of_terms: Final = itemgetter(*[name for name in _DEFAULTS if name not in _APART])
_of_the_rest: Final = itemgetter(*_APART)


class BeyondSettings(InvalidInput):
    """More than this installation allows. Another installation may allow it, so the caller could not know."""


def terms(settings: Settings, said: tuple[object, ...]) -> Terms:
    """Check the terms of an acquire, in the order of the table. The result depends on these arguments alone."""
    # fmt: off
    (life, wait, mode, slots, any_of, holder, tenant, name, reason, priority, reentrant, grace, on_expiry, intent,
     first, host, authority) = said
    # fmt: on
    where = space(tenant)
    who = text(holder, "holder", 256)
    return Terms(
        where,
        who,
        keys.actor(where, who, None, authority.principal if isinstance(authority, calls.Authority) else settings.user),
        *_mode(mode, slots),
        flag(any_of, "any_of"),
        ttl(life, settings),
        optional_text(name, "name", 256),
        optional_text(reason, "reason", 1024),
        span(grace, "grace", 0, GRACE_MOST),
        choice(on_expiry, "on_expiry", ("free", "quarantine")) == "quarantine",
        span(wait, "wait", 0, WAIT_MOST),
        number(priority, "priority", -verbs.PRIORITY_MOST, verbs.PRIORITY_MOST),
        flag(reentrant, "reentrant"),
        flag(intent, "intent"),
        flag(first, "first"),
        optional_text(host, "host", 255),
    )


def acquire(
    asked: Mapping[str, object],
    settings: Settings,
    token: str,
    engine: str,
    memory: TermsCache | None = None,
    authority: calls.Authority | None = None,
) -> c.Acquire:
    """Return the command for an acquire. It contains only the hash of `token`."""
    if len(asked) != _ASKED:
        asked = _whole(asked)
    resources, proven, context, request_id, had, trace = _of_the_rest(asked)
    said: tuple[object, ...] = (*_of_terms(asked), authority)
    known = terms(settings, said) if memory is None else memory.terms(settings, said)
    # fmt: off
    (space, holder, actor, mode, slots, any_of, ttl, name, reason, grace, quarantine,
     wait, priority, reentrant, intent, first, host) = known
    # fmt: on
    session = secret = request = principal = key = None
    if proven is not None:
        session, secret = credential(proven)
        actor, secret = keys.actor(space, holder, session), keys.secret_hash(secret)
    if authority is not None:
        principal, key = authority.principal, authority.key
    if request_id is not None:
        request = keys.request(actor, text(request_id, "request_id", 128), holder, principal)
    told = None if context is None else context_text(context)
    options = _options(space, resources, mode, any_of, settings)
    tokens = (keys.secret_hash(token),)
    shown = () if had is None else tokens_shown(had)
    body = (
        ""
        if request is None
        else keys.body(options, mode, slots, ttl, name, told, reason, grace, quarantine, priority, reentrant)
    )
    # fmt: off
    asks = (space, options, mode, slots, ttl, holder, session, tokens, name, told, reason, grace, quarantine, request,
            principal, key, body, None if trace is None else text(trace, "trace", 128), host)
    # fmt: on
    ask = new(LeaseRequest, asks)
    return new(c.Acquire, (actor, ask, engine, wait, priority, reentrant, intent, secret, first, shown))


def _whole(asked: Mapping[str, object]) -> Mapping[str, object]:
    """Fill in defaults. Raises TypeError naming an unknown or a missing argument."""
    wrong = asked.keys() - _DEFAULTS.keys() | ({"resources"} - asked.keys())
    if wrong:
        raise TypeError(f"acquire: unknown or missing: {', '.join(sorted(wrong))}")
    return {**_DEFAULTS, **asked}


class TermsCache:
    """A cache of `terms`, for one set of settings at a time."""

    __slots__ = ("_known", "_most", "_settings")

    def __init__(self, most: int) -> None:
        self._most = most
        self._settings: Settings | None = None
        self._known: dict[tuple[object, ...], tuple[list[type], Terms]] = {}
        """By the arguments, with their types: 1 equals True, but is not valid in its place."""

    def terms(self, settings: Settings, said: tuple[object, ...]) -> Terms:
        """Return the terms for these arguments."""
        if settings is not self._settings:
            self._known.clear()
            self._settings = settings
        try:
            known = self._known.get(said)
        except TypeError:  # an unhashable argument, such as a list: the check names it
            return terms(settings, said)
        kinds = list(map(type, said))
        if known is not None and known[0] == kinds:
            return known[1]
        found = terms(settings, said)
        if len(self._known) >= self._most:
            self._known.clear()
        self._known[said] = kinds, found
        return found


def _mode(mode: object, slots: object) -> tuple[str, int]:
    count = number(slots, "slots", 1, verbs.SLOTS_MOST)
    if mode is None:
        return (SLOTS if count > 1 else EXCLUSIVE), count
    chosen = MODES[choice(mode, "mode", tuple(MODES))]
    if chosen == EXCLUSIVE and count > 1:
        raise InvalidInput("slots", "an exclusive lease has one holder: leave slots out, or leave mode out")
    if chosen == SHARED and count > 1:
        raise InvalidInput("slots", "a shared lease has no slots: leave slots out, or leave mode out")
    return chosen, count


def _options(space: str, resources: object, mode: str, any_of: bool, settings: Settings) -> tuple[Alternative, ...]:
    parsed, hierarchical = resource_names(resources), settings.hierarchical
    if len(parsed) == 1:
        if parsed[0].startswith("pool://"):
            from leasehold.requests.pool_checks import member_names  # noqa: PLC0415 (rare)

            parsed = (member_names(parsed[0], mode, settings),)
    elif any(name.startswith("pool://") for name in parsed):
        raise InvalidInput(
            "resources", "a pool stands alone in its lease: acquire the other names by a lease of their own"
        )
    if any_of:
        return tuple(_option(space, (name,), mode, hierarchical) for name in parsed)
    return (_option(space, parsed, mode, hierarchical),)


def resource_names(resources: object) -> tuple[str, ...]:
    """Return one name or several, normalised, without duplicates, in the order given."""
    if isinstance(resources, str):
        return (resource(resources),)
    if not isinstance(resources, list | tuple):
        raise InvalidInput("resources", f"must be a name or a list of names, not {kind_of(resources)}")
    if not resources:
        raise InvalidInput("resources", "is empty: name at least one resource")
    if len(resources) > verbs.RESOURCES_MOST:
        raise InvalidInput("resources", f"at most {verbs.RESOURCES_MOST} in one lease, not {len(resources)}")
    return tuple(dict.fromkeys([resource(each) for each in resources]))


def _option(space: str, resources: tuple[str, ...], mode: str, hierarchical: frozenset[str]) -> Alternative:
    if len(resources) == 1:
        return Alternative(resources, names.claims(space, resources[0], mode, hierarchical))
    own: dict[str, Claim] = {}
    above: dict[str, Claim] = {}
    for place, name in enumerate(resources):
        for claim in names.claims(space, name, mode, hierarchical):
            kind = own if claim.mode == mode else above
            known = kind.get(claim.node)
            if known is None or outweighs(claim.mode, known.mode):
                kind[claim.node] = claim._replace(of=place)
    above = {node: claim for node, claim in above.items() if node not in own}
    return Alternative(resources, (*own.values(), *above.values()))


def proof(
    token: object = None, session: object = None, admin: object = None, authority: calls.Authority | None = None
) -> c.Proof:
    """Check the credentials that prove a caller's right to a lease."""
    secret = credential(session)[1] if session is not None else None
    return c.Proof(
        keys.secret_hash(text(token, "token", 256)) if token is not None else None,
        keys.secret_hash(secret) if secret is not None else None,
        text(admin, "admin", 256) if admin is not None else None,
        authority,
    )


def tokens_shown(given: object) -> tuple[str, ...]:
    """Return the hashes of one token or several, which prove that leases are the caller's own."""
    if isinstance(given, str):
        return (keys.secret_hash(text(given, "token", 256)),)
    if not isinstance(given, list | tuple):
        raise InvalidInput("token", f"must be a token or a list of tokens, not {kind_of(given)}")
    if len(given) > verbs.TOKENS_MOST:
        raise InvalidInput("token", f"at most {verbs.TOKENS_MOST} in one call, not {len(given)}")
    return tuple([keys.secret_hash(text(each, "token", 256)) for each in given])


def credential(session: object) -> tuple[str, str]:
    """Return a session's id and secret, from `ID.SECRET` or from `secret:SECRET`, which determines the id."""
    spelled = text(session, "session", 512)
    if spelled.startswith(BY_SECRET):
        secret = spelled.removeprefix(BY_SECRET)
        if len(secret) < SECRET_LEAST:
            raise InvalidInput("session", f"a secret of your own needs at least {SECRET_LEAST} random characters")
        return keys.session_of_secret(secret)
    id_, dot, secret = spelled.rpartition(".")
    if not (dot and id_ and secret):
        raise InvalidInput("session", "must be ID.SECRET, as `session start` printed it, or secret:SECRET")
    return id_, secret


def is_credential(session: str) -> bool:
    """Return True if this contains a secret, and not only a session's id."""
    return session.startswith(BY_SECRET) or "." in session


def session_id(session: object) -> str:
    """Return the id of a session, from the id or the credential."""
    spelled = text(session, "session", 512)
    return credential(spelled)[0] if is_credential(spelled) else spelled


def lease_id(lease: object, *, may_be_plan: bool = False) -> str:
    """Check the spelling of a lease's id, or of a plan's."""
    if not (keys.is_lease_id(lease) or (may_be_plan and keys.is_plan_id(lease))):
        raise InvalidInput("lease", "must be a lease's id, such as l42-0123456789abcdef0123456789abcdef")
    return lease if type(lease) is str else str.__str__(lease)


def ttl(value: object, settings: Settings) -> int:
    """Return a TTL in microseconds, within the limits of the settings."""
    duration = span(value, "ttl", 0, durations.LONGEST)
    if TTL_LEAST <= duration <= settings.ttl_most:
        return duration
    least, most = durations.format(TTL_LEAST), durations.format(settings.ttl_most)
    allowed = f"at least {least}" if settings.ttl_most == durations.LONGEST else f"{least} to {most}"
    kind = InvalidInput if duration < TTL_LEAST else BeyondSettings
    raise kind("ttl", f"must be {allowed}, not {durations.format(duration)}")


def span(value: object, field: str, least: int, most: int) -> int:
    """Return a duration in microseconds, within bounds."""
    if type(value) is int and 0 <= value <= DAYS:  # the usual case, without parsing
        duration = value * SECOND
    else:
        try:
            duration = durations.parse(_plain(value))
        except durations.BadDuration as error:
            raise InvalidInput(field, str(error)) from None
    if not least <= duration <= most:
        allowed = f"{durations.format(least)} to {durations.format(most)}"
        raise InvalidInput(field, f"must be {allowed}, not {durations.format(duration)}")
    return duration


def number(value: object, field: str, least: int, most: int) -> int:
    """Return a whole number within bounds."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidInput(field, f"must be a whole number from {least} to {most}, not {kind_of(value)}")
    plain = int.__int__(value)
    if not least <= plain <= most:
        raise InvalidInput(field, f"must be {least} to {most}")
    return plain


def flag(value: object, field: str) -> bool:
    """Return True or False; refuse values that only equal one of them."""
    if not isinstance(value, bool):
        raise InvalidInput(field, f"must be true or false, not {kind_of(value)}")
    return value


def choice(value: object, field: str, allowed: Iterable[str]) -> str:
    """Return one of these words."""
    choices = tuple(allowed)
    chosen = str.__str__(value) if isinstance(value, str) else None
    if chosen is None or chosen not in choices:
        raise InvalidInput(field, f"must be one of {', '.join(choices)}")
    return chosen


def status(value: object) -> str:
    """Return how the work ended: one of the statuses."""
    if type(value) is str and value == "completed":
        return value
    return choice(value, "status", STATUSES)


def text(value: object, field: str, most: int) -> str:
    """Return a short text: without control characters, not empty, no blanks at its ends."""
    if type(value) is not str:
        value = _plain_text(value, field)
    if not value or value != value.strip():
        raise InvalidInput(field, "must not be empty, nor begin or end with a blank")
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidInput(field, "is not valid Unicode") from None
    if length > most:
        raise InvalidInput(field, f"must be at most {most} bytes of UTF-8, not {length}")
    if not value.isprintable() and any(character < " " or "\x7f" <= character < "\xa0" for character in value):
        raise InvalidInput(field, "must not contain control characters")
    return value


def _plain_text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be text, not {kind_of(value)}")
    return str.__str__(value)  # a subclass may have overridden methods


def _plain(value: object) -> object:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float.__float__(value)
    return int.__int__(value) if isinstance(value, int) and not isinstance(value, bool) else value


def optional_text(value: object, field: str, most: int) -> str | None:
    """Return a short text, or None."""
    return None if value is None else text(value, field, most)


def error_text(value: object) -> str | None:
    """Return the error of a piece of work: free text of several lines, truncated to 4 KiB."""
    if value is None:
        return None
    return _plain_text(value, "error").encode("utf-8", "replace")[:4096].decode("utf-8", "ignore")


def context_text(value: object) -> str | None:
    """Return a context as JSON text."""
    if value is None:
        return None
    from leasehold.domain import contexts  # noqa: PLC0415 (most calls have no context)

    return contexts.text(value)


def space(value: object) -> str:
    """Check the name of a space."""
    try:
        return names.check_space(value)
    except names.BadName as error:
        raise InvalidInput("space", error.message) from None


def resource(value: object) -> str:
    """Return the name of a resource, normalised."""
    try:
        return names.parse(value)
    except names.BadName as error:
        raise InvalidInput("resource", error.message) from None


def kind_of(value: object) -> str:
    """Describe a value's type for a refusal."""
    return "nothing" if value is None else f"a value of type {type(value).__name__}"
