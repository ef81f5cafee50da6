"""Plans: what an agent is about to touch, announced before it works. A plan grants nothing and blocks nobody. Pure.

The plan itself is in the record of its actor. Each node that a lease on its resources would need has a mark of it, by
which plans, leases and waits that overlap are found. No rule about leases reads marks, except to take out what was
leased.
"""

from __future__ import annotations

from leasehold.domain import keys, names
from leasehold.domain.entries import NAMED_MODES, OWN_MODES, PlanMark, PlanTerms
from leasehold.domain.events import Event
from leasehold.domain.outcomes import Planned, Refused, Released
from leasehold.domain.plans import Overlap, Plan
from leasehold.domain.records import resources_of
from leasehold.domain.rules.acquiring import freshen, refuse_session
from leasehold.domain.rules.conflicts import concerns, load, modes_of
from leasehold.domain.rules.ending import terms as terms_of
from leasehold.domain.rules.granting import NOT_ALLOWED, expiry, is_entitled, nodes_of, session_of, waiting_for
from leasehold.domain.rules.limits import PLANS_PER_ACTOR
from leasehold.domain.rules.telling import by_hold, who_wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

    from leasehold.domain.commands import Announce, EndPlan
    from leasehold.domain.entries import Claim, Hold, LeaseRequest, Record, Waiter
    from leasehold.domain.outcomes import Outcome
    from leasehold.domain.rules import Draft

OVERLAPS_TOLD: Final = 100
"""A plan names at most this many overlaps."""


def announce(draft: Draft, command: Announce) -> Outcome:
    """Announce a plan in place of the caller's own earlier one, and answer with everything that overlaps with it."""
    asked = command.acquire
    ask, actor = asked.ask, asked.actor
    refusal = refuse_session(draft, asked)
    if refusal is not None:
        return refusal
    session = session_of(draft, actor) if ask.session is not None else None
    if session is not None:  # it acts in its own name, whichever holder the caller names
        ask = ask._replace(holder=session.holder)
    freshen(draft, ask)
    end_due(draft, actor, draft.now)
    known = all_of(draft.record(actor))
    own = [plan for plan in known if _is_own(plan, ask, actor, asked.shown)]
    if len(known) - len(own) >= PLANS_PER_ACTOR:
        most = f"at most {PLANS_PER_ACTOR} plans a holder: end one, or show its token to replace it"
        return Refused("too_many", "holder", most)
    since = draft.now
    for plan in own:
        if set(resources_of(ask)) <= set(resources_of(plan.ask)):
            since = min(since, plan.since)  # nothing new is planned: the plan only goes on
        _end(draft, plan, "replaced")
    mine = _with_mine((each for plan in own for each in plan.mine), _opened(draft, ask, asked.shown))
    plan = PlanTerms(keys.plan_id(draft.number(), actor), ask, since, expiry(draft, actor, ask), mine)
    _write(draft, plan)
    told: dict[str, object] = {"ttl": ask.ttl, "expires_at": plan.until, "name": ask.name, "reason": ask.reason}
    _tell(draft, "planned", plan, told)
    return Planned(shown(draft, plan), "")


def _opened(draft: Draft, ask: LeaseRequest, tokens: tuple[str, ...]) -> list[str]:
    """Return the ids of the leases that overlap with this request and that these tokens open."""
    if not tokens:
        return []
    holds = [hold for node in nodes_of(ask) for hold in draft.record(node).holds.values()]
    draft.require([keys.home(hold.id) for hold in holds])
    opened = [hold for hold in holds if not set(tokens).isdisjoint(terms_of(draft, hold).tokens)]
    return [hold.id for hold in opened if _do_meet(resources_of(ask), resources_of(terms_of(draft, hold)))]


def _with_mine(known: Iterable[str], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*known, *more)))[-OVERLAPS_TOLD:]


def end(draft: Draft, command: EndPlan) -> Outcome:
    """End exactly this plan; a second time it is no longer there."""
    plan = live(draft, command.plan)
    if plan is None:
        if keys.number(command.plan) >= draft.fence:
            return Refused("not_found", "lease", f"there never was a plan {command.plan}")
        return Released(command.plan, False, "released")
    if not is_entitled(draft, keys.plan_home(plan.id), plan.ask, command.proof):
        return NOT_ALLOWED
    _end(draft, plan, "released", command.proof.admin)
    return Released(plan.id, True, "completed", resources_of(plan.ask))


