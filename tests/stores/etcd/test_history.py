"""Past events in etcd: whatever is asked for is found, and what certainly has none of it is not read through."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from leasehold.domain.entries import Put, Ref
from leasehold.domain.events import Event
from leasehold.stores import HistoryQuery, quick_json
from leasehold.stores.etcd import EtcdStore, history, messages, rows
from tests.kit import etcd

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

ODD = [
    'a "quoted" name',
    "back\\slash",
    "f\u00fcr alle",
    "\u6f22\u5b57/\U0001f512",
    "plain",
    'all "of\\ it" \u00e9',
    "a",
]
KINDS = ["granted", "released", "expired"]


@pytest.fixture
def store() -> Iterator[EtcdStore]:
    opened = EtcdStore(etcd.empty())
    yield opened
    opened.close()


def commit(store: EtcdStore, events: Sequence[Event]) -> None:
    turn = store.begin()
    turn.load(["na"])
    turn.commit([Put("na", Ref("x"))], events, turn.fence + 1)


def some_event(chance: random.Random, at: int) -> Event:
    names = tuple(chance.sample(ODD, chance.choice((1, 1, 2))))
    detail = {"said": chance.choice(("", "plain", "x" * 700))}
    return Event(chance.choice(KINDS), at, chance.choice(ODD), names, chance.choice(ODD), None, str(at % 7), at, detail)


def some_query(chance: random.Random, last: int) -> HistoryQuery:
    asked: dict[str, Any] = {
        "space": chance.choice(ODD),
        "resource": chance.choice([*ODD, "nothing"]),
        "holder": chance.choice(ODD),
        "lease": str(chance.randrange(8)),
        "kinds": tuple(chance.sample(KINDS, chance.choice((1, 2)))),
        "since": chance.randrange(last + 2),
        "before": chance.choice((0, 1, last // 2, last, last + 1, 10 * last, 1 << 52)),
        "limit": chance.choice((0, 1, 5, 100)),
    }
    return HistoryQuery(**{word: asked[word] for word in chance.sample(sorted(asked), chance.randrange(4))})


@pytest.mark.parametrize("writer", ["encode", "in_ascii"], ids=["with the library", "without"])
@pytest.mark.parametrize("room", [rows.ROOM, 300], ids=["whole", "in parts"])
def test_whatever_is_asked_for_is_found(
    store: EtcdStore, writer: str, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "PAGE", 4)
    monkeypatch.setattr(rows, "ROOM", room)
    if writer == "in_ascii":
        monkeypatch.setattr(rows, "events_data", lambda events: quick_json.in_ascii(events).encode())
    chance, told = random.Random(room), list[Event]()
    for _ in range(40):
        new = [some_event(chance, len(told) + age) for age in range(1, chance.choice((2, 2, 4, 12)))]
        commit(store, new)
        told += [event._replace(seq=len(told) + age) for age, event in enumerate(new, 1)]
    for turn in range(100):
        query = some_query(chance, len(told))
        wanted = [event for event in reversed(told) if query.wants(event)]
        assert store.history(query) == wanted[: query.limit], query
        if turn == 60:
            told = forget_half(store, told)


def forget_half(store: EtcdStore, told: list[Event]) -> list[Event]:
    store.address = store.address._replace(keep_events=len(told) // 2)
    while store.prune():
        pass
    left = store.history(HistoryQuery(limit=len(told)))
    assert 0 < len(left) < len(told)
    return told[-len(left) :]


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("word", ["space", "resource", "holder", "lease"])
def test_what_has_none_of_it_is_not_read_through(
    store: EtcdStore, word: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"space": "s", "resource": "r", "holder": "h", "lease": "l", word: name}
    wanted = Event("granted", 1, told["space"], (told["resource"],), told["holder"], None, told["lease"], 1, {})
    for number in range(10):
        commit(store, [wanted if number == 4 else Event("granted", 1, "o", ("other",), "other", None, "o", 1, {})])
    read: list[int] = []
    events_of = rows.events_of

    def counted(data: bytes, last: int) -> list[Event]:
        read.append(last)
        return events_of(data, last)

    monkeypatch.setattr(rows, "events_of", counted)
    found = store.history(HistoryQuery(**{word: name}))  # type: ignore[arg-type]
    assert found == [wanted._replace(seq=5)]
    assert read == [5]


class Asked:
    """Counts what is asked of etcd, and wants nothing that makes it read everything."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        self._request = messages.range_request
        monkeypatch.setattr(messages, "range_request", self)

    def __call__(self, *range_: str | None, backwards: bool = False, limit: int = 0, **more: Any) -> bytes:
        assert not backwards
        assert limit or range_[1] is None
        self.times += 1
        return self._request(*range_, limit=limit, **more)  # type: ignore[arg-type]


def test_etcd_reads_no_more_than_is_looked_at(store: EtcdStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "PAGE", 8)
    for number in range(200):
        commit(store, [Event("granted", number, "s", (f"r{number}",), "h", None, "l", 1, {})])
    asked = Asked(monkeypatch)
    for query, at_most in (
        (HistoryQuery(limit=5), 4),
        (HistoryQuery(limit=5, before=100), 4),
        (HistoryQuery(limit=1_000, since=195), 4),
        (HistoryQuery(limit=1_000, since=195, resource="nothing"), 4),
        (HistoryQuery(resource="r0"), 3 + 200 // 8 + 2),
    ):
        asked.times = 0
        store.history(query)
        assert asked.times <= at_most, query


def test_few_large_commits_are_looked_at_together(store: EtcdStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "PAGE", 8)
    for _ in range(20):
        commit(store, [Event("granted", 1, "s", ("r",), "h", None, "l", 1, {})] * 100)
    asked = Asked(monkeypatch)
    assert store.history(HistoryQuery(resource="nothing")) == []
    assert asked.times < 16


def test_events_that_the_numbers_know_nothing_of_are_found(store: EtcdStore) -> None:
    for number in range(20):
        commit(store, [Event("granted", number, "s", ("r",), "h", None, "l", 1, {})])
    store.txn([], [messages.delete(store.names.meta)], [], changes=True)  # by somebody's mistake
    assert [event.at_us for event in store.history(HistoryQuery())] == list(range(19, -1, -1))
    assert [event.at_us for event in store.history(HistoryQuery(before=11))] == list(range(9, -1, -1))
