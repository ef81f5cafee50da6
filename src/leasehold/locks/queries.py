"""Queries that change nothing: inspect, list, graph, history, sessions, keys."""

from __future__ import annotations

from leasehold.domain import keys, names
from leasehold.domain.api_keys import Key
from leasehold.domain.entries import EXCLUSIVE, MODE_NAMES, PlanTerms, Poll, Ref
from leasehold.domain.leases import Inspection, Waiting
from leasehold.domain.rules import Draft, Missing
from leasehold.domain.rules import plans as planned
from leasehold.domain.rules.conflicts import concerns, load
from leasehold.domain.rules.ending import lapse, terms
from leasehold.domain.rules.granting import lease_of, nodes_of, waiting_for
from leasehold.domain.rules.picture import picture
from leasehold.domain.rules.telling import by_hold, who_wait
from leasehold.domain.sessions import Session
from leasehold.requests import checks
from leasehold.requests.lookups import history_query
from leasehold.requests.verbs import EDGES_MOST
from leasehold.stores import SERVERS, HistoryQuery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from leasehold.domain.entries import Claim, Record, Waiter
    from leasehold.domain.events import Event
    from leasehold.domain.graph import Graph
    from leasehold.domain.leases import Lease
    from leasehold.domain.plans import Plan
    from leasehold.requests.checks import Settings
    from leasehold.stores.protocol import Store

    T = TypeVar("T")

READ_AT_ONCE = 256
"""Records read at a time where there may be thousands, so that other threads get their turn in between."""
DEADLOCKS_TOLD = 20


def inspect(store: Store, settings: Settings, resource: object, space: object) -> Inspection:
    """Return the holders and the queue of one resource."""
    name, where = checks.resource(resource), checks.space(space)
    claims = names.claims(where, name, EXCLUSIVE, settings.hierarchical)
    return _looking(store, [claim.node for claim in claims], lambda draft: _inspection(draft, name, claims))


def inspect_each(store: Store, settings: Settings, resources: Iterable[object], space: str) -> tuple[Inspection, ...]:
    """Return the holders and the queue of each of these resources, as of one moment."""
    claims = {
        name: names.claims(space, name, EXCLUSIVE, settings.hierarchical) for name in map(checks.resource, resources)
    }
    nodes = [claim.node for each in claims.values() for claim in each]
    return _looking(store, nodes, lambda draft: tuple([_inspection(draft, *each) for each in claims.items()]))


def _looking(store: Store, nodes: list[str], look: Callable[[Draft], T]) -> T:
    """Run a query on records of one moment, and load those that it turns out to need."""
    wanted = dict.fromkeys(nodes)
    while True:
        now, records = store.read(tuple(wanted))
        try:
            return look(Draft(records, now, 0, ""))
        except Missing as missing:
            wanted.update(dict.fromkeys(missing.keys))


def leases(store: Store, space: object, holder: object, resource: object) -> tuple[Lease, ...]:
    """Return every live lease, the oldest first; of one space, holder or resource if named."""
    where = None if space is None else checks.space(space)
    who = None if holder is None else checks.text(holder, "holder", 256)
    what = None if resource is None else checks.resource(resource)
    now, _ = store.read(())
    found = [
        lease_of(hold, hold.ask, now)
        for _, record in store.scan("n")
        for hold in record.holds.values()
        if hold.ask is not None and not hold.closed and hold.expires_at > now
    ]
    return tuple(
        sorted(
            (
                lease
                for lease in found
                if _is_shown(lease.space, where)
                and who in (None, lease.holder)
                and (what is None or what in lease.resources)
            ),
            key=lambda lease: lease.fence,
        )
    )


def plans(store: Store, space: object, holder: object, resource: object) -> tuple[Plan, ...]:
    """Return every live plan, the oldest first, with its overlaps; of one space, holder or resource if named."""
    where = None if space is None else checks.space(space)
    who = None if holder is None else checks.text(holder, "holder", 256)
    what = None if resource is None else checks.resource(resource)
    found = [
        note
        for _, record in store.scan("a")
        for note in record.notes.values()
        if isinstance(note, PlanTerms) and _is_shown(note.ask.space, where) and who in (None, note.ask.holder)
    ]

    def look(draft: Draft) -> tuple[Plan, ...]:
        draft.require([keys.plan_home(each.id) for each in found])
        now = [plan for each in found if (plan := planned.live(draft, each.id)) is not None]
        if what is not None:
            now = [plan for plan in now if planned.touches(plan, what)]
        draft.require([node for plan in now for node in nodes_of(plan.ask)])
        return tuple([planned.shown(draft, plan) for plan in sorted(now, key=lambda plan: (plan.since, plan.id))])

    return _looking(store, [], look)


def _is_shown(space: str, where: str | None) -> bool:
    """Return True if an answer about this space, or about all of them, shows something of that space."""
    return space == where if where is not None else space != SERVERS


