"""Simulated callers: they ask for too much, change their minds, repeat themselves, and die. They share one chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain import commands as c
from leasehold.domain import keys
from leasehold.domain.timestamps import FOREVER, SECOND
from leasehold.requests import checks
from leasehold.requests.checks import Settings
from leasehold.testing.asking import asking
from leasehold.testing.simulation.believing import SESSION_TTL, BelievedRequest, Believer

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from typing import Any

    from leasehold.testing.simulation.believing import BelievedNode, Known, Surroundings


CALLS = 3
"""A caller has at most this many calls under way."""
TTL_MOST = 10 * SECOND


class SimulatedCaller(Believer):
    """Somebody who does things at random."""

    def __init__(self, place: Surroundings, name: str, number: int) -> None:
        super().__init__(place, name)
        self._number = number
        """Tells it from those who had its name before: what it makes up must be new."""
        self.chance = place.chance
        self.nodes: dict[str, BelievedNode] = {}
        """Where it has asked for leases, by the engine's key."""
        self._reentrant = self.chance.random() < 0.25
        self._withdrawn: dict[str, dict[str, Any]] = {}
        self._numbers = 0

    def act(self) -> None:
        """Do one thing."""
        possible = [(action, weight) for action, weight, is_possible in _ACTIONS if is_possible(self)]
        actions, weights = zip(*possible, strict=True)
        self.chance.choices(actions, weights)[0](self)

    def _new(self, letter: str) -> str:
        self._numbers += 1
        return f"{self.name}-{self._number}{letter}{self._numbers}"

    def _call(self, command: c.Command, request: str | None = None, lease: str = "") -> None:
        self.submit(BelievedRequest(self.place.a_node(), self.place.now, request=request, lease=lease), command)

    # ----------------------------------------------------------------------------------------- asking

    def ask(self) -> None:
        """Acquire something."""
        if len(self.calls) < CALLS:
            request = None if self._reentrant or self.chance.random() < 0.5 else self._new("r")
            session = f"{self.session.session}.secret" if self.session and self.chance.random() < 0.7 else None
            wish = draw_wish(self.chance, self.name, self._reentrant)
            tokens = [known.token for known in self.leases.values()] if self._reentrant else None
            self._acquire(wish | {"request_id": request, "session": session, "token": tokens})

    def retry(self) -> None:
        """Ask again with a request_id that was used before, perhaps of another process."""
        if self.requests and len(self.calls) < CALLS:
            wish, _ = self.requests[self._some_request()]
            self._acquire(wish | {"wait": self.chance.choice((0, wish["wait"], 2.5))})

    def _some_request(self) -> str:
        return self.chance.choice(list(self.requests)[-4:])

    def _acquire(self, wish: dict[str, Any]) -> None:
        node, token, now = self.place.a_node(), self._new("t"), self.place.now
        command = checks.acquire(wish, Settings(), token, node.engine.key)
        request = wish.get("request_id")
        asked = BelievedRequest(node, now, command.wait, request)
        asked.session = command.ask.session
        if request is not None:
            asked.sent = self.requests.setdefault(request, (wish, now))[1]
            for other in self.calls:
                if other.request == request:  # it is the same wait: it lasts as long as the last of them says
                    other.until, other.wait = max(other.until, asked.until), max(other.wait, asked.wait)
        self.nodes[node.engine.key] = node
        self.submit(asked, command, token)

    def steal(self) -> None:
        """Take over what others hold."""
        wish = draw_wish(self.chance, self.name, self._reentrant) | {"any_of": False, "wait": 0, "reentrant": False}
        node, token = self.place.a_node(), self._new("t")
        command = checks.acquire(wish, Settings(), token, node.engine.key)
        self.nodes[node.engine.key] = node
        self.submit(BelievedRequest(node, self.place.now), c.Steal(self.name, "urgent", command), token)

    # ------------------------------------------------------------------------------------ what it holds

    def renew(self) -> None:
        """Renew some lease; perhaps for longer from now on."""
        known = self._some_lease()
        if known is not None:
            longer = not self._reentrant and self.chance.random() < 0.2 and known.lease.ttl_us * 2 <= TTL_MOST
            self._about(known, c.Renew(known.lease.id, self._proof(known), known.lease.ttl_us * 2 if longer else None))

    def update(self) -> None:
        """Change the context of some lease."""
        known = self._some_lease()
        if known is not None:
            self._about(known, c.Update(known.lease.id, self._proof(known), '{"n":1}', merge=True))

    def release(self) -> None:
        """Give some lease back: from now on it is not sure of it any more."""
        known = self._some_lease()
        if known is not None:
            self._about(known, c.Release(known.lease.id, self._proof(known)))
            self.forget(lambda each: each is known)

    def meddle(self) -> None:
        """Try to release a lease of another caller, or one that is long gone."""
        if self.place.watch.latest:
            lease = self.chance.choice(self.place.watch.latest)
            self._call(c.Release(lease, c.Proof(token=keys.secret_hash("guessed"))))

    def _some_lease(self) -> Known | None:
        idle = [known for known in self.leases.values() if not known.is_busy]
        return self.chance.choice(idle) if idle else None

    def _proof(self, known: Known) -> c.Proof:
        if known.lease.session is not None and self.chance.random() < 0.5:
            return c.Proof(secret=keys.secret_hash("secret"))
        return c.Proof(token=keys.secret_hash(known.token))

    def _about(self, known: Known, command: c.Command) -> None:
        known.is_busy = True
        self._call(command, lease=known.lease.id)

    # ----------------------------------------------------------------------------------- changes of mind

    def cancel(self) -> None:
        """Withdraw a request by its request_id: whatever comes of it now is not for this caller."""
        if self.requests:
            request = self._some_request()
            wish, _ = self.requests.pop(request)
            tokens = [known.token for known in self.leases.values() if known.request == request]
            proof = c.Proof(token=keys.secret_hash(tokens[0])) if tokens else c.NO_PROOF
            self.give_up(lambda asked: asked.request == request)
            self.forget(lambda known: known.request == request)
            self._withdrawn[request] = wish
            session = wish["session"] and wish["session"].partition(".")[0]
            actor = keys.actor("default", self.name, session)
            self._call(c.Cancel(keys.request(actor, request, self.name), proof=proof), request=request)

    def repeat_cancelled(self) -> None:
        """Deliver a late copy of a request that was withdrawn."""
        if self._withdrawn:
            wish = self.chance.choice(list(self._withdrawn.values())[-4:])
            self._acquire(wish)
            self.give_up(lambda asked: asked.request == wish["request_id"])
            self.requests.pop(wish["request_id"], None)

    def abandon(self) -> None:
        """Disconnect from a call; the engine notices."""
        if self.calls:
            asked = self.calls.pop(self.chance.randrange(len(self.calls)))
            asked.given_up = True
            if asked.lease in self.leases:
                self.leases[asked.lease].is_busy = False
            if asked.pending is not None:
                asked.node.engine.abandon(asked.pending)

    def die(self) -> None:
        """Be gone; sometimes nobody notices."""
        self.is_alive = False
        self.excused = self.place.now
        self.forget(lambda _: True)
        if self.chance.random() < 0.3:
            self.excused = FOREVER
            self.calls.clear()
        while self.calls:
            self.abandon()

    # ---------------------------------------------------------------------------------------- sessions

    def start_session(self) -> None:
        """Begin a session, unless it has one."""
        if self.session is None:
            id_ = self._new("s")
            actor = keys.actor("default", self.name, id_)
            self.session = c.StartSession(actor, "default", id_, self.name, keys.secret_hash("secret"), SESSION_TTL)
            self.session_until = 0
            self._call(self.session)

    def heartbeat(self) -> None:
        """Keep the session alive."""
        if self.session is not None:
            self._call(c.RenewSession(self.session.actor, c.Proof(secret=self.session.secret)))

    def end_session(self) -> None:
        """End the session: nothing that it holds is held any more."""
        if self.session is not None:
            ending = c.EndSession(self.session.actor, self.session.session, c.Proof(secret=self.session.secret))
            self.leave_session()
            self._call(ending)