def end_due(draft: Draft, actor: str, at: int, reason: str = "expired") -> None:
    """End the plans of an actor that end at this time or before; `FOREVER` ends all of them."""
    for plan in all_of(draft.record(actor)):
        if plan.until <= at:
            _end(draft, plan, reason)


def take_out(draft: Draft, hold: Hold, shown: tuple[str, ...]) -> None:
    """Take what this new lease covers out of the plans that are its holder's own, by its session or a shown token."""
    ask = terms_of(draft, hold)
    granted = ask.options[0]
    met = {plan.id: plan for claim in granted.claims for plan in _plans_at(draft, claim.node, claim.mode)}
    for plan in met.values():
        if _do_meet(resources_of(plan.ask), granted.resources) and _is_own(plan, ask, hold.actor, shown):
            _leave_out(draft, plan, granted.resources, hold)


def _leave_out(draft: Draft, plan: PlanTerms, leased: tuple[str, ...], hold: Hold) -> None:
    """Leave out the planned names that lie in leased ones; end the plan once none is left."""
    left = tuple(
        [each for each in plan.ask.options if not any(names.lies_in(each.resources[0], name) for name in leased)]
    )
    if not left:
        _end(draft, plan, "leased")
        return
    mine = plan.mine if hold.actor == keys.plan_home(plan.id) and plan.ask.session else _with_mine(plan.mine, [hold.id])
    if len(left) < len(plan.ask.options):
        _remove(draft, plan)
        _write(draft, plan._replace(ask=plan.ask._replace(options=left), mine=mine))
    elif mine != plan.mine:
        draft.put(keys.plan_home(plan.id), plan._replace(mine=mine))


def _is_own(plan: PlanTerms, ask: LeaseRequest, actor: str, shown: tuple[str, ...]) -> bool:
    """Return True if the asking session announced it, or if a shown token opens it; a name proves nothing."""
    if ask.session is not None and keys.plan_home(plan.id) == actor:
        return True
    return bool(shown) and not set(shown).isdisjoint(plan.ask.tokens)


# ------------------------------------------------------------------------------------------------ entries


def live(draft: Draft, id_: str) -> PlanTerms | None:
    """Return the plan of this id, unless it is over."""
    plan = draft.record(keys.plan_home(id_)).notes.get(id_)
    return plan if isinstance(plan, PlanTerms) and plan.until > draft.now else None


def all_of(record: Record) -> list[PlanTerms]:
    """Return the plans in the record of an actor."""
    return [note for note in record.notes.values() if isinstance(note, PlanTerms)]


def _marks(record: Record) -> list[PlanMark]:
    return [note for note in record.notes.values() if isinstance(note, PlanMark)]


def _write(draft: Draft, plan: PlanTerms) -> None:
    draft.put(keys.plan_home(plan.id), plan)
    for node, mode in modes_of(plan.ask).items():
        draft.put(node, PlanMark(plan.id, mode))


def _remove(draft: Draft, plan: PlanTerms) -> None:
    draft.require(nodes_of(plan.ask))
    draft.drop(keys.plan_home(plan.id), plan.id)
    for node in nodes_of(plan.ask):
        draft.drop(node, plan.id)


def _end(draft: Draft, plan: PlanTerms, reason: str, by: str | None = None) -> None:
    _remove(draft, plan)
    _tell(draft, "plan_ended", plan, {"reason": reason, **({} if by is None else {"by": by})})


def _tell(draft: Draft, kind: str, plan: PlanTerms, detail: dict[str, object]) -> None:
    ask = plan.ask
    if ask.principal is not None:
        detail |= {"principal": ask.principal, "key": ask.key}
    where = (ask.space, resources_of(ask), ask.holder, ask.session)
    draft.events.append(Event(kind, draft.now, *where, plan.id, 0, detail))


# --------------------------------------------------------------------------------------------- the matrix


def shown(draft: Draft, plan: PlanTerms) -> Plan:
    """Return the plan as everybody may see it, with all that overlaps with it and is not its agent's own."""
    return _seen(draft, plan, tuple(_overlaps(draft, plan)[:OVERLAPS_TOLD]))


