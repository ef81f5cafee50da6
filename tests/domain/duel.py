"""The rules and the oracle side by side: the same command to both, then everything that can be seen is compared."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from leasehold.domain import commands as c
from leasehold.domain import entries, keys, leases, outcomes, sessions, timestamps
from leasehold.requests import checks
from leasehold.testing.asking import asking
from leasehold.testing.world import World
from tests.domain.duel_plans import PlansOfDuel
from tests.domain.oracle import EITHER, Oracle
from tests.domain.oracle_nouns import Answer, Lease, Told, Waiter, Want, Who, clash, counts_against

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from leasehold.domain.entries import Hold
    from leasehold.domain.events import Event
    from leasehold.domain.outcomes import Outcome

SPACE = "default"
SETTINGS = checks.Settings()
LIFE = 3600 * timestamps.SECOND
"""Both engines live longer than any test takes."""
MODES = {"X": "exclusive", "S": "shared", "N": "slots"}


class Duel:
    """One world, seen by both."""

    def __init__(self) -> None:
        self.world = World()
        self.oracle = Oracle(self.world.now)
        self.oracle.hinted = self._hints
        self.engines = {name: keys.engine(name) for name in ("near", "far")}
        for engine in self.engines.values():
            self.world.do(c.Beat(engine, LIFE))
        self.ids: dict[Lease, str] = {}
        self.places: dict[Waiter, str] = {}
        self.asks: dict[Waiter, entries.LeaseRequest] = {}
        self.plans = PlansOfDuel(self)
        self.tokens = 0
        self.highest = 0
        self.agree = True
        """Whether they still do: after the first difference nothing more can be learned."""

    # ------------------------------------------------------------------------------------------------ the clock

    def advance(self, us: int) -> None:
        """Time goes by, and nobody has noticed yet."""
        self.world.advance(us)

    def catch_up(self) -> None:
        """Everybody notices what is due."""
        self.agree = False
        self.world.sweep(self.engine)
        self.oracle.settle(self.world.now)
        self.compare()

    @property
    def engine(self) -> str:
        """Key of the engine that asks."""
        return self.engines[self.oracle.engine]

    def switch(self) -> None:
        """From now on the other engine asks."""
        self.oracle.engine = "far" if self.oracle.engine == "near" else "near"

    def both(self, command: c.Command, ask_oracle: Callable[[Outcome], Answer]) -> Answer:
        """The command to the rules as things are, to the oracle with everything that is due done before."""
        self._notice_choices()
        self.agree = False
        outcome = self.world.do(command, self.engine)
        self.world.sweep(self.engine)
        self.oracle.settle(self.world.now)
        answer = ask_oracle(outcome)
        self._compare_answer(outcome, answer)
        self.oracle.settle(self.world.now)
        self._forget_wishes()
        self.compare()
        return answer

    def _forget_wishes(self) -> None:
        """A grant ends a wish: where the oracle noticed first what was free, it came before, by the rules after it."""
        served = {waiter.who.actor for waiter in self.oracle.served}
        kept = {_actor(wish.who): wish for wish in self.oracle.wishes}
        for key, wish in kept.items():
            if wish.who.actor in served and not any(map(_is_wish, self.world.entries(key))):
                self.oracle.wishes.remove(wish)

    def _notice_choices(self) -> None:
        """What is left for a choice depends on what was free first."""
        if any(len(waiter.want.options) > 1 for waiter in self.oracle.queue()):
            self._notice()

    def _granted(self) -> dict[str, str]:
        """Whom the rules have served since both were last compared, in order, and with which lease."""
        granted = (event for event in self.world.events if event.kind == "granted")
        return {str(event.detail["waiter"]): event.lease or "" for event in granted if "waiter" in event.detail}

    def _hints(self) -> list[Waiter]:
        known = {id_: waiter for waiter, id_ in self.places.items()}
        return [known[id_] for id_ in self._granted() if id_ in known]

    # --------------------------------------------------------------------------------------------- the commands

    def _command(
        self,
        who: Who,
        want: Want,
        *,
        wait: int = 0,
        priority: int = 0,
        reentrant: bool = False,
        intent: bool = False,
        request: str | None = None,
        shown: frozenset[str] = frozenset(),
    ) -> tuple[str, c.Acquire]:
        self.tokens += 1
        token = f"token-{self.tokens}"
        any_of = len(want.options) > 1
        asked = asking(
            resources=[option[0] for option in want.options] if any_of else list(want.options[0]),
            ttl=f"{want.ttl // 1000}ms",
            holder=who.holder,
            space=SPACE,
            wait=f"{wait // 1000}ms",
            mode=want.mode,
            slots=want.slots,
            any_of=any_of,
            session=credential(who.session) if who.session is not None else None,
            priority=priority,
            reentrant=reentrant,
            grace=f"{want.grace // 1000}ms",
            on_expiry="quarantine" if want.quarantine else "free",
            request_id=request,
            intent=intent,
            token=sorted(shown),
        )
        return token, checks.acquire(asked, SETTINGS, token, self.engine)

    def acquire(
        self,
        who: Who,
        want: Want,
        *,
        wait: int = 0,
        priority: int = 0,
        reentrant: bool = False,
        intent: bool = False,
        request: str | None = None,
        shown: frozenset[str] = frozenset(),
    ) -> Answer:
        if request is not None or any(self._matters(waiter, who, want, priority) for waiter in self.oracle.queue()):
            self._notice()
        known = self.oracle.requests.get((who.actor, request or ""))
        if known is not None and (known.want, known.manner) != (want, (priority, reentrant)) and self.world.due():
            self.catch_up()  # a lease that nobody came for is forgotten, and this may be the moment
        token, command = self._command(
            who, want, wait=wait, priority=priority, reentrant=reentrant, intent=intent, request=request, shown=shown
        )
        assert command.wait == wait
        assert command.ask.ttl == want.ttl

        engines = {waiter: waiter.engine for waiter in self.asks}

        def ask_oracle(outcome: Outcome) -> Answer:
            answer = self.oracle.acquire(
                who,
                want,
                token,
                wait=wait,
                priority=priority,
                reentrant=reentrant,
                intent=intent,
                request=request,
                shown=shown,
                again=self._lease(outcome.lease.id) if isinstance(outcome, outcomes.Granted) else None,
            )
            if answer.waiter is not None and engines.get(answer.waiter) != answer.waiter.engine:
                self.asks[answer.waiter] = command.ask
            return answer

        return self.both(command, ask_oracle)

    @staticmethod
    def _matters(waiter: Waiter, who: Who, want: Want, priority: int) -> bool:
        """Whether it matters to this request if the waiter was served before it, or right after."""
        is_own = waiter.who.actor == who.actor
        return is_own or waiter.priority < priority or waiter.want.slots != want.slots

    def _lease(self, id_: str) -> Lease | None:
        return next((lease for lease, known in self.ids.items() if known == id_), None)

    def renew(
        self,
        lease: Lease,
        token: str | None = None,
        secret_of: str | None = None,
        admin: bool = False,
        ttl: int | None = None,
    ) -> Answer:
        return self.both(
            c.Renew(self.ids[lease], proof(token, secret_of, admin), ttl),
            lambda _: self.oracle.renew(lease, token, secret_of, admin, ttl),
        )

    def release(
        self, lease: Lease, token: str | None = None, secret_of: str | None = None, admin: bool = False
    ) -> Answer:
        return self.both(
            c.Release(self.ids[lease], proof(token, secret_of, admin)),
            lambda _: self.oracle.release(lease, token, secret_of, admin),
        )

    def update(self, lease: Lease, token: str, context: dict[str, int], merge: bool) -> Answer:
        written = checks.context_text(context)
        assert written is not None
        return self.both(
            c.Update(self.ids[lease], proof(token), written, merge),
            lambda _: self.oracle.update(lease, token, context, merge),
        )

    def unknown_lease(self, kind: type[c.Renew | c.Release]) -> None:
        """Somebody made up the id of a lease that is still to come."""
        id_ = keys.lease_id(self.world.fence + 100, keys.node(SPACE, "path:src"))
        self.both(kind(id_, proof("made up")), lambda _: Answer("Refused", "not_found"))

    def _notice(self) -> None:
        """Everybody notices what is due, because it matters to this command whether those who wait were served before.

        An admin may force a lease a moment before or after it is passed on, a session may end then, a higher priority
        may come: either answer would be right.
        """
        if self.oracle.queue() and self.world.due():
            self.catch_up()

    def cancel(
        self,
        who: Who,
        request: str,
        token: str | None = None,
        secret_of: str | None = None,
        admin: bool = False,
    ) -> Answer:
        self._notice()
        key = keys.request(keys.actor(SPACE, who.holder, who.session), request, who.holder)
        return self.both(
            c.Cancel(request=key, proof=proof(token, secret_of, admin)),
            lambda _: self.oracle.cancel(who, request, token, secret_of, admin),
        )

    def cancel_waiter(self, waiter: Waiter) -> Answer:
        self._notice()
        return self.both(c.Cancel(waiter=self.places[waiter]), lambda _: self.oracle.cancel_waiter(waiter))

    def give_up(self, thing: Lease | Waiter, token: str) -> Answer:
        """Nobody is left who asked for this with this token."""
        self._notice()
        id_ = self.ids[thing] if isinstance(thing, Lease) else self.places[thing]
        return self.both(c.GiveUp(id_, keys.secret_hash(token)), lambda _: self.oracle.give_up(thing, token))

    def check(self, waiter: Waiter) -> None:
        """The engine that waits asks how the wait stands."""
        before = self.oracle.engine
        self.oracle.engine = waiter.engine
        self._notice_choices()
        was = waiter.state
        command = c.Check(self.places[waiter], self.asks[waiter])
        self.both(command, lambda _: self.oracle.check(waiter, is_news=was == "waiting"))
        self.oracle.engine = before

    def start_session(self, who: Who, ttl: int, *, secret_of: str | None = None, by: str | None = None) -> Answer:
        """Begin it with its own secret or another one's, and by its own holder or another one."""
        assert who.session is not None
        actor = keys.actor(SPACE, who.holder, who.session)
        secret = keys.secret_hash(credential(secret_of or who.session).rpartition(".")[2])
        command = c.StartSession(actor, SPACE, who.session, by or who.holder, secret, ttl)
        entitled = secret_of is None and by is None
        return self.both(command, lambda _: self.oracle.start_session(who, ttl, entitled))

    def renew_session(self, who: Who, entitled: bool = True) -> Answer:
        assert who.session is not None
        name = who.session
        command = c.RenewSession(keys.actor(SPACE, who.holder, name), proof(secret_of=name if entitled else "other"))
        return self.both(command, lambda _: self.oracle.renew_session(name, entitled))

    def end_session(self, who: Who, entitled: bool = True) -> Answer:
        self._notice()
        assert who.session is not None
        name = who.session
        shown = proof(secret_of=name if entitled else "other")
        command = c.EndSession(keys.actor(SPACE, who.holder, name), name, shown)
        return self.both(command, lambda _: self.oracle.end_session(name, entitled))

    def force_lease(self, lease: Lease) -> Answer:
        command = c.Force("ops", "stuck", lease=self.ids[lease])
        return self.both(command, lambda _: self.oracle.force_lease(lease, "ops", "stuck"))

    def force_resource(self, resource: str) -> Answer:
        self._notice()
        command = c.Force("ops", "stuck", node=own_node(resource), resource=resource)
        return self.both(command, lambda _: self.oracle.force_resource(resource, "ops", "stuck"))

    def steal(self, who: Who, want: Want) -> Answer:
        self._notice()
        token, command = self._command(who, want)
        return self.both(
            c.Steal("ops", "urgent", command),
            lambda _: self.oracle.steal(who, want, token, "ops", "urgent"),
        )

    def clear(self, resource: str) -> Answer:
        command = c.Clear("ops", "looked after", SPACE, resource, own_node(resource))
        return self.both(command, lambda _: self.oracle.clear(resource))

    def declare_pool(self, pool: str, members: list[str]) -> Answer:
        command = c.DeclarePool("ops", SPACE, pool, own_node(f"{pool}/any"), tuple(members))
        return self.both(command, lambda _: self.oracle.declare_pool(pool, members))

    # ----------------------------------------------------------------------------------------- what was answered

    def _compare_answer(self, outcome: Outcome, answer: Answer) -> None:
        assert type(outcome).__name__ == answer.kind, f"{outcome} but the oracle says {answer}"
        if isinstance(outcome, outcomes.Granted):
            assert outcome.fresh == answer.detail
            assert answer.lease is not None
            self._same_terms(answer.lease, outcome.lease)
        elif isinstance(outcome, outcomes.Renewed | outcomes.Updated):
            assert answer.lease is not None
            self._same_terms(answer.lease, outcome.lease)
        elif isinstance(outcome, outcomes.Queued):
            assert answer.waiter is not None
            assert self.places.setdefault(answer.waiter, outcome.waiter) == outcome.waiter
        elif isinstance(outcome, outcomes.Deadlock):
            self._compare_cycle(outcome.cycle)
        else:
            assert detail_of(outcome) == answer.detail, f"{outcome} but the oracle says {answer}"
        if isinstance(outcome, outcomes.Held):
            assert outcome.blockers
            self._compare_own(outcome)

    def _compare_own(self, outcome: outcomes.Held) -> None:
        """Just those blockers are told to be the caller's own that it has proved to be."""
        for blocker in outcome.blockers:
            lease = self._lease(blocker.lease)
            if lease is not None:
                assert blocker.yours == (lease in self.oracle.own), f"{blocker} of {self.oracle.own}"

    def _compare_cycle(self, cycle: tuple[str, ...]) -> None:
        assert len(cycle) % 2 == 0
        assert len(cycle) >= 4
        assert self.oracle.standstill is not None
        pairs = list(zip(cycle[::2], cycle[1::2], strict=True))
        assert self.oracle.standstill.is_cycle(pairs), f"not a cycle: {cycle}"

    def _same_lease(self, lease: Lease, told: leases.Lease) -> None:
        assert self.ids.setdefault(lease, told.id) == told.id
        assert (told.resources, told.holder, told.session) == (lease.resources, lease.who.holder, lease.who.session)
        assert (told.mode, told.slots, told.acquired_us) == (lease.want.mode, lease.want.slots, lease.acquired_at)
        assert told.fence == keys.number(told.id)

    def _same_terms(self, lease: Lease, told: leases.Lease) -> None:
        """As it is now: so not for a lease that was granted in passing, and then renewed by the very same command."""
        self._same_lease(lease, told)
        assert (told.ttl_us, told.expires_us) == (lease.want.ttl, lease.expires_at)
        assert json.loads(told.context or "null") == json.loads(lease.context or "null")

    # ------------------------------------------------------------------------------------------- what can be seen

    def compare(self) -> None:
        """Both see the same: who was served, what was told, who holds what until when, who waits in which order."""
        self._compare_served()
        self._compare_events()
        self._compare_leases()
        self._compare_queues()
        self._compare_actors()
        self.plans.compare()
        self._nobody_holds_against_another()
        self.agree = True

    def _compare_served(self) -> None:
        granted = self._granted()
        assert granted.keys() == {self.places[waiter] for waiter in self.oracle.served}
        for waiter in self.oracle.served:
            assert waiter.lease is not None
            assert self.ids.setdefault(waiter.lease, granted[self.places[waiter]]) == granted[self.places[waiter]]
        ours = [waiter for waiter in self.oracle.served if waiter.engine == self.oracle.engine]
        picked_up = dict(self.world.picked_up)
        assert picked_up.keys() == {self.places[waiter] for waiter in ours}
        for waiter in ours:
            assert waiter.lease is not None
            self._same_lease(waiter.lease, picked_up[self.places[waiter]])
        self.world.picked_up.clear()
        self.oracle.served.clear()

    def _compare_events(self) -> None:
        theirs = Counter(map(_event, self.world.events))
        ours = Counter(self._told(told) for told in self.oracle.told if told.kind != EITHER)
        for told in self.oracle.told:
            if told.kind == EITHER:
                who = (told.holder, told.session)
                ours["timeout" if theirs["timeout", who] > ours["timeout", who] else "cancelled", who] += 1
        assert theirs == ours, f"told only by the rules: {theirs - ours}; only by the oracle: {ours - theirs}"
        fences = [event.fence for event in self.world.events if event.kind == "granted"]
        assert fences == sorted(set(fences)), "fences are not unique and growing"
        assert all(fence > self.highest for fence in fences)
        self.highest = max(fences, default=self.highest)
        self.world.events.clear()
        self.oracle.told.clear()

    def _told(self, told: Told) -> tuple[object, ...]:
        return (told.kind, self.ids[told.lease] if told.lease else (told.holder, told.session))

    def homes(self) -> dict[str, Hold]:
        """Every lease that the rules know, live or closed, by its id."""
        records = self.world.records.values()
        return {hold.id: hold for record in records for hold in record.holds.values() if hold.ask is not None}

    def _compare_leases(self) -> None:
        ours = {
            self.ids[lease]: (*_seen(lease), self._ticket(lease))
            for lease in (*self.oracle.live(), *self.oracle.closed())
        }
        theirs = {id_: _held(hold) for id_, hold in self.homes().items()}
        assert theirs == ours
        for hold in self.homes().values():
            self._is_whole(hold)
        claims = sum(len(hold.ask.options[0].claims) for hold in self.homes().values() if hold.ask)
        assert claims == sum(len(record.holds) for record in self.world.records.values())

    def _ticket(self, lease: Lease) -> str | None:
        return self.places[lease.ticket] if lease.state == "live" and lease.ticket is not None else None

    def _is_whole(self, home: Hold) -> None:
        """A lease tells the same on every node that it covers."""
        assert home.ask is not None
        for claim in home.ask.options[0].claims:
            hold = self.world.records[claim.node].holds[home.id]
            assert (hold.closed, hold.expires_at, hold.actor) == (home.closed, home.expires_at, home.actor)
            assert hold.fence == home.fence
            assert hold.closed or hold.mode == claim.mode

    def _compare_queues(self) -> None:
        ours: dict[str, list[str]] = {}
        for waiter in self.oracle.queue():
            for node in _nodes(self.asks[waiter]):
                ours.setdefault(node, []).append(self.places[waiter])
        theirs = {
            key: [waiter.id for waiter in record.waiters]
            for key, record in self.world.records.items()
            if record.waiters
        }
        assert theirs == ours
        deadlines = {self.places[waiter]: waiter.deadline for waiter in self.oracle.queue()}
        for record in self.world.records.values():
            assert all(waiter.deadline == deadlines[waiter.id] for waiter in record.waiters)

    def _compare_actors(self) -> None:
        ours: Counter[tuple[str, object]] = Counter()
        for lease in self.oracle.live():
            ours[_actor(lease.who), self.ids[lease]] += 1
        for waiter in self.oracle.queue():
            ours[_actor(waiter.who), self.places[waiter]] += 1
        for wish in self.oracle.wishes:
            ours[_actor(wish.who), ("wish", wish.deadline)] += 1
        for plan in self.oracle.plans.all:
            ours[_actor(plan.who), self.plans.ids[plan]] += 1
        for session in self.oracle.sessions.values():
            ours[_actor(session.who), ("session", session.expires_at)] += 1
        theirs = Counter(
            (key, _note(note))
            for key, record in self.world.records.items()
            if key.startswith("a")
            for note in record.notes.values()
        )
        assert theirs == ours

    def _nobody_holds_against_another(self) -> None:
        """From what the rules have stored alone, without asking the oracle what it thinks is held."""
        live = [_grip(hold) for hold in self.homes().values() if not hold.closed and hold.expires_at > self.world.now]
        for number, (mine, me) in enumerate(live):
            others = live[:number] + live[number + 1 :]
            assert not any(clash(mine, me, theirs, other) for theirs, other in others)
            for resource in mine if me.mode == "slots" else ():
                assert sum(counts_against(resource, me, theirs, other) for theirs, other in others) < me.slots

    def forget(self, *kept: Lease | Waiter) -> None:
        """Do not keep what is over, except for these: nobody will ask about it again."""
        self.oracle.leases = [lease for lease in self.oracle.leases if lease.state != "gone" or lease in kept]
        promised = [lease.ticket for lease in self.oracle.leases if lease.state == "live" and lease.ticket is not None]
        self.oracle.waiters = [
            one for one in self.oracle.waiters if one.state == "waiting" or one in kept or one in promised
        ]
        self.ids = {lease: self.ids[lease] for lease in self.oracle.leases}
        self.places = {waiter: self.places[waiter] for waiter in self.oracle.waiters}
        self.asks = {waiter: self.asks[waiter] for waiter in self.oracle.waiters}
        self.oracle.standstill = None

    # ------------------------------------------------------------------------------------------------- at the end

    def wind_up(self) -> None:
        """When everything is given back or cleared there is nothing left but notes, and in the end not even those."""
        for pool in self.oracle.pools:
            self.declare_pool(pool, [])
        for session in list(self.oracle.sessions.values()):
            self.end_session(session.who)
        for waiter in self.oracle.queue():
            if waiter.state == "waiting":
                self.cancel_waiter(waiter)
        for lease in self.oracle.live():
            self.release(lease, admin=True)
        for plan in list(self.oracle.plans.all):
            self.plans.release(plan, admin=True)
        self.oracle.wishes.clear()
        for lease in self.oracle.closed():
            self.world.do(c.Clear("ops", "over", SPACE, lease.resources[0], own_node(lease.resources[0])))
        kept = entries.End | entries.Request | entries.Poll
        for engine in self.engines.values():
            self.world.do(c.Beat(engine, None))
        for key in self.world.records:
            assert all(isinstance(entry, kept) for entry in self.world.entries(key))
        self.world.advance(48 * 3600 * timestamps.SECOND)
        self.world.sweep()
        assert not self.world.records


