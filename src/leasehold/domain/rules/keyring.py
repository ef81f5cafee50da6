"""Keys: whom a server lets in, and whom no more. Pure."""

from __future__ import annotations

from leasehold.domain import commands as c
from leasehold.domain import keys
from leasehold.domain.api_keys import Key, KeyCreated, KeyRevoked, KeyRotated
from leasehold.domain.events import Event
from leasehold.domain.outcomes import Refused
from leasehold.domain.rules.ending import by_key
from leasehold.domain.timestamps import FOREVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.domain.commands import AddKey, RevokeKey, RotateKey
    from leasehold.domain.outcomes import Outcome
    from leasehold.domain.rules import Draft


def add(draft: Draft, command: AddKey) -> Outcome:
    """Add a key. Its id must be new, so that no key is ever replaced in passing."""
    where = keys.key(command.id)
    if command.id in draft.record(where).notes:
        return Refused("conflict", "id", "there is a key of this id already; take another id")
    key = Key(
        command.id,
        command.role,
        command.space,
        command.name,
        command.prefixes,
        command.secret,
        draft.now,
        principal=command.id,
    )
    draft.put(where, key)
    _tell(draft, "key_created", key, command)
    return KeyCreated(key._replace(secret=""), "")


def rotate(draft: Draft, command: RotateKey) -> Outcome:
    """Another key of the same principal; the one before it counts for a while yet."""
    here, there = keys.key(command.before), keys.key(command.id)
    draft.require([here, there])
    before = draft.record(here).notes.get(command.before)
    if not isinstance(before, Key) or before.until_us <= draft.now:
        return Refused("not_found", "key", "no key of this id works; `keys list` shows which do")
    if command.id in draft.record(there).notes:
        return Refused("conflict", "id", "there is a key of this id already; take another id")
    fresh = before._replace(id=command.id, secret=command.secret, created_us=draft.now, until_us=FOREVER)
    before = before._replace(until_us=min(before.until_us, draft.now + command.overlap))
    draft.put(there, fresh)
    draft.put(here, before)
    _tell(draft, "key_created", fresh, command, rotated=before.id)
    return KeyRotated(fresh._replace(secret=""), "", before._replace(secret=""))


def revoke(draft: Draft, command: RevokeKey) -> Outcome:
    """Exactly this key goes."""
    where = keys.key(command.id)
    known = draft.record(where).notes.get(command.id)
    if not isinstance(known, Key):
        return KeyRevoked(command.id, revoked=False)
    draft.drop(where, command.id)
    _tell(draft, "key_revoked", known, command)
    return KeyRevoked(command.id, revoked=True)


def expire(draft: Draft, where: str) -> None:
    """Drop the key that was rotated, once it counts no longer."""
    for key in tuple(draft.record(where).notes.values()):
        if isinstance(key, Key) and key.until_us <= draft.now:
            draft.drop(where, key.id)
            _tell(draft, "key_revoked", key, c.RevokeKey(key.id, reason="it was rotated"))


def _tell(draft: Draft, kind: str, key: Key, command: AddKey | RotateKey | RevokeKey, **more: object) -> None:
    principal = keys.principal(key.name, key.principal)
    detail = {"key": key.id, "principal": principal, "role": key.role, "prefixes": list(key.prefixes), **more}
    if command.by is not None or command.reason is not None:
        detail |= {"by": command.by, "why": command.reason, **by_key(command.authority)}
    draft.events.append(Event(kind, draft.now, key.space, (), key.name, None, None, 0, detail))
