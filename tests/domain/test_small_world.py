"""Every sequence of up to six commands in a world of two holders and two resources, against the oracle.

Sequences that lead to the same state are followed once: what comes after depends on the state alone. So this is a
walk over states, level by level, in which the first difference found is also one of the shortest.

By default only the first alphabet goes all the way, and of two states that differ in nothing but who is who one is
followed. With LEASEHOLD_PROVE=1 everything is.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pytest

from leasehold.domain import entries, keys
from leasehold.domain.timestamps import SECOND
from tests.domain.duel import SPACE, Duel
from tests.domain.oracle_nouns import Lease, Waiter, Want, Who

if TYPE_CHECKING:
    from collections.abc import Iterator

PROVE = os.environ.get("LEASEHOLD_PROVE") == "1"
pytestmark = pytest.mark.timeout(0 if PROVE else 1_200)
"""The first of them takes a minute of a processor's time, however many others want it."""
TTLS = {"alpha": 10 * SECOND, "beta": 12 * SECOND, "path:src": 10 * SECOND, "path:src/a": 12 * SECOND}
"""Not everything expires at once."""
WAIT = 15 * SECOND
"""Longer than a lease, shorter than two: some waits are served by an expiry, some end."""
ANN, BOB = Who("ann"), Who("bob")


@dataclass
class Game:
    """A duel, and what each holder has in hand."""

    duel: Duel = field(default_factory=Duel)
    leases: dict[Who, Lease] = field(default_factory=dict)
    waiters: dict[Who, Waiter] = field(default_factory=dict)

    def acquire(self, who: Who, want: Want, how: dict[str, Any]) -> bool:
        whose = {"own": who, "other": BOB if who is ANN else ANN}.get(how.get("shows", ""))
        lease = None if whose is None else self._lease(whose)
        shown = frozenset[str]() if lease is None else frozenset(lease.tokens)
        answer = self.duel.acquire(who, want, **{key: how[key] for key in how if key != "shows"}, shown=shown)
        latest = answer.lease or self._lease(who)
        if latest is not None:
            self.leases[who] = latest
        if answer.waiter is not None:
            self.waiters[who] = answer.waiter
        return True

    def _lease(self, who: Who) -> Lease | None:
        """The latest: what it was given at once, or what it had waited for."""
        known = [self.leases.get(who), self.waiters[who].lease if who in self.waiters else None]
        return max((lease for lease in known if lease is not None), key=lambda lease: lease.number, default=None)

    def renew(self, who: Who) -> bool:
        lease = self._lease(who)
        return lease is not None and bool(self.duel.renew(lease, min(lease.tokens)))

    def release(self, who: Who) -> bool:
        lease = self._lease(who)
        return lease is not None and bool(self.duel.release(lease, min(lease.tokens)))

    def force(self, who: Who) -> bool:
        lease = self._lease(who)
        return lease is not None and bool(self.duel.force_lease(lease))

    def leave(self, who: Who) -> bool:
        return who in self.waiters and bool(self.duel.cancel_waiter(self.waiters[who]))

    def cancel(self, who: Who) -> bool:
        return bool(self.duel.cancel(who, REQUEST))

    def cancel_with_token(self, who: Who) -> bool:
        lease = self._lease(who)
        return lease is not None and bool(self.duel.cancel(who, REQUEST, min(lease.tokens)))

    def look(self, who: Who) -> bool:
        """Its engine asks how its wait stands, and picks up what there is."""
        if who in self.waiters:
            self.duel.check(self.waiters[who])
        return who in self.waiters

    def switch(self) -> bool:
        self.duel.switch()
        return True

    def clear(self, resource: str) -> bool:
        return bool(self.duel.clear(resource))

    def advance(self, noticed: bool) -> bool:
        """To the next moment at which something happens by itself."""
        moments = [moment for moment in self.duel.oracle.moments() if moment > self.duel.world.now]
        if not moments:
            return False
        self.duel.advance(moments[0] - self.duel.world.now)
        if noticed:
            self.duel.catch_up()
        return True

    def saved(self) -> bytes:
        """A copy to go on from, several times."""
        hands = [self._lease(who) for who in (ANN, BOB)], self.waiters.values()
        self.duel.forget(*(thing for hand in hands for thing in hand if thing is not None))
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)

    # ---------------------------------------------------------------------------------------- what a state is

    def state(self, *people: Who) -> bytes:
        """What the future depends on: times as seen from now, numbers by their order, people by their place here."""
        names = dict(_names(people))
        hands = [thing for who in people for thing in self._hand(who, people[0])]
        ids = {id_ for id_, _ in hands} | {entry.id for entry in self._all() if isinstance(entry, _NUMBERED)}
        names |= {id_: f"number {place}" for place, id_ in enumerate(sorted(ids, key=keys.number))}
        records = {names.get(key, key): self._seen(key, names) for key in self.duel.world.records}
        seen = ((key, *sorted(map(repr, entries))) for key, entries in sorted(records.items()))
        told = (self.duel.engine, *((names[id_], state) for id_, state in hands), *seen)
        return blake2b(repr(told).encode(), digest_size=16).digest()

    def _opened(self, shown: tuple[str, ...]) -> list[str]:
        """The leases that these tokens open."""
        holds = [entry for entry in self._all() if isinstance(entry, entries.Hold) and entry.ask is not None]
        return [hold.id for hold in holds if hold.ask is not None and not set(shown).isdisjoint(hold.ask.tokens)]

    def _all(self) -> Iterator[entries.Entry]:
        for key in self.duel.world.records:
            yield from self.duel.world.entries(key)

    def _hand(self, who: Who, first: Who) -> list[tuple[str, str]]:
        lease, waiter = self._lease(who), self.waiters.get(who)
        hand = []
        if lease is not None:
            hand.append((self.duel.ids[lease], f"{who is first} {lease.state} {lease.reason} {lease.told}"))
        if waiter is not None:
            hand.append((self.duel.places[waiter], f"{who is first} {waiter.state}"))
        return hand

    def _seen(self, key: str, names: dict[str, str]) -> Iterator[tuple[object, ...]]:
        now = self.duel.world.now
        for entry in self.duel.world.entries(key):
            if isinstance(entry, entries.Hold):
                grip = (entry.mode, entry.slots, names[entry.actor], entry.after, entry.closed)
                ticket = None if entry.ticket is None else names.get(entry.ticket, "of a wait that nobody has in hand")
                yield (names[entry.id], *grip, entry.expires_at - now, _asked(entry.ask), ticket)
            elif isinstance(entry, entries.Waiter):
                place = (entry.mode, entry.slots, names[entry.actor], entry.order[0], entry.engine)
                shown = tuple(sorted(names.get(each, each) for each in self._opened(entry.shown)))
                yield (names[entry.id], *place, entry.deadline - now, _asked(entry.ask), shown)
            elif isinstance(entry, entries.Request):
                became = None if entry.became is None else names.get(entry.became, "over")
                yield ("request", became, entry.body)
            elif isinstance(entry, entries.Poll):
                yield ("wish", entry.slots, entry.until - now, _resources(entry.options))