def credential(session: str) -> str:
    """How a session shows who it is."""
    return f"{session}.secret-of-{session}"


def proof(token: str | None = None, secret_of: str | None = None, admin: bool = False) -> c.Proof:
    session = credential(secret_of) if secret_of is not None else None
    return checks.proof(token, session, "ops" if admin else None)


def own_node(resource: str) -> str:
    command = checks.acquire(asking(resource, "1s", "anybody"), SETTINGS, "token", "e")
    return command.ask.options[0].claims[0].node


def detail_of(outcome: Outcome) -> str | bool | None:
    """The part of an outcome that the oracle has an opinion about."""
    if isinstance(outcome, outcomes.Refused):
        return outcome.code
    if isinstance(outcome, outcomes.Lost):
        return outcome.reason if outcome.lease else None
    if isinstance(outcome, outcomes.Released):
        return outcome.released
    if isinstance(outcome, outcomes.Cancelled):
        return outcome.was
    if isinstance(outcome, outcomes.Cleared):
        return outcome.cleared
    return outcome.ended if isinstance(outcome, sessions.SessionEnded) else None


def _event(event: Event) -> tuple[object, ...]:
    is_of_plan = event.kind in ("planned", "plan_ended")
    return (event.kind, (event.holder, event.session) if is_of_plan else event.lease or (event.holder, event.session))