_ACTIONS: tuple[tuple[Callable[[SimulatedCaller], None], int, Callable[[SimulatedCaller], object]], ...] = (
    (SimulatedCaller.ask, 70, lambda caller: len(caller.calls) < CALLS),
    (SimulatedCaller.release, 44, lambda caller: caller.leases),
    (SimulatedCaller.renew, 28, lambda caller: caller.leases),
    (SimulatedCaller.retry, 16, lambda caller: caller.requests),
    (SimulatedCaller.abandon, 10, lambda caller: caller.calls),
    (SimulatedCaller.heartbeat, 10, lambda caller: caller.session),
    (SimulatedCaller.cancel, 6, lambda caller: caller.requests),
    (SimulatedCaller.start_session, 3, lambda caller: caller.session is None),
    (SimulatedCaller.meddle, 2, lambda _: True),
    (SimulatedCaller.update, 2, lambda caller: caller.leases),
    (SimulatedCaller.end_session, 2, lambda caller: caller.session),
    (SimulatedCaller.repeat_cancelled, 1, lambda _: True),
    (SimulatedCaller.steal, 1, lambda _: True),
    (SimulatedCaller.die, 1, lambda _: True),
)
"""The actions of a caller, how often it takes each, and what each requires."""


NAMES = ("a", "b", "c", "path:src", "path:src/x", "path:src/y/z", "issue:1", "deploy://api")
POOL = ("p1", "p2", "p3")
REPOSITORY = "repo:all"
SEMAPHORES = ("sem", "sem", "sem-b", "path:src/sem", ["sem", "sem-b"])

