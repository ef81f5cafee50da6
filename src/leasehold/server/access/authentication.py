"""Authentication: from a bearer token to a principal. ``permissions`` says what a principal may do.

Verified keys are cached for at most a second, so that a revoked one stops working. Hashes are compared in constant
time, and an unknown id takes as long as a wrong secret.

While there are no keys, every program on this machine may call, but no web page of another site may use its browser for
it: `Host` reveals a name that was pointed at this address (DNS rebinding), `Origin` and `Sec-Fetch-Site` name the page,
and no page can change them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from hmac import compare_digest
from typing import TYPE_CHECKING, Final

from leasehold.domain import keys
from leasehold.domain.timestamps import FOREVER
from leasehold.errors import InvalidInput
from leasehold.requests import checks
from leasehold.requests.calls import Authority
from leasehold.server.access.principals import OPEN, Principal
from leasehold.server.api.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.domain.api_keys import Key
    from leasehold.domain.events import Event
    from leasehold.locks.hosted import Served

FRESH: Final = 1.0
"""How long keys and sessions that were read from the store are valid, in seconds."""
UNREAD: Final = -FRESH
"""As a time of the monotonic clock: keys that were read then are never fresh."""
READS_MOST = 5
"""How often one request waits for the keys to be read while they keep changing."""
CHANGING: Final = frozenset({"key_created", "key_revoked", "session_ended"})
"""Events that change who is admitted."""
CACHED_MOST = 10_000
NO_SECRET = keys.secret_hash("")
OWN_SITES = ("same-origin", "none")
"""`none` is an address that a person typed."""


class Authenticator:
    """Identifies callers by a key or the credential of a session; before there are keys, admits all of this machine."""

    def __init__(self, served: Served, *, loopback: bool) -> None:
        self._served = served
        self._by_id: dict[str, Key] = {}
        self._of_principal: dict[str, Key] = {}
        """The newest key of each principal."""
        self.settled_until = UNREAD
        """Monotonic time until which `is_fresh` is true and reads nothing: half of `FRESH` after the last read."""
        self._changes = 0
        """How often this process changed keys: what was read before a change is not fresh."""
        self._until = FOREVER
        """When the first of the keys expires, by the store's clock."""
        self._ahead = 0
        """Microseconds by which that clock is ahead of ours."""
        self._refreshing: asyncio.Task[None] | None = None
        self._verified: dict[str, Principal] = {}
        """Tokens of keys that were verified since the keys were read."""
        self._sessions: dict[tuple[str, str], tuple[Principal, float]] = {}
        self.reads = 0
        """How often the keys were read."""
        self.is_open = loopback
        """True while no key is needed. Once there were keys it stays false, also after the last is revoked."""
        served.watch(self._forget, CHANGING)

    def _forget(self, _events: Sequence[Event]) -> None:
        """Discard what was read: this process changed a key or a session."""
        self.settled_until = UNREAD
        self._changes += 1
        self._sessions.clear()

    def is_fresh(self, now: float) -> bool:
        """True if the keys need not be read again yet. Under load they are read before they have to be."""
        if now < self.settled_until:
            return True
        is_fresh = now < self.settled_until + FRESH / 2
        if is_fresh:
            _ = self._refresh()
        return is_fresh

    async def refresh(self) -> None:
        """Read the keys if they may have changed, once for all concurrent callers."""
        await asyncio.shield(self._refresh())

    def _refresh(self) -> asyncio.Task[None]:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._read())
            self._refreshing.add_done_callback(lambda done: done.cancelled() or done.exception())  # callers raise it
        return self._refreshing

    async def _read(self) -> None:
        begun, changes = time.monotonic(), self._changes
        found, now = await asyncio.get_running_loop().run_in_executor(None, self._served.keys_and_time)
        self._ahead = now - _monotonic_us()
        self._keep(found)
        if found:
            self.is_open = False
        now = _monotonic_us() + self._ahead
        if self._until <= now:  # a rotated key whose overlap is over: no event says so
            self._keep([key for key in self._by_id.values() if key.until_us > now])
        if changes == self._changes:
            self.settled_until = begun + FRESH / 2

    def _keep(self, found: Sequence[Key]) -> None:
        self.reads += 1
        self._by_id = {key.id: key for key in found}
        self._of_principal = {key.principal: key for key in found}  # the newest comes last
        self._until = min((key.until_us for key in found), default=FOREVER)
        self._verified.clear()
        self._sessions.clear()

    async def identify(
        self,
        header: str | None,
        space: str | None,
        signed_in: Callable[[], str | None] = lambda: None,
        *,
        handed_on: bool = False,
    ) -> Principal:
        """Return the principal of this `Authorization` header. `space`: where a session lives, if the request says so.

        Without a header, on a server with keys, `signed_in` returns the header that a signed-in browser stands for.
        `handed_on`: another server has accepted this key, so one that is not known may just have been created.
        """
        for _ in range(READS_MOST):
            if self.is_fresh(time.monotonic()):
                break
            await self.refresh()
        if self.is_open and header is None:
            return OPEN
        token = _bearer(header if header is not None else signed_in())
        if token.startswith("lh_"):
            if handed_on and token[3:].partition("_")[0] not in self._by_id:
                await self.refresh()
            return self.by_key(token)
        if not space:  # where the principal lives that started the session
            id_ = principal_of_session(token)
            key = self._of_principal.get(id_) if id_ is not None else None
            space = key.space if key is not None else "default"
        return await self._by_session(token, space)

    def by_key(self, token: str) -> Principal:
        """Return the owner of this key."""
        known = self._verified.get(token)
        if known is not None:
            return known
        id_, _, secret = token[3:].partition("_")
        key = self._by_id.get(id_)
        if not compare_digest(keys.secret_hash(secret), key.secret if key is not None else NO_SECRET) or key is None:
            raise Problem("unauthenticated", "this key is not known, or was revoked; ask an admin for a new one")
        authority = _authority(key, key.id)
        principal = Principal(
            key.name, key.role, key.space, key.prefixes, key.id, None, authority, key.principal, token
        )
        if len(self._verified) < CACHED_MOST:
            self._verified[token] = principal
        return principal

    async def _by_session(self, token: str, space: str) -> Principal:
        known = self._sessions.get((token, space))
        if known is not None and time.monotonic() < known[1]:
            return known[0]
        until = time.monotonic() + FRESH
        principal = await self._read_session(token, space)
        if len(self._sessions) >= CACHED_MOST:
            self._sessions.clear()
        self._sessions[token, space] = (principal, until)
        return principal

    async def _read_session(self, token: str, space: str) -> Principal:
        """Return the principal of a session's credential, within the bounds of the key that started it."""
        try:
            id_, secret = checks.credential(token)
        except InvalidInput:
            id_, secret = "", ""
        loop = asyncio.get_running_loop()
        session = await loop.run_in_executor(None, self._served.session, space, id_) if id_ else None
        stored = session.secret if session is not None else NO_SECRET
        if not compare_digest(keys.secret_hash(secret), stored) or session is None:
            raise Problem("unauthenticated", "this session is not known in this space, or has ended; start a new one")
        key = self._key_behind(id_, space)
        name = f"session {id_}"
        if key is None:
            return Principal(session.holder, "session", space, (), name, token)
        started = _authority(key, session.key or key.id)._replace(space=space)
        return Principal(session.holder, "session", space, key.prefixes, name, token, started, key.principal)

    def knows(self, id_: str) -> bool:
        """True if the caller with this id (`Principal.id`) would be admitted now, as far as keys tell."""
        if id_ == OPEN.id:
            return self.is_open
        session = id_.removeprefix("session ")
        if session == id_:
            return id_ in self._by_id
        principal = principal_of_session(session)
        return principal is None or principal in self._of_principal

    def _key_behind(self, session: str, space: str) -> Key | None:
        """Return the newest key of the principal that started a session, which may do no more than that principal."""
        id_ = principal_of_session(session)
        if id_ is None:
            return None
        key = self._of_principal.get(id_)
        if key is None or (key.role != "admin" and key.space != space):
            raise Problem("unauthenticated", "the key that started this session was revoked")
        return key


