"""Entries to store, clocks to set, and Hypothesis strategies for every kind of entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from leasehold.domain import keys
from leasehold.domain.api_keys import Key
from leasehold.domain.entries import (
    Alternative,
    Claim,
    End,
    Hold,
    LeaseRequest,
    Poll,
    Presence,
    Receipt,
    Ref,
    Request,
    Waiter,
)
from leasehold.domain.events import Event
from leasehold.domain.sessions import Session
from leasehold.domain.timestamps import FOREVER, SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasehold.domain.entries import Drop, Entry, Put, Record
    from leasehold.stores.protocol import Store

MINUTE = 60 * SECOND
SPACE = "default"


class FakeClock:
    """A machine whose clocks do what a test says."""

    def __init__(self, wall: int = 1_800_000_000 * SECOND, elapsed: int = 5 * MINUTE) -> None:
        self._wall = wall
        self._elapsed = elapsed
        self._boot = "boot-1"

    def boot(self) -> str:
        return self._boot

    def elapsed(self) -> int:
        return self._elapsed

    def wall(self) -> int:
        return self._wall

    def pass_time(self, duration: int) -> None:
        """Time goes by, for all clocks alike."""
        self._wall += duration
        self._elapsed += duration

    def step_wall(self, by: int) -> None:
        """Somebody sets the wall clock."""
        self._wall += by

    def reboot(self, after: int, boot: str = "boot-2") -> None:
        """The machine is down for a while."""
        self._wall += after
        self._elapsed = MINUTE
        self._boot = boot


def node(name: str) -> str:
    return keys.node(SPACE, name)


def ask(*names: str, ttl: int = 30 * MINUTE, session: str | None = None, holder: str = "coder-3") -> LeaseRequest:
    claims = tuple(Claim(node(name), "X") for name in names)
    return LeaseRequest(
        SPACE,
        (Alternative(names, claims),),
        "X",
        1,
        ttl,
        holder,
        session,
        (keys.secret_hash("token"),),
        "fix it",
        '{"step": 1}',
        None,
        0,
        quarantine=False,
        request=None,
    )


def hold(fence: int, *names: str, now: int, of: LeaseRequest | None = None) -> Hold:
    """The hold of a lease in its home."""
    terms = of or ask(*names)
    actor = keys.actor(SPACE, terms.holder, terms.session)
    lease = keys.lease_id(fence, node(names[0]))
    return Hold(lease, "X", 1, actor, terms.holder, fence, now, now + terms.ttl, 0, terms)


def waiter(arrival: int, name: str, *, priority: int = 0, deadline: int = FOREVER) -> Waiter:
    id_ = keys.waiter_id(arrival, node(name))
    actor = keys.actor(SPACE, "coder-4", None)
    return Waiter(id_, (-priority, arrival), "X", 1, actor, "coder-4", keys.engine("e"), 1, deadline, ask(name))


def event(kind: str = "granted", *resources: str, at: int = 1, **fields: Any) -> Event:
    told = Event(kind, at, SPACE, resources or ("issue:1",), "coder-3", None, None, 0, {"ttl": 5})
    return told._replace(**fields)


def commit(store: Store, *changes: Put | Drop, events: tuple[Event, ...] = (), fences: int = 0) -> int:
    """One transaction; its time is handed back."""
    transaction = store.begin()
    try:
        transaction.load(change.key for change in changes)
        transaction.commit(changes, events, transaction.fence + fences)
        return transaction.now
    finally:
        transaction.close()


def entries(store: Store, *keys_: str) -> dict[str, Entry]:
    """All entries under these keys as a transaction sees them, by id."""
    transaction = store.begin()
    try:
        return _by_id(transaction.load(keys_), keys_)
    finally:
        transaction.close()


def seen(store: Store, *keys_: str) -> dict[str, Entry]:
    """All entries under these keys as a reader sees them, by id."""
    return _by_id(store.read(keys_)[1], keys_)


def _by_id(records: Mapping[str, Record], keys_: tuple[str, ...]) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for key in keys_:
        record = records[key]
        found |= {each.id: each for each in (*record.holds.values(), *record.waiters, *record.notes.values())}
    return found


# ---------------------------------------------------------------------------------------- strategies

texts = st.text(st.characters(codec="utf-8"), max_size=20)
optional_texts = st.none() | texts
numbers = st.integers(0, FOREVER)
claims = st.builds(Claim, texts, st.sampled_from(["X", "S", "N", "IX", "IS"]), st.integers(0, 63))
options = st.builds(Alternative, st.lists(texts, max_size=3).map(tuple), st.lists(claims, max_size=3).map(tuple))
several_options = st.lists(options, max_size=3).map(tuple)
asks = st.builds(
    LeaseRequest,
    texts,
    several_options,
    texts,
    numbers,
    numbers,
    texts,
    optional_texts,
    st.lists(texts, max_size=2).map(tuple),
    optional_texts,
    optional_texts,
    optional_texts,
    numbers,
    quarantine=st.booleans(),
    request=optional_texts,
    principal=optional_texts,
    key=optional_texts,
    body=texts,
)
plain_ids = st.sampled_from(["l1-a", "l2-a", "end-l1-a", "session"])
waiter_ids = st.sampled_from(["w1-a", "w2-a", "w3-a", "w4-a"])
holds = st.builds(
    Hold,
    plain_ids,
    texts,
    numbers,
    texts,
    texts,
    numbers,
    numbers,
    numbers,
    numbers,
    st.none() | asks,
    optional_texts,
    closed=st.booleans(),
)
waiters = st.builds(
    lambda id_, priority, *more: Waiter(id_, (-priority, keys.number(id_)), *more),
    waiter_ids,
    st.integers(-3, 3) | st.just(0),
    texts,
    numbers,
    texts,
    texts,
    texts,
    numbers,
    numbers,
    st.none() | asks,
)
notes = st.one_of(
    st.builds(End, plain_ids, texts, numbers, numbers),
    st.builds(Ref, plain_ids | waiter_ids),
    st.builds(Poll, plain_ids, several_options, numbers, numbers),
    st.builds(
        Session,
        plain_ids,
        texts,
        texts,
        texts,
        texts,
        optional_texts,
        numbers,
        numbers,
        numbers,
        optional_texts,
        optional_texts,
    ),
    st.builds(Request, plain_ids, optional_texts, plain_ids, numbers),
    st.builds(Presence, plain_ids, numbers),
    st.builds(Receipt, plain_ids, texts, numbers),
    st.builds(
        Key, plain_ids, texts, texts, texts, st.lists(texts, max_size=3).map(tuple), texts, numbers, texts, numbers
    ),
)
any_entry = st.one_of(holds, waiters, notes)
