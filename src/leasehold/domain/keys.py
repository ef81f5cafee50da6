"""Keys of records, ids, and hashes of secrets. Pure.

A lease's id ends in the hash of its home, the first resource that it covers: so the id alone says which
record to load, a lease on one resource is one row, and no index from ids to resources has to be kept.

The hash of a node, an actor or a request begins with one byte of the hash of its space. So an id alone also says to
which part of a store its space belongs, however many parts there are (docs/adr/0045).
"""

from __future__ import annotations

try:
    from _blake2 import blake2b  # what hashlib hands out, without OpenSSL's start-up time
except ImportError:  # a Python built without its own hashes
    from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_HASH_LENGTH: Final = 32
_DIGITS: Final = 16
"""Of the largest fence."""
_hashes: Final = blake2b(digest_size=16)
"""Copied for each hash: to set up a new one takes longer."""
_SPACES_MOST: Final = 4_096
_bytes: Final[dict[str, str]] = {}
"""The bytes of so many spaces."""


def _digest(*parts: str) -> str:
    # Parts are checked to hold no control characters, so NUL separates them unambiguously.
    return _hashed("\0".join(parts))


def _hashed(text: str) -> str:
    hashed = _hashes.copy()
    hashed.update(text.encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()


def _byte_of(space: str) -> str:
    """Return the byte of a space, as two hexadecimal digits. It is cached: a hash takes longer than the look."""
    found = _bytes.get(space)
    if found is None:
        if len(_bytes) >= _SPACES_MOST:
            _bytes.clear()
        found = _bytes[space] = _digest("space", space)[:2]
    return found


def byte_of_space(space: str) -> int:
    """Return the byte with which the hashes of everything in this space begin."""
    return int(_byte_of(space), 16)


def byte_of_key(key: str) -> int:
    """Return the byte of the space of a node, an actor or a request."""
    return int(key[1:3], 16)


def byte_of_id(id_: str) -> int:
    """Return the byte of the space of this lease or waiter."""
    start = id_.rfind("-") + 1
    return int(id_[start : start + 2], 16)


def lane_with(byte: int, lanes: int) -> int:
    """Return the lane that has the spaces with this byte; 0 if the store is not divided."""
    return 1 + byte % lanes if lanes > 1 else 0


def node(space: str, name: str) -> str:
    """Key of the record of a resource, or of an ancestor of one."""
    return "n" + _byte_of(space) + _hashed(space + "\0" + name)[2:]


def actor(space: str, holder: str, session: str | None, principal: str | None = None) -> str:
    """Key of the record of an actor: a session, or a holder of a principal."""
    if session is not None:
        hashed = _digest(space, "session", session)
    elif principal is None:
        hashed = _digest(space, "holder", holder)
    else:
        hashed = _digest(space, "principal", principal, holder)
    return "a" + _byte_of(space) + hashed[2:]


def principal(name: str, id_: str) -> str:
    """Return the name of a principal with the id of its first key, since several may have the same name."""
    return f"{name}:{id_}"


def body(*parts: object) -> str:
    """Digest of what a request asks for."""
    return _hashed(repr(parts))


def request(actor_key: str, request_id: str, holder: str, principal: str | None = None) -> str:
    """Key of the record of a request_id; ids of different actors never meet, nor those of two holders in a session."""
    return "q" + actor_key[1:3] + _digest(actor_key, request_id, holder, principal or "")[2:]


def engine(engine_id: str) -> str:
    """Key of the record of an engine's presence."""
    return "e" + _digest(engine_id)


def key(key_id: str) -> str:
    """Key of the record of an API key."""
    return "k" + _digest("key", key_id)


_secrets: Final = blake2b(b"leasehold secret\0", digest_size=16)


def secret_hash(secret: str) -> str:
    """Return the hash that is stored in place of a token or a session's secret."""
    hashed = _secrets.copy()
    hashed.update(secret.encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()


def session_of_secret(secret: str) -> tuple[str, str]:
    """Return id and proof of a session that is known by its secret alone.

    The id is listed, so the secret behind it must be hard to guess (see ``checks.credential``).
    """
    return "x" + _digest("leasehold session id", secret), _digest("leasehold session proof", secret)


def lease_id(fence: int, home: str) -> str:
    """Id of the lease with this fence whose first node is `home`."""
    return f"l{fence}-{home[1:]}"


def waiter_id(arrival: int, home: str) -> str:
    """Id of the waiter that arrived with this number and whose first node is `home`."""
    return f"w{arrival}-{home[1:]}"


def plan_id(number: int, actor_key: str) -> str:
    """Id of the plan with this number that this actor has announced."""
    return f"p{number}-{actor_key[1:]}"


def plan_home(id_: str) -> str:
    """Key of the record of the actor that announced the plan of this id."""
    return "a" + id_[id_.rfind("-") + 1 :]


def end_id(lease: str) -> str:
    """Id of the note that says why this lease is gone, in the lease's home."""
    return f"end-{lease}"


def ended(end: str) -> str:
    """Id of the lease that such a note is about."""
    return end.removeprefix("end-")


def home(id_: str) -> str:
    """Key of the record in which the lease or waiter of this id tells its terms."""
    return "n" + id_[id_.rfind("-") + 1 :]


def number(id_: str) -> int:
    """Return the number in an id: the fence of a lease, the arrival number of a waiter."""
    return int(id_[1:].partition("-")[0])


def is_lease_id(value: object) -> bool:
    """Return True if this is spelled like a lease's id (whether there is such a lease or not)."""
    return _is_id(value, "l")


def is_waiter_id(value: object) -> bool:
    """Return True if this is spelled like a waiter's id."""
    return _is_id(value, "w")


def is_plan_id(value: object) -> bool:
    """Return True if this is spelled like a plan's id."""
    return _is_id(value, "p")


def _is_id(value: object, letter: str) -> bool:
    if type(value) is not str:
        if not isinstance(value, str):
            return False
        value = str.__str__(value)  # without whatever a subclass has overridden
    head, _, hashed = value.partition("-")
    return head[:1] == letter and _is_hash(hashed) and is_fence(head[1:])


def _is_hash(text: str) -> bool:
    """Return True if this is how a hash is spelled; `fromhex` takes other spellings, too."""
    try:
        return len(text) == _HASH_LENGTH and bytes.fromhex(text).hex() == text
    except ValueError:
        return False


def is_fence(digits: str) -> bool:
    """Return True if this is how a fence, or a number of arrival, is spelled: below 2^53, without leading zeros."""
    if not (digits.isascii() and digits.isdigit()) or (digits[0] == "0" and digits != "0"):
        return False
    return len(digits) < _DIGITS or (len(digits) == _DIGITS and int(digits) < 2**53)