def ended(store: Store, ids: Iterable[str]) -> list[str]:
    """Return those of these leases that are no longer held: released, expired and swept, forced, or quarantined."""
    homes = {id_: keys.home(id_) for id_ in ids}
    wanted = list(dict.fromkeys(homes.values()))
    records: dict[str, Record] = {}
    for place in range(0, len(wanted), READ_AT_ONCE):
        records.update(store.read(wanted[place : place + READ_AT_ONCE])[1])
    holds = {id_: records[home].holds.get(id_) for id_, home in homes.items()}
    return [id_ for id_, hold in holds.items() if hold is None or hold.closed]


def graph(store: Store, space: object, limit: object) -> Graph:
    """Return the wait-for graph, of all spaces or one."""
    where = None if space is None else checks.space(space)
    most = checks.number(limit, "limit", 1, EDGES_MOST)
    found = {
        key: record
        for key, record in store.scan("a")
        if _places_of(record) or any(isinstance(note, Poll) for note in record.notes.values())
    }
    homes = {keys.home(id_) for record in found.values() for id_ in _places_of(record)}
    _, records = store.read(tuple(homes))
    wanted = dict.fromkeys((*found, *homes))
    for waiter in (waiter for record in records.values() for waiter in record.waiters):
        wanted[waiter.engine] = None
        wanted.update(dict.fromkeys(nodes_of(waiter.ask)) if waiter.ask is not None else {})
    seen = _looking(store, list(wanted), lambda draft: picture(draft, list(found), where, most))
    if not store.capabilities.history:
        return seen
    query = HistoryQuery(space=where, kinds=("deadlock",), limit=DEADLOCKS_TOLD)
    return seen._replace(deadlocks=tuple(store.history(query)))


def _places_of(record: Record) -> list[str]:
    return [note.id for note in record.notes.values() if isinstance(note, Ref) and keys.is_waiter_id(note.id)]


def sessions(store: Store, space: object) -> tuple[Session, ...]:
    """Return every live session, the oldest first, without its secret."""
    where = None if space is None else checks.space(space)
    now, _ = store.read(())
    found = [
        note._replace(secret="")
        for _, record in store.scan("a")
        for note in record.notes.values()
        if isinstance(note, Session) and note.expires_us > now and _is_shown(note.space, where)
    ]
    return tuple(sorted(found, key=lambda session: session.started_us))


def keys_of(store: Store) -> tuple[Key, ...]:
    """Return every key that works, the oldest first, with the hash of its secret, which no answer may show."""
    now, _ = store.read(())
    notes = [note for _, record in store.scan("k") for note in record.notes.values()]
    found = [note for note in notes if isinstance(note, Key) and note.until_us > now]
    return tuple(sorted(found, key=lambda key: key.created_us))


def session_of(store: Store, space: str, session: str) -> Session | None:
    """Return a live session, with the hash of its secret."""
    actor = keys.actor(space, "", session)
    now, records = store.read((actor,))
    found = [note for note in records[actor].notes.values() if isinstance(note, Session) and note.expires_us > now]
    return found[0] if found else None


def history(store: Store, query: dict[str, object]) -> tuple[Event, ...]:
    """Return past events, newest first."""
    return tuple(store.history(history_query(query)))


def _inspection(draft: Draft, name: str, claims: tuple[Claim, ...]) -> Inspection:
    """Return the state of a resource: its leases, closures and queue, by overlap."""
    for claim in claims:  # a lease that expired may be closed by now, although no sweep has written that yet
        lapse(draft, claim.node)
        load(draft, claim.mode, draft.record(claim.node).holds.values())
    holds = {
        hold.id: hold
        for claim in claims
        for hold in draft.record(claim.node).holds.values()
        if hold.expires_at > draft.now and concerns(draft, claim.mode, (name,), hold)
    }
    draft.require([keys.home(id_) for id_ in holds])
    homes = [draft.record(keys.home(id_)).holds[id_] for id_ in holds]
    waiting = {waiter.id: waiter for claim in claims for waiter in who_wait(draft, claim.node, claim.mode, (name,))}
    draft.require([keys.home(id_) for id_ in waiting])
    waiters = sorted(waiting.values(), key=lambda waiter: waiter.order)
    return Inspection(
        name,
        draft.now,
        tuple(lease_of(home, terms(draft, home), draft.now) for home in homes if not home.closed),
        tuple(_place(draft, waiter, place) for place, waiter in enumerate(waiters, 1)),
        tuple(by_hold(draft, home) for home in homes if home.closed),
        planned.on(draft, name, claims),
    )


def _place(draft: Draft, waiter: Waiter, position: int) -> Waiting:
    ask = waiting_for(draft, waiter)
    return Waiting(
        waiter.id,
        tuple(name for option in ask.options for name in option.resources),
        waiter.holder,
        ask.session,
        MODE_NAMES[ask.mode],
        position,
        waiter.since,
        waiter.deadline,
        ask.name,
        ask.reason,
        ask.principal,
        ask.key,
    )
