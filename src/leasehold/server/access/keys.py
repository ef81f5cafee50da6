"""Who asks: from a bearer token to a principal. What a principal may do is in ``permissions``.

Verified keys are remembered for at most a second, so that a revoked one stops working; the comparison is of
hashes, in constant time, and an unknown id costs the same as a wrong secret.
"""

from __future__ import annotations

import asyncio
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
"""How long what the store said of keys and sessions counts, in seconds."""
LOOKS_MOST = 5
CHANGING: Final = frozenset({"key_created", "key_revoked", "session_ended"})
"""Events after which somebody may no longer get in, or may from now on."""
REMEMBERED = 10_000
NO_SECRET = keys.secret_hash("")


class Door:
    """Lets in whoever shows a key or a session's credential; without any keys, everybody on this machine."""

    def __init__(self, served: Served, *, loopback: bool) -> None:
        self._served = served
        self._by_id: dict[str, Key] = {}
        self._of_principal: dict[str, Key] = {}
        """The newest key of each principal."""
        self._fresh_until = 0.0
        self._changes = 0
        """How often this process itself has changed keys: a look from before that does not count."""
        self._until = FOREVER
        """When the first of the keys stops working, by the store's clock."""
        self._ahead = 0
        """Microseconds by which that clock is ahead of ours."""
        self._refreshing: asyncio.Task[None] | None = None
        self._known: dict[str, Principal] = {}
        """Tokens of keys that were verified since the last look."""
        self._sessions: dict[tuple[str, str], tuple[Principal, float]] = {}
        self.looks = 0
        """How often the keys were read."""
        self.is_open = loopback
        """Nobody has to show anything. Once there were keys, it never opens again: not because of a revocation."""
        served.watchers.append(self._observe)

    def _observe(self, events: Sequence[Event]) -> None:
        if not CHANGING.isdisjoint([event.kind for event in events]):
            self._fresh_until = 0.0
            self._changes += 1
            self._sessions.clear()

    def is_fresh(self, now: float) -> bool:
        """Whether what is known of the keys still counts. Under load it is asked for anew before it no longer does."""
        left = self._fresh_until - now
        if 0 < left < FRESH / 2:
            _ = self._refresh()
        return left > 0

    async def refresh(self) -> None:
        """Ask the store for the keys, once for everybody who wants to know right now."""
        await asyncio.shield(self._refresh())

    def _refresh(self) -> asyncio.Task[None]:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._look())
            self._refreshing.add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )  # whoever waits is told
        return self._refreshing

    async def _look(self) -> None:
        asked_at, changes = time.monotonic(), self._changes
        self._learn(*await asyncio.get_running_loop().run_in_executor(None, self._served.keys_and_time))
        self._drop_old()
        if changes == self._changes:
            self._fresh_until = asked_at + FRESH

    def _learn(self, found: Sequence[Key], now: int) -> None:
        self._ahead = now - _monotonic_us()
        self._keep(found)
        if found:
            self.is_open = False

    def _keep(self, found: Sequence[Key]) -> None:
        self.looks += 1
        self._by_id = {key.id: key for key in found}
        self._of_principal = {key.principal: key for key in found}  # the newest comes last
        self._until = min((key.until_us for key in found), default=FOREVER)
        self._known.clear()
        self._sessions.clear()

    def _drop_old(self) -> None:
        """Forget keys that were rotated and count no longer, though nobody has changed anything since."""
        now = _monotonic_us() + self._ahead
        if self._until <= now:
            self._keep([key for key in self._by_id.values() if key.until_us > now])

    async def admit(
        self, header: str | None, space: str | None, signed_in: Callable[[], str | None] = lambda: None
    ) -> Principal:
        """Whoever shows this `Authorization`. `space` is where a session says that it lives, if it does.

        Without one, where the door is closed, `signed_in` tells what a signed-in browser shows instead.
        """
        for _ in range(LOOKS_MOST):
            if self.is_fresh(time.monotonic()):
                break
            await self.refresh()
        if self.is_open and header is None:
            return OPEN
        token = _bearer(header if header is not None else signed_in())
        if token.startswith("lh_"):
            return self.by_key(token)
        return await self._by_session(token, space or self._home_of(token))

    def by_key(self, token: str) -> Principal:
        """The owner of this key."""
        known = self._known.get(token)
        if known is not None:
            return known
        id_, _, secret = token[3:].partition("_")
        key = self._by_id.get(id_)
        if not compare_digest(keys.secret_hash(secret), key.secret if key is not None else NO_SECRET) or key is None:
            raise Problem("unauthenticated", "this key is not known, or was revoked; ask an admin for a new one")
        principal = Principal(
            key.name, key.role, key.space, key.prefixes, key.id, None, _authority(key, key.id), key.principal
        )
        if len(self._known) < REMEMBERED:
            self._known[token] = principal
        return principal

    async def _by_session(self, token: str, space: str) -> Principal:
        known = self._sessions.get((token, space))
        if known is not None and time.monotonic() < known[1]:
            return known[0]
        until = time.monotonic() + FRESH
        principal = await self._look_up_session(token, space)
        if len(self._sessions) >= REMEMBERED:
            self._sessions.clear()
        self._sessions[token, space] = (principal, until)
        return principal

    async def _look_up_session(self, token: str, space: str) -> Principal:
        try:
            id_, secret = checks.credential(token)
        except InvalidInput:
            id_, secret = "", ""
        loop = asyncio.get_running_loop()
        session = await loop.run_in_executor(None, self._served.session, space, id_) if id_ else None
        stored = session.secret if session is not None else NO_SECRET
        if not compare_digest(keys.secret_hash(secret), stored) or session is None:
            raise Problem("unauthenticated", "this session is not known in this space, or has ended; start a new one")
        key = self._behind(id_, space)
        told = f"session {id_}"
        if key is None:
            return Principal(session.holder, "session", space, (), told, token)
        begun = _authority(key, session.key or key.id)._replace(space=space)
        return Principal(session.holder, "session", space, key.prefixes, told, token, begun, key.principal)

    def knows(self, id_: str) -> bool:
        """Whether whoever was let in under this id (`Principal.id`) would be still, as far as keys tell."""
        if id_ == OPEN.id:
            return self.is_open
        session = id_.removeprefix("session ")
        if session == id_:
            return id_ in self._by_id
        principal = principal_of_session(session)
        return principal is None or principal in self._of_principal

    def _home_of(self, token: str) -> str:
        """Where a session lives that does not say so: in the space of the principal that started it."""
        id_ = principal_of_session(token)
        key = self._of_principal.get(id_) if id_ is not None else None
        return key.space if key is not None else "default"

    def _behind(self, session: str, space: str) -> Key | None:
        """A session may do no more than the principal that started it, and nothing once that has no key any more."""
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
    """The id of a session that this principal starts: it tells which one did."""
    return f"sk-{principal}-{chance}"


def principal_of_session(session: str) -> str | None:
    """The principal that started a session; None if it was not started at a server that asks for keys."""
    letter, _, rest = session.partition("-")
    return rest.partition("-")[0] if letter == "sk" and rest else None


def _bearer(header: str | None) -> str:
    scheme, _, token = (header or "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise Problem("unauthenticated", "show a key: Authorization: Bearer lh_…")
    try:
        token.encode()
    except UnicodeEncodeError:
        raise Problem("unauthenticated", "this key is not spelled like one") from None
    return token
