"""What a server has a bounded number of is shared: a principal that takes much loses some before another is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.server.access.principals import Principal

Seat = TypeVar("Seat")


def payer(who: Principal) -> str:
    """Under whose name a principal takes something: a session takes it from its key, however many sessions that has."""
    return who.principal or party_of(who)


def party_of(who: Principal) -> str:
    """What names a caller for as long as it lives: a session, or a principal, whichever of its keys it shows."""
    return who.id if who.session is not None else who.principal or who.id


class Shares(Generic[Seat]):
    """Seats: at most `each` for one principal, and at most `most` for all of them together."""

    def __init__(self, each: int, most: int, drop: Callable[[Seat], None], is_idle: Callable[[Seat], bool]) -> None:
        self._each = each
        self._most = most
        self._drop = drop
        """Called with a seat that had to be given up, once it is free."""
        self._is_idle = is_idle
        self._seats: dict[str, dict[Seat, None]] = {}
        """Of each principal, the one that was used last at the end."""
        self.taken = 0

    def take(self, who: str, seat: Seat) -> bool:
        """False if there is no room: this principal has as many as it may, and uses all of them."""
        own = len(self._seats.get(who, ()))
        if own >= self._each and not self._drop_idle(who):
            return False
        if self.taken >= self._most and not self._make_room(who, own):
            return False
        self._seats.setdefault(who, {})[seat] = None
        self.taken += 1
        return True

    def use(self, who: str, seat: Seat) -> None:
        """Seats that were not used for long go first."""
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
        """Whoever has most gives one up, unless the new one would then have as many."""
        greediest = max(self._seats, key=lambda each: len(self._seats[each]))
        if len(self._seats[greediest]) <= own + 1:
            return self._drop_idle(who)
        return self._drop_idle(greediest) or self._give_up(greediest, next(iter(self._seats[greediest])))

    def _drop_idle(self, who: str) -> bool:
        """Give up the one of this principal that was not used for longest, if one is not in use."""
        idle = next((seat for seat in self._seats.get(who, ()) if self._is_idle(seat)), None)
        return idle is not None and self._give_up(who, idle)

    def _give_up(self, who: str, seat: Seat) -> bool:
        self.leave(who, seat)
        self._drop(seat)
        return True