_NUMBERED = (entries.Hold, entries.Waiter)
REQUEST = "r"
"""The one request_id that everybody uses."""


@cache
def _names(people: tuple[Who, ...]) -> dict[str, str]:
    names = {}
    for place, who in enumerate(people):
        actor = keys.actor(SPACE, who.holder, who.session)
        names[actor] = f"actor {place}"
        names[keys.request(actor, REQUEST, who.holder)] = f"request {place}"
    return names


def _asked(ask: entries.LeaseRequest | None) -> tuple[object, ...]:
    return () if ask is None else (ask.ttl, ask.request is None, *_resources(ask.options))


def _resources(options: tuple[entries.Alternative, ...]) -> tuple[object, ...]:
    return tuple((option.resources, option.claims[0].mode) for option in options)


# ------------------------------------------------------------------------------------------------ the alphabets

Letter = Callable[[Game], bool]
"""One command; False if there is nothing that it could be about."""


def both(*letters: Callable[[Game, Who], bool]) -> list[Letter]:
    """The same for either holder."""
    return [partial(_play, letter, who) for letter in letters for who in (ANN, BOB)]


def _play(letter: Callable[[Game, Who], bool], who: Who, game: Game) -> bool:
    return letter(game, who)


def take(
    *options: tuple[str, ...],
    mode: str = "exclusive",
    slots: int = 1,
    grace: int = 0,
    quarantine: bool = False,
    **how: object,
) -> Callable[[Game, Who], bool]:
    """An acquire that does not wait: one option, or a choice."""
    want = Want(options, mode, slots, TTLS[options[0][0]], grace, quarantine)
    return lambda game, who: game.acquire(who, want, how)