def _seen(lease: Lease) -> tuple[object, ...]:
    until = lease.expires_at if lease.state == "live" else lease.closed_until
    return (
        _actor(lease.who),
        lease.resources,
        lease.want.mode,
        lease.want.slots,
        lease.acquired_at,
        until,
        lease.state,
    )


def _held(hold: Hold) -> tuple[object, ...]:
    assert hold.ask is not None
    state = "closed" if hold.closed else "live"
    resources, mode = hold.ask.options[0].resources, MODES[hold.ask.mode]
    grip = (hold.actor, resources, mode, hold.ask.slots, hold.acquired_at, hold.expires_at, state)
    return (*grip, hold.ticket if state == "live" else None)


def _grip(hold: Hold) -> tuple[tuple[str, ...], Want]:
    assert hold.ask is not None
    resources = hold.ask.options[0].resources
    return resources, Want((resources,), MODES[hold.ask.mode], hold.ask.slots)


def _nodes(ask: entries.LeaseRequest) -> Iterable[str]:
    return dict.fromkeys(claim.node for option in ask.options for claim in option.claims)


def _actor(who: Who) -> str:
    return keys.actor(SPACE, who.holder, who.session)


def _is_wish(entry: entries.Entry) -> bool:
    return isinstance(entry, entries.Poll)


def _note(note: entries.Note) -> object:
    if isinstance(note, entries.Poll):
        return ("wish", note.until)
    return ("session", note.expires_us) if isinstance(note, sessions.Session) else note.id