def _seen(draft: Draft, plan: PlanTerms, overlaps: tuple[Overlap, ...]) -> Plan:
    ask = plan.ask
    return Plan(
        plan.id,
        ask.space,
        resources_of(ask),
        ask.holder,
        ask.session,
        ask.name,
        ask.reason,
        ask.ttl,
        plan.since,
        plan.until,
        draft.now,
        overlaps,
        ask.principal,
        ask.key,
    )


def on(draft: Draft, name: str, claims: Iterable[Claim]) -> tuple[Plan, ...]:
    """Return the live plans that overlap with this name, the oldest first."""
    found: dict[str, PlanTerms] = {}
    for claim in claims:
        for plan in _plans_at(draft, claim.node, claim.mode):
            if touches(plan, name):
                found[plan.id] = plan
    return tuple([_seen(draft, plan, ()) for plan in sorted(found.values(), key=lambda plan: plan.since)])


def touches(plan: PlanTerms, name: str) -> bool:
    """Return True if this name overlaps with a planned one."""
    return any(_meet(name, other) for other in resources_of(plan.ask))


def _plans_at(draft: Draft, node: str, mode: str) -> list[PlanTerms]:
    """Return the live plans with a mark at this node that may overlap with what is wanted there in this mode."""
    telling = (*OWN_MODES, *NAMED_MODES)
    marks = [mark for mark in _marks(draft.record(node)) if mode in telling or mark.mode in telling]
    draft.require([keys.plan_home(mark.id) for mark in marks])
    return [plan for mark in marks if (plan := live(draft, mark.id)) is not None]


def _do_meet(some: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return any(_meet(one, other) for one in some for other in others)


def _meet(name: str, other: str) -> bool:
    return names.lies_in(name, other) or names.lies_in(other, name) or names.overlaps(name, other)


def _overlaps(draft: Draft, plan: PlanTerms) -> list[Overlap]:
    wanted = resources_of(plan.ask)
    found: dict[str, list[Overlap]] = {}
    for node, mode in modes_of(plan.ask).items():
        for other in _plans_at(draft, node, mode):
            is_own = other.id == plan.id or _is_own(other, plan.ask, keys.plan_home(plan.id), ())
            if other.id not in found and not is_own:
                names_ = resources_of(other.ask)
                found[other.id] = _cells(wanted, names_, "planned", other.ask, other.since, other.until, other.id)
        holds = [hold for hold in draft.record(node).holds.values() if hold.expires_at > draft.now]
        load(draft, mode, holds)
        for hold in holds:
            if hold.id not in found and concerns(draft, mode, wanted, hold):
                found[hold.id] = _with_lease(draft, wanted, hold, plan)
        for waiter in who_wait(draft, node, mode, wanted):
            if waiter.id not in found:
                found[waiter.id] = _with_waiter(draft, wanted, waiter, plan)
    return sorted((each for rows in found.values() for each in rows), key=lambda each: (each.since_us, each.id))


def _with_lease(draft: Draft, wanted: tuple[str, ...], hold: Hold, plan: PlanTerms) -> list[Overlap]:
    ask = terms_of(draft, hold)
    if hold.id in plan.mine or (plan.ask.session is not None and hold.actor == keys.plan_home(plan.id)):
        return []
    state = by_hold(draft, hold).state
    return _cells(wanted, ask.options[0].resources, state, ask, hold.acquired_at, hold.expires_at, hold.id)


def _with_waiter(draft: Draft, wanted: tuple[str, ...], waiter: Waiter, plan: PlanTerms) -> list[Overlap]:
    draft.require([keys.home(waiter.id)])
    ask = waiting_for(draft, waiter)
    is_proved = not set(waiter.shown).isdisjoint(plan.ask.tokens)
    if is_proved or (plan.ask.session is not None and waiter.actor == keys.plan_home(plan.id)):
        return []
    return _cells(wanted, resources_of(ask), "waiting", ask, waiter.since, waiter.deadline, waiter.id)


def _cells(
    wanted: tuple[str, ...], others: tuple[str, ...], state: str, ask: LeaseRequest, since: int, until: int, id_: str
) -> list[Overlap]:
    """Return one overlap for each planned name and each name of the other agent that meet."""
    return [
        Overlap(one, other, state, ask.holder, ask.session, ask.name, ask.reason, since, until, id_)
        for one in wanted
        for other in others
        if _meet(one, other)
    ]
