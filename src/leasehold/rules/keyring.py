"""Keys: whom a server lets in, and whom no more. Pure."""

from __future__ import annotations

from leasehold import keys
from leasehold.model import Event, Key, KeyCreated, KeyRevoked, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.commands import AddKey, RevokeKey
    from leasehold.model import Outcome
    from leasehold.rules.draft import Draft


def add(draft: Draft, command: AddKey) -> Outcome:
    """A new key; its id must be new, so that no key is ever replaced in passing."""
    where = keys.key(command.id)
    if command.id in draft.record(where).notes:
        return Refused("conflict", "id", "there is a key of this id already; take another id")
    key = Key(
        command.id, command.role, command.space, command.name, command.prefixes, command.secret, created_us=draft.now
    )
    draft.put(where, key)
    _tell(draft, "key_created", key, command)
    return KeyCreated(key._replace(secret=""), "")


def revoke(draft: Draft, command: RevokeKey) -> Outcome:
    """Exactly this key goes."""
    where = keys.key(command.id)
    known = draft.record(where).notes.get(command.id)
    if not isinstance(known, Key):
        return KeyRevoked(command.id, revoked=False)
    draft.drop(where, command.id)
    _tell(draft, "key_revoked", known, command)
    return KeyRevoked(command.id, revoked=True)


def _tell(draft: Draft, kind: str, key: Key, command: AddKey | RevokeKey) -> None:
    detail: dict[str, object] = {"key": key.id, "role": key.role, "prefixes": list(key.prefixes)}
    if command.by is not None or command.reason is not None:
        detail |= {"by": command.by, "why": command.reason}
    draft.events.append(Event(kind, draft.now, key.space, (), key.name, None, None, 0, detail))