def _authority(key: Key, shown: str) -> Authority:
    space = None if key.role == "admin" else key.space
    return Authority(keys.principal(key.name, key.principal), shown, space, key.prefixes)


def _monotonic_us() -> int:
    return time.monotonic_ns() // 1_000


def session_id(principal: str, chance: str) -> str:
    """Return an id for a session that this principal starts, which names the principal."""
    return f"sk-{principal}-{chance}"


def principal_of_session(session: str) -> str | None:
    """Return the principal that started a session, or None if it was started where no key is needed."""
    letter, _, rest = session.partition("-")
    return rest.partition("-")[0] if letter == "sk" and rest else None


def _bearer(header: str | None) -> str:
    scheme, _, token = (header or "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise Problem("unauthenticated", "a key is needed: Authorization: Bearer lh_…")
    try:
        token.encode()
    except UnicodeEncodeError:
        raise Problem("unauthenticated", "this key is not spelled like one") from None
    return token


# ------------------------------------------------------------------------------- servers without keys


def check_origin(host: str | None, origin: str | None, site: str | None = None) -> None:
    """Refuse other names of this address, and pages of other sites and ports."""
    if host is None or not is_loopback(_without_port(host)):
        raise Problem("misdirected", "without keys, only requests to localhost are served (the Host header)")
    if not is_same_origin(host, origin):
        raise Problem("not_allowed", "without keys, pages of other origins are refused (the Origin header)")
    if not is_own_site(site):
        raise Problem("not_allowed", "without keys, pages of other origins are refused (the Sec-Fetch-Site header)")


def is_same_origin(host: str, origin: str | None) -> bool:
    """True if the request comes from no page, or from one of this very host and port."""
    return origin is None or origin.lower().partition("://")[1:] == ("://", host.lower())


def is_own_site(site: str | None) -> bool:
    """True if the browser says that our own page or a person sends the request; other clients say nothing."""
    return site is None or site in OWN_SITES


def is_loopback(host: str) -> bool:
    """True if only this machine can reach this host. It goes by the address: a name can be pointed elsewhere."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()
