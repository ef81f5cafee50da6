"""A second opinion on every promise about leases: naive on purpose, and sharing no code with the rules.

One flat list of leases, one of waiters, one of wishes; everything is found by looking at everything. There are no
nodes, intentions, records or indexes here: resources conflict if their names overlap, and that is all it knows of them.
It is always settled: whatever has lapsed is gone before a command is looked at.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from tests.domain import oracle_pools as pools
from tests.domain.oracle_deadlock import Standstill
from tests.domain.oracle_nouns import (
    Answer,
    Lease,
    Request,
    Session,
    Told,
    Waiter,
    Want,
    Who,
    clash,
    counts_against,
    free_member,
    has_slot,
    is_free,
    is_part,
    lies_in,
    touches,
)
from tests.domain.oracle_plans import Plans

if TYPE_CHECKING:
    from collections.abc import Callable

WISH_LIFE = 60_000_000
PICK_UP = 2_000_000
NEVER = 2**53 - 1
EITHER = "timeout or cancelled"
"""The end of a wait whose own time and whose session's were both over: whichever is noticed first."""


class Oracle:
    """The whole world of one space, and what every command does to it."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.engine = "near"
        """Which engine asks: it knows at once what its own waiters get, the others have to come for it."""
        self.count = 0
        self.leases: list[Lease] = []
        self.waiters: list[Waiter] = []
        self.wishes: list[Waiter] = []
        self.sessions: dict[str, Session] = {}
        self.requests: dict[tuple[str, str], Request] = {}
        self.plans = Plans(self)
        self.pools: dict[str, list[str]] = {}
        """The members that are declared for each, with their labels."""
        self.told: list[Told] = []
        self.served: list[Waiter] = []
        """Who was given what it waited for, since somebody last looked."""
        self.hinted: Callable[[], list[Waiter]] = list
        """Whom the rules have served, in their order: a hint, where the order is a matter of taste."""
        self.own: list[Lease] = []
        """The leases that the caller refused last has proved to be its own."""
        self.standstill: Standstill | None = None
        """How it was when a request was last looked at for a deadlock."""

    # ------------------------------------------------------------------------------------------------- looking

    def live(self) -> list[Lease]:
        return [lease for lease in self.leases if lease.state == "live"]

    def closed(self) -> list[Lease]:
        return [lease for lease in self.leases if lease.state == "closed"]

    def queue(self) -> list[Waiter]:
        """Everybody who waits, for whatever, in the order of service."""
        return sorted((one for one in self.waiters if one.state == "waiting"), key=lambda one: one.order)

    def moments(self) -> list[int]:
        """When something will happen by itself."""
        return sorted(
            {lease.expires_at for lease in self.live()}
            | {lease.closed_until for lease in self.closed() if lease.closed_until != NEVER}
            | {one.deadline for one in (*self.queue(), *self.wishes)}
            | {session.expires_at for session in self.sessions.values()}
            | {plan.expires_at for plan in self.plans.all}
        )

    def tell(self, kind: str, who: Who, lease: Lease | None = None) -> None:
        self.told.append(Told(kind, who.holder, who.session, lease))

    def _number(self) -> int:
        self.count += 1
        return self.count

    # ------------------------------------------------------------------------------------------ what time does

    def settle(self, now: int) -> None:
        """Move the clock; what has lapsed is gone, and waiters that can be served are."""
        self.now = now
        for name, session in list(self.sessions.items()):
            if session.expires_at <= now:
                self._session_gone(name)
        self.plans.settle()
        for waiter in self.queue():
            if waiter.deadline <= now:
                waiter.state = "timeout"
                self.tell("timeout", waiter.who)
        for lease in self.live():
            if lease.expires_at <= now:
                self._lapse(lease)
        self._open_what_was_closed()
        self.wishes = [wish for wish in self.wishes if wish.deadline > now]
        self._serve()

    def _lapse(self, lease: Lease) -> None:
        if lease.ticket is not None:
            # Nobody ever knew of it: nothing can have been left half done, and a retry is a new request.
            lease.state, lease.reason = "gone", "released"
            self.requests = {key: each for key, each in self.requests.items() if each.became is not lease}
            self.tell("cancelled", lease.who, lease)
        else:
            self.tell("expired", lease.who, lease)
            self._unclean(lease, "expired", lease.expires_at)

    def _unclean(self, lease: Lease, reason: str, at: int) -> None:
        lease.reason = reason
        lease.closed_until = NEVER if lease.want.quarantine else at + lease.want.grace
        lease.state = "closed" if lease.closed_until > self.now else "gone"
        if lease.closed_until == NEVER:
            self.tell("quarantined", lease.who, lease)

    def _open_what_was_closed(self) -> None:
        for lease in self.closed():
            if lease.closed_until <= self.now:
                lease.state = "gone"

    def _session_gone(self, name: str) -> None:
        session = self.sessions.pop(name)
        for waiter in self.queue():
            if waiter.who.actor == session.who.actor:
                waiter.state = "cancelled"
                self.tell("cancelled" if waiter.deadline > self.now else EITHER, waiter.who)
        self._drop_wish(session.who)
        self.plans.session_gone(session.who)
        self.tell("session_ended", session.who)

    def _serve(self) -> None:
        """Until nobody else can be served.

        Who waits in different queues may be served in any order, and what is then left for a choice depends on it.
        So the order that the rules have taken is followed where each grant is right at its time.
        """
        while any(self._serve_one(waiter) for waiter in (*self.hinted(), *self.queue())):
            pass

    def _choice(self, waiter: Waiter) -> tuple[str, ...] | None:
        """The first of what it wants that it can have now."""
        ahead = [one for one in self.queue() if one.order < waiter.order]
        return self._first_free(waiter.want, ahead)

    def _first_free(self, want: Want, ahead: list[Waiter]) -> tuple[str, ...] | None:
        """The first choice that can be had; of a pool, the member."""
        if pools.is_pool(want.options[0][0]):
            member = free_member(want.options[0][0], [*self.live(), *self.closed()], ahead)
            return None if member is None else (member,)
        return next((option for option in want.options if self._is_free(option, want, ahead)), None)

    def _serve_one(self, waiter: Waiter) -> bool:
        option = self._choice(waiter) if waiter.state == "waiting" else None
        if option is None:
            return waiter.state == "waiting" and self._send_back(waiter)
        waiter.state = "granted"
        waiter.lease = self._grant(waiter.who, waiter.want, option, waiter.tokens)
        self.plans.take_out(waiter.who, waiter.shown, waiter.lease)
        if waiter.engine != self.engine:
            waiter.lease.ticket = waiter
            waiter.lease.expires_at = min(waiter.lease.expires_at, self.now + PICK_UP)
        for request in self.requests.values():
            if request.became is waiter:
                request.became = waiter.lease
        self.served.append(waiter)
        return True

    def _send_back(self, waiter: Waiter) -> bool:
        """A waiter with only its own leases in its way waits no longer: it has to ask again."""
        ahead = [one for one in self.queue() if one.order < waiter.order]
        if not self._only_own(waiter) or self._is_behind(waiter, ahead):
            return False
        waiter.state = "left"
        self.requests = {key: each for key, each in self.requests.items() if each.became is not waiter}
        self.tell("cancelled", waiter.who)
        return True

    # ---------------------------------------------------------------------------------------- what is one's own

    @staticmethod
    def _is_own(lease: Lease, asked: Waiter) -> bool:
        """By proof: a token of the lease, or the session that has it. Names prove nothing."""
        is_of_session = asked.who.session is not None and lease.who.actor == asked.who.actor
        return lease.state == "live" and (is_of_session or not lease.tokens.isdisjoint(asked.shown))

    def _only_own(self, asked: Waiter) -> bool:
        """Whether each choice is held, and by nobody else."""
        blockers = [self._blockers(option, asked.want) for option in asked.want.options]
        return all(each and all(self._is_own(lease, asked) for lease in each) for each in blockers)

    def _blockers(self, option: tuple[str, ...], want: Want) -> list[Lease]:
        held = self.live()
        if pools.is_pool(option[0]):
            takers = [lease for lease in (*held, *self.closed()) if touches(option, lease.resources)]
            return takers if len(takers) == len(pools.members(option[0])) else []
        found = [lease for lease in held if clash(option, want, lease.resources, lease.want)]
        for resource in option:
            takers = [lease for lease in held if counts_against(resource, want, lease.resources, lease.want)]
            found += takers if want.mode == "slots" and len(takers) >= want.slots else []
        return found + [lease for lease in self.closed() if touches(option, lease.resources)]

    @staticmethod
    def _is_behind(asked: Waiter, ahead: list[Waiter]) -> bool:
        if pools.is_pool(asked.want.options[0][0]):
            return any(touches(asked.want.options[0], one.places) for one in ahead)
        return any(not is_free(option, asked.want, [], ahead) for option in asked.want.options)

    # ------------------------------------------------------------------------------------------------ granting

    def _is_free(self, option: tuple[str, ...], want: Want, ahead: list[Waiter]) -> bool:
        return not self._is_closed(option) and is_free(option, want, self.live(), ahead)

    def _is_closed(self, option: tuple[str, ...]) -> bool:
        return any(touches(option, lease.resources) for lease in self.closed())

    def _grant(self, who: Who, want: Want, option: tuple[str, ...], tokens: set[str]) -> Lease:
        lease = Lease(self._number(), who, want, option, self.now, self._expiry(who, want.ttl), set(tokens))
        self.leases.append(lease)
        self._drop_wish(who)
        self.tell("granted", who, lease)
        return lease

    def _expiry(self, who: Who, ttl: int) -> int:
        until = self.now + ttl
        return until if who.session is None else min(until, self.sessions[who.session].expires_at)

    def _drop_wish(self, who: Who) -> None:
        self.wishes = [wish for wish in self.wishes if wish.who.actor != who.actor]

    # ------------------------------------------------------------------------------------------------- acquire

    def acquire(
        self,
        who: Who,
        want: Want,
        token: str,
        *,
        wait: int = 0,
        priority: int = 0,
        reentrant: bool = False,
        intent: bool = False,
        request: str | None = None,
        shown: frozenset[str] = frozenset(),
        again: Lease | None = None,
    ) -> Answer:
        """Take it, wait for it, or be told no. `again`: which of several own leases came back, if one did."""
        if who.session is not None and who.session not in self.sessions:
            return Answer("Refused", "session_over")
        known = self.requests.get((who.actor, request)) if request is not None else None
        manner = (priority, reentrant)
        again_answer = self._answer_again(known, want, manner, token, wait) if known is not None else None
        if again_answer is not None:
            return again_answer
        named = self._with_members(want)
        if named is None:
            return Answer("Refused", "invalid")
        asked = Waiter(0, who, named, priority, self.now + wait, {token}, self.engine, shown=shown)
        answer = self._acquire(asked, wait, reentrant, intent, again)
        if request is not None and (answer.lease or answer.waiter):
            came_again = answer.lease is not None and answer.detail is False
            self.requests[who.actor, request] = Request(want, answer.lease or answer.waiter, not came_again, manner)
        return answer

    def _with_members(self, want: Want) -> Want | None:
        """The same, with the members of a pool that is declared; None if it is not."""
        if not want.options or not pools.is_undeclared(want.options[0][0]):
            return want
        name = pools.named(want.options[0][0], self.pools)
        return None if name is None else dataclasses.replace(want, options=((name,),))

    def _answer_again(
        self, known: Request, want: Want, manner: tuple[int, bool], token: str, wait: int
    ) -> Answer | None:
        """What the same request was, or is, answered; None if it may be asked anew."""
        if known.became is None:
            return Answer("Refused", "cancelled")
        if (known.want, known.manner) != (want, manner):
            return Answer("Refused", "conflict")
        if isinstance(known.became, Lease) and known.became.state == "live":
            known.became.tokens.add(token)
            if known.became.ticket is not None:
                self._pick_up(known.became)
                self._drop_wish(known.became.who)
            return Answer("Granted", False, known.became)
        if isinstance(known.became, Waiter) and known.became.state == "waiting":
            if known.became.engine != self.engine:
                known.became.tokens.clear()  # a waiter elsewhere has to ask again
            known.became.tokens.add(token)
            known.became.deadline = self.now + wait
            known.became.engine = self.engine
            self.tell("queued", known.became.who)
            return Answer("Queued", waiter=known.became)
        dropped = isinstance(known.became, Waiter) and known.became.state == "left"
        return None if dropped else Answer("Refused", "spent")

    def _acquire(self, asked: Waiter, wait: int, reentrant: bool, intent: bool, again: Lease | None) -> Answer:
        own = self._own_lease(asked, again) if reentrant else None
        if own is not None:
            return self._extend(own, asked)
        if self._other_slots(asked.want):
            return Answer("Refused", "slots_mismatch")
        asked.number = self.count + 1
        ahead = [one for one in self.queue() if one.order < asked.order]
        option = self._first_free(asked.want, ahead)
        if option is not None:
            lease = self._grant(asked.who, asked.want, option, asked.tokens)
            self.plans.take_out(asked.who, asked.shown, lease)
            return Answer("Granted", True, lease)
        if wait and not self._only_own(asked):
            return self._wait(asked)
        return self._refuse(asked, intent and not wait)

    def _own_lease(self, asked: Waiter, again: Lease | None) -> Lease | None:
        fitting = [lease for lease in self.live() if self._is_own(lease, asked) and self._covers(lease, asked)]
        return again if again in fitting else next(iter(fitting), None)

    @staticmethod
    def _covers(lease: Lease, asked: Waiter) -> bool:
        """An exclusive lease covers every mode; what is above covers what is below it, unless others have a part."""
        if pools.is_pool(asked.want.options[0][0]):
            return touches(asked.want.options[0], lease.resources)
        alike = (lease.want.mode, lease.want.slots) == (asked.want.mode, asked.want.slots)
        is_within = is_part if lease.want.mode == "slots" else lies_in
        fits = any(all(is_within(name, lease.resources) for name in option) for option in asked.want.options)
        return fits and (alike or lease.want.mode == "exclusive")

    def _extend(self, lease: Lease, asked: Waiter) -> Answer:
        lease.want = dataclasses.replace(lease.want, ttl=max(lease.want.ttl, asked.want.ttl))
        lease.expires_at = self._expiry(lease.who, lease.want.ttl)
        lease.tokens |= asked.tokens
        lease.ticket = None
        self._drop_wish(asked.who)
        self.tell("renewed", lease.who, lease)
        return Answer("Granted", False, lease)

    def _pick_up(self, lease: Lease) -> None:
        lease.ticket = None
        lease.expires_at = self._expiry(lease.who, lease.want.ttl)
        self.tell("renewed", lease.who, lease)

    def check(self, waiter: Waiter, is_news: bool) -> Answer:
        """How a wait stands, asked by the engine that waits. `is_news`: what became of it, it became just now."""
        lease = waiter.lease
        if lease is not None and lease.state == "live" and lease.ticket is waiter:
            self._pick_up(lease)
            return Answer("Granted", True, lease)
        if is_news and waiter.state == "granted":
            return Answer("Granted", True, waiter.lease)
        if is_news and waiter.state == "timeout":
            return Answer("TimedOut")
        if waiter.state == "waiting":
            return Answer("Queued", waiter=waiter)
        is_over = waiter.who.session is not None and waiter.who.session not in self.sessions
        return Answer("Refused", "session_over") if is_over else Answer("Done")

    def _other_slots(self, want: Want) -> bool:
        """Whether something of it, of each choice, is held with another number of slots."""
        others = [lease for lease in self.live() if lease.want.mode == "slots" and lease.want.slots != want.slots]
        return want.mode == "slots" and all(
            any(is_part(resource, lease.resources) for resource in option for lease in others)
            for option in want.options
        )

    def _wait(self, asked: Waiter) -> Answer:
        if self.closes_a_cycle(asked):
            self._drop_wish(asked.who)
            self.tell("deadlock", asked.who)
            return Answer("Deadlock")
        asked.number = self._number()
        self.waiters.append(asked)
        self.tell("queued", asked.who)
        return Answer("Queued", waiter=asked)

    def _refuse(self, asked: Waiter, intent: bool) -> Answer:
        if intent:
            wish = dataclasses.replace(asked, behind_all=True, deadline=self.now + WISH_LIFE)
            self._drop_wish(asked.who)
            if self.closes_a_cycle(wish):
                self.tell("deadlock", asked.who)
                return Answer("Deadlock")
            self.wishes.append(wish)
        self.tell("refused", asked.who)
        self.own = [lease for lease in self.live() if self._is_own(lease, asked)]
        return Answer("Held")

    # ---------------------------------------------------------------------------------------------- deadlocks

    def closes_a_cycle(self, asked: Waiter) -> bool:
        """Whether waiting would never end; it takes the place of a wish that the same actor may have."""
        wishes = [wish for wish in self.wishes if wish.who.actor != asked.who.actor]
        self.standstill = Standstill(asked, self.live(), [*self.queue(), *wishes])
        return self.standstill.is_deadlock()

    # -------------------------------------------------------------------------------------- renew, release, update

    def _entitled(self, lease: Lease, token: str | None, secret_of: str | None, admin: bool) -> bool:
        return admin or token in lease.tokens or (secret_of is not None and secret_of == lease.who.session)

    def renew(self, lease: Lease, token: str | None, secret_of: str | None, admin: bool, ttl: int | None) -> Answer:
        if lease.state != "live":
            return self._lost(lease)
        if not self._entitled(lease, token, secret_of, admin):
            return Answer("Refused", "not_allowed")
        if ttl is not None:
            lease.want = dataclasses.replace(lease.want, ttl=ttl)
        lease.expires_at = self._expiry(lease.who, lease.want.ttl)
        self.tell("renewed", lease.who, lease)
        return Answer("Renewed", lease=lease)

    def _lost(self, lease: Lease) -> Answer:
        if lease.reason != "released" and not lease.told:
            lease.told = True
            self.tell("lost", lease.who, lease)
        return Answer("Lost", lease.reason)

    def release(self, lease: Lease, token: str | None, secret_of: str | None, admin: bool) -> Answer:
        if lease.state != "live":
            return Answer("Released", False, lease)
        if not self._entitled(lease, token, secret_of, admin):
            return Answer("Refused", "not_allowed")
        self._clean(lease)
        self._serve()
        return Answer("Released", True, lease)

    def _clean(self, lease: Lease) -> None:
        lease.state = "gone"
        lease.reason = "released"
        self.tell("released", lease.who, lease)

    def update(self, lease: Lease, token: str | None, context: dict[str, int], merge: bool) -> Answer:
        if lease.state != "live":
            return self._lost(lease)
        if not self._entitled(lease, token, None, False):
            return Answer("Refused", "not_allowed")
        before = json.loads(lease.context) if merge and lease.context else {}
        lease.context = json.dumps({**before, **context})
        self.tell("updated", lease.who, lease)
        return Answer("Updated", lease=lease)

    # ------------------------------------------------------------------------------------------------- cancel

    def cancel(self, who: Who, request: str, token: str | None, secret_of: str | None, admin: bool) -> Answer:
        known = self.requests.get((who.actor, request))
        was = "unknown"
        if known is None:
            self.requests[who.actor, request] = Request(Want(()), None)
            return Answer("Cancelled", was)
        if isinstance(known.became, Waiter) and known.became.state == "waiting":
            self.cancel_waiter(known.became)
            was = "waiting"
        if isinstance(known.became, Lease) and known.became.state == "live" and known.began_it:
            is_told = known.became.ticket is None
            if is_told and not self._entitled(known.became, token, secret_of, admin):
                return Answer("Refused", "not_allowed")
            self._clean(known.became)
            was = "granted"
        known.became = None
        self._serve()
        return Answer("Cancelled", was)

    def cancel_waiter(self, waiter: Waiter) -> Answer:
        """The waiter there is gone; the same request may still come again, by another way."""
        if waiter.state != "waiting":
            return Answer("Cancelled", "unknown")
        waiter.state = "left"
        self.tell("cancelled", waiter.who)
        self._serve()
        return Answer("Cancelled", "waiting")

    def give_up(self, thing: Lease | Waiter, token: str) -> Answer:
        """The caller with this token is gone; a caller that asked for the same with another token keeps it."""
        if thing.state in ("live", "waiting") and thing.tokens == {token}:
            self._let_go(thing)
        elif thing.state in ("live", "waiting"):
            thing.tokens.discard(token)
        return Answer("Done")

    def _let_go(self, thing: Lease | Waiter) -> None:
        if isinstance(thing, Lease):
            self._clean(thing)
        else:
            thing.state = "left"
            self.tell("cancelled", thing.who)
        self.requests = {
            key: each for key, each in self.requests.items() if each.became is not thing or not each.began_it
        }
        self._serve()

    # ------------------------------------------------------------------------------------------------ sessions

    def start_session(self, who: Who, ttl: int, entitled: bool = True) -> Answer:
        """Begun again by the same holder with the same secret, it is the same session, as it is."""
        assert who.session is not None
        if who.session in self.sessions:
            return Answer("SessionStarted") if entitled else Answer("Refused", "conflict")
        self.sessions[who.session] = Session(who, ttl, self.now + ttl)
        self.tell("session_started", who)
        return Answer("SessionStarted")

    def renew_session(self, name: str, entitled: bool) -> Answer:
        if name not in self.sessions:
            return Answer("Lost")
        if not entitled:
            return Answer("Refused", "not_allowed")
        session = self.sessions[name]
        session.expires_at = self.now + session.ttl
        for lease in self.live():
            if lease.who.session == name and lease.ticket is None:
                lease.expires_at = self._expiry(lease.who, lease.want.ttl)
        self.plans.renew(name)
        self.tell("renewed", session.who)
        return Answer("SessionRenewed")

    def end_session(self, name: str, entitled: bool) -> Answer:
        if name not in self.sessions:
            return Answer("SessionEnded", False)
        if not entitled:
            return Answer("Refused", "not_allowed")
        self._session_gone(name)
        for lease in self.live():
            if lease.who.session == name:
                self._clean(lease)
        self._serve()
        return Answer("SessionEnded", True)

    # --------------------------------------------------------------------------------------------------- force

    def force_lease(self, lease: Lease, by: str, why: str) -> Answer:
        if lease.state != "live":
            return Answer("Released", False, lease)
        self._forced(lease, by, why)
        self._serve()
        return Answer("Released", True, lease)

    def _forced(self, lease: Lease, by: str, why: str) -> None:
        self.tell("forced", lease.who, lease)
        self._unclean(lease, f"forced by {by}: {why}", self.now)

    def force_resource(self, resource: str, by: str, why: str) -> Answer:
        found = [lease for lease in self.live() if resource in lease.resources]
        for lease in found:
            self._forced(lease, by, why)
        self._serve()
        return Answer("Released", bool(found))

    def steal(self, who: Who, want: Want, token: str, by: str, why: str) -> Answer:
        if who.session is not None and who.session not in self.sessions:
            return Answer("Refused", "session_over")
        option = want.options[0]
        is_one_member = not pools.is_undeclared(option[0]) and len(pools.members(option[0])) == 1
        if len(want.options) > 1 or (pools.is_pool(option[0]) and not is_one_member):
            return Answer("Refused", "invalid")
        if self._is_closed(option):
            self.own = []
            return Answer("Held")
        for lease in self._robbed(option, want):
            lease.state = "gone"
            lease.reason = f"forced by {by}: {why}"
            self.tell("forced", lease.who, lease)
        granted = self._grant(who, want, option, {token})
        self._serve()
        return Answer("Granted", True, granted)

    def _robbed(self, option: tuple[str, ...], want: Want) -> list[Lease]:
        """The waiters that cannot stay; of slots, all that have one once none is left."""
        full = [one for one in option if not has_slot(one, want, self.live(), [])]
        return [
            lease
            for lease in self.live()
            if clash(option, want, lease.resources, lease.want)
            or any(counts_against(one, want, lease.resources, lease.want) for one in full)
        ]

    def clear(self, resource: str) -> Answer:
        found = [lease for lease in self.closed() if resource in lease.resources]
        for lease in found:
            lease.state = "gone"
            self.tell("cleared", lease.who, lease)
        self._serve()
        return Answer("Cleared", bool(found))

    def declare_pool(self, pool: str, members: list[str]) -> Answer:
        """Leases and waits go on as they were; who comes later finds the new members."""
        self.pools[pool] = members
        self.tell("noted", Who("ops"))
        return Answer("PoolDeclared")