TTLS = (0.05, 0.3, 1, 1, 2, 2, 4, 8)
REENTRANT_TTL = 3
"""Always the same, since asking again with a shorter TTL makes the lease shorter."""
WAITS = (0, 0, 0.1, 0.7, 2, 4)


def draw_wish(chance: random.Random, holder: str, reentrant: bool) -> dict[str, Any]:
    """Draw the arguments of one acquire."""
    wish = _what(chance, holder) | {"wait": chance.choice(WAITS), "reentrant": reentrant}
    if reentrant:
        wish["ttl"] = REENTRANT_TTL
    if chance.random() < 0.1:
        wish["priority"] = chance.choice((-1, 1, 5))
    if chance.random() < 0.2:
        wish["grace"] = chance.choice((0.2, 1))
    if chance.random() < 0.03:
        wish["on_expiry"] = "quarantine"
    if chance.random() < 0.2:
        wish["intent"] = True
    return wish


def _what(chance: random.Random, holder: str) -> dict[str, Any]:
    ttl, draw = chance.choice(TTLS), chance.random()
    if draw < 0.4:
        return asking(chance.choice(NAMES), ttl, holder)
    if draw < 0.55:
        return asking(chance.choice(NAMES), ttl, holder, mode="shared")
    if draw < 0.7:
        mode = chance.choice(("exclusive", "exclusive", "shared"))
        return asking(chance.sample(NAMES, chance.choice((2, 3))), ttl, holder, mode=mode)
    if draw < 0.82:
        names = chance.sample((*POOL, *POOL, *NAMES), 3)
        return asking(names, ttl, holder, any_of=True)
    if draw < 0.97:
        return asking(chance.choice(SEMAPHORES), ttl, holder, slots=chance.choice((2, 2, 2, 2, 2, 2, 3)))
    return asking(REPOSITORY, ttl, holder, mode=chance.choice(("exclusive", "shared")))
