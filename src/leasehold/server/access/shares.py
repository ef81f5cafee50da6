"""Shares of what a server has a bounded number of: the principal with most loses some before another is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.server.access.principals import Principal

Seat = TypeVar("Seat")


def payer(who: Principal) -> str:
    """Return the name whose share a caller uses: all sessions of a principal use that of the principal."""
    return who.principal or party_of(who)


def party_of(who: Principal) -> str:
    """Return the name of a caller for its whole life: its session, or its principal, whichever key it uses."""
    return who.id if who.session is not None else who.principal or who.id


class Shares(Generic[Seat]):
    """Seats: at most `each` for one principal, and at most `most` in all."""

    def __init__(self, each: int, most: int, drop: Callable[[Seat], None], is_idle: Callable[[Seat], bool]) -> None:
        self._each = each
        self._most = most
        self._drop = drop
        """Called with a seat that was taken away, once it is free."""
        self._is_idle = is_idle
        self._seats: dict[str, dict[Seat, None]] = {}
        """By principal; the one used last is at the end."""
        self.taken = 0

    def take(self, who: str, seat: Seat) -> bool:
        """Take a seat; False if this principal has as many as it may, and uses all of them."""
        own = len(self._seats.get(who, ()))
        if own >= self._each and not self._drop_idle(who):
            return False
        if self.taken >= self._most and not self._make_room(who, own):
            return False
        self._seats.setdefault(who, {})[seat] = None
        self.taken += 1
        return True

    def use(self, who: str, seat: Seat) -> None:
        """Note that a seat is used: those not used for long are taken away first."""
        own = self._seats.get(who, {})
        if seat in own:
            del own[seat]
            own[seat] = None

    def leave(self, who: str, seat: Seat) -> None:
        """Free a seat, if it is still taken."""
        own = self._seats.get(who, {})
        if seat in own:
            del own[seat]
            self.taken -= 1
            if not own:
                del self._seats[who]

    def _make_room(self, who: str, own: int) -> bool:
        """Take a seat away from the principal with most, unless the new one would then have as many."""
        greediest = max(self._seats, key=lambda each: len(self._seats[each]))
        if len(self._seats[greediest]) <= own + 1:
            return self._drop_idle(who)
        return self._drop_idle(greediest) or self._take_away(greediest, next(iter(self._seats[greediest])))

    def _drop_idle(self, who: str) -> bool:
        """Take away the least recently used seat of this principal that is not in use."""
        idle = next((seat for seat in self._seats.get(who, ()) if self._is_idle(seat)), None)
        return idle is not None and self._take_away(who, idle)

    def _take_away(self, who: str, seat: Seat) -> bool:
        self.leave(who, seat)
        self._drop(seat)
        return True