def wait(
    *options: tuple[str, ...], mode: str = "exclusive", slots: int = 1, **how: object
) -> Callable[[Game, Who], bool]:
    """An acquire that waits if it has to."""
    return take(*options, mode=mode, slots=slots, grace=0, quarantine=False, wait=WAIT, **how)


CLOCK: list[Letter] = [partial(Game.advance, noticed=True), partial(Game.advance, noticed=False)]

A, B = ("alpha",), ("beta",)
SRC, FILE = ("path:src",), ("path:src/a",)

ALPHABETS: dict[str, list[Letter]] = {
    "exclusive": [
        *both(take(A), wait(A), wait(B), wait(A + B)),
        *both(Game.renew, Game.release, Game.leave),
        *CLOCK,
    ],
    "choice": [
        *both(take(A), wait(A), wait(A, B), wait(B + A)),
        *both(Game.release, Game.leave),
        *CLOCK,
    ],
    "overlap": [
        *both(take(SRC, mode="shared"), take(FILE), wait(SRC), wait(FILE, mode="shared")),
        *both(Game.release, Game.leave),
        *CLOCK,
    ],
    "slots": [
        *both(take(A, mode="slots", slots=2), wait(A), wait(A + B, mode="slots", slots=2), take(B)),
        *both(Game.release, Game.leave),
        *CLOCK,
    ],
    "requests": [
        *both(take(A, request=REQUEST), wait(A, request=REQUEST), wait(B, request=REQUEST)),
        *both(take(B, A, request=REQUEST)),
        *both(Game.release, Game.leave, Game.cancel, Game.cancel_with_token),
        *CLOCK,
    ],
    "polling": [
        *both(take(A, intent=True), take(B, intent=True, reentrant=True, shows="own"), wait(A), wait(B)),
        *both(Game.release, Game.leave),
        *CLOCK,
    ],
    "oneself": [
        *both(take(SRC, mode="shared"), take(SRC, reentrant=True, shows="own"), wait(FILE, shows="own")),
        *both(wait(SRC, shows="own"), take(FILE, reentrant=True, shows="other")),
        *both(Game.release, Game.leave),
        *CLOCK,
    ],
    "engines": [
        *both(take(A), wait(A), wait(A + B), wait(B, A)),
        *both(Game.release, Game.leave, Game.look),
        Game.switch,
        *CLOCK,
    ],
    "accidents": [
        *both(take(A, grace=5 * SECOND), take(A + B, quarantine=True), wait(B), wait(A, priority=1)),
        *both(Game.release, Game.force),
        partial(Game.clear, resource="alpha"),
        *CLOCK,
    ],
}
LENGTHS = {"exclusive": 6, "requests": 6, "engines": 4}
"""By default; five for the others."""
AT_LEAST = {"exclusive": 60_000, "requests": 3_000, "engines": 2_500, "oneself": 4_000}
"""Steps, so that nobody takes an empty walk for a proof; 5,000 for the others."""


def explore(letters: list[Letter], length: int, *, names_matter: bool) -> tuple[int, int]:
    """Play all sequences of these letters; how many states are gone on from, and how many steps that makes."""
    known = {Game().state(ANN, BOB)}
    level = [Game().saved()]
    steps = 0
    for left in reversed(range(length)):
        following = []
        for game in level:
            for letter in letters:
                after = pickle.loads(game)
                if letter(after):
                    steps += 1
                    if not left:
                        continue
                    state = after.state(ANN, BOB)
                    if state not in known:
                        known.update((state, state if names_matter else after.state(BOB, ANN)))
                        following.append(after.saved())
        level = following
    return len(known), steps


@pytest.mark.parametrize("name", ALPHABETS)
def test_all_sequences(name: str) -> None:
    length = 6 if PROVE else LENGTHS.get(name, 5)
    states, steps = explore(ALPHABETS[name], length, names_matter=PROVE)
    print(f"{name}: all sequences of up to {length} commands: {states} states, {steps} steps")
    assert steps >= AT_LEAST.get(name, 5_000)
