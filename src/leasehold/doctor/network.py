"""Check a server, or a store behind a network. It acquires no lease and changes nothing there."""

from __future__ import annotations

import json
import time
from shlex import quote

from leasehold.client.encoding import HttpRequest
from leasehold.client.messages import bases, render
from leasehold.client.sync import SyncConnection
from leasehold.doctor.contents import about_leases
from leasehold.doctor.findings import Finding
from leasehold.domain import durations
from leasehold.domain.names import shown
from leasehold.domain.outcomes import Refused
from leasehold.domain.timestamps import SECOND
from leasehold.errors import InvalidInput, LeaseholdError, Unreachable
from leasehold.locks import connect as opening
from leasehold.locks.connect import lanes_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from leasehold.client.messages import ServerAddress
    from leasehold.config.settings import Choice
    from leasehold.locks.sync import Locks
    from leasehold.stores.etcd.checkup import Facts as EtcdFacts
    from leasehold.stores.postgres.checkup import PostgresFacts
    from leasehold.stores.protocol import NetworkStore, Store

CLOCK_APART = 5 * SECOND
PATIENCE = 10.0
"""Seconds for the answer of one server: `/readyz` itself waits 5 s for the store."""
OK = 200
_NOT_READY = "see the server's log, and run `leasehold doctor --url` there with the URL of its store"
PROBE = "leasehold-doctor"
"""A name to inspect, which no one holds. Inspecting changes nothing."""

_GRANTS = "GRANT what docs/how-to/postgresql.md says to this role, or use another one"
_NO_CLOCK = Finding("clock", True, "a git remote has none: leases age as this machine observes them")


def about_server(choice: Choice) -> Iterator[Finding]:
    """Check whether a Leasehold server answers, and accepts the caller."""
    try:
        locks = opening.connect(choice, threaded=False)
        try:
            yield from _about_answers(locks, choice.space)
        finally:
            locks.close()
    except LeaseholdError as error:
        yield _unreachable(error, "see whether `leasehold serve` runs there, and whether the URL is right")
        return
    yield from map(_readiness, bases(choice.url))


def _readiness(server: ServerAddress) -> Finding:
    """Report whether one of several servers can commit, and its version."""
    try:
        status, body = _asked(server, "/readyz")
        version = json.loads(_asked(server, "/openapi.json")[1])["info"]["version"] if status == OK else ""
    except (OSError, LeaseholdError, ValueError, KeyError, TypeError) as error:
        return Finding("ready", False, f"{server.name}: {shown(str(error) or type(error).__name__)}", _NOT_READY)
    if status == OK:
        return Finding("ready", True, f"{server.name} commits; it is Leasehold {shown(str(version))}")
    return Finding("ready", False, f"{server.name}: {shown(body.decode(errors='replace')[:300])}", _NOT_READY)


def _asked(server: ServerAddress, path: str) -> tuple[int, bytes]:
    connection = SyncConnection(server, PATIENCE)
    try:
        head, body = connection.exchange(render(HttpRequest("GET", path, None), server), PATIENCE)
    finally:
        connection.disconnect()
    return head.status, body


def _about_answers(locks: Locks, space: str) -> Iterator[Finding]:
    started = time.monotonic()
    held = locks.list(space=space)
    yield Finding("reachable", True, f"a server answered in {_milliseconds(started)} ms")
    if isinstance(held, Refused):
        advice = "set LEASEHOLD_API_KEY to a key for this space (docs/how-to/server.md#keys), made where the store is"
        make = f"leasehold keys create NAME --space {quote(space)}"
        yield Finding("permissions", False, shown(held.message), advice, make)
        return
    yield _permissions(locks, space)
    seen = locks.inspect(PROBE, space=space)
    if not isinstance(seen, Refused):  # a key may be for some names only
        yield _clock(seen.now_us)
    yield Finding("leases", True, f"{len(held)} live")


def _permissions(locks: Locks, space: str) -> Finding:
    """Report the caller's principal at the server, its key or session, and its rights."""
    who = locks.whoami()
    if isinstance(who, Refused):
        return Finding("permissions", True, f"it lets us look at the space {shown(space)}")
    if who.principal is None and who.session is None:
        text = "this server requires no keys: everyone is one principal, an admin; a holder's name proves nothing there"
        return Finding("permissions", True, text)
    by = f"session {who.session}" if who.session is not None else f"key {who.key}"
    where = "in every space" if who.space is None else f"in the space {who.space}"
    names = f"only names that begin with {' or '.join(who.prefixes)}" if who.prefixes else "every name"
    return Finding(
        "permissions", True, shown(f"you are {who.principal or who.name} by {by}: {who.role} {where}, {names}")
    )


def about_store(choice: Choice) -> Iterator[Finding]:
    """Check whether a store behind a network answers, and its contents."""
    try:
        if choice.url.startswith(("postgresql:", "postgres:")):
            yield from _about_postgres(choice.url)
        elif choice.url.startswith("etcd:"):
            yield from _about_etcd(choice.url)
        else:
            yield from _about_opened(choice)
    except LeaseholdError as error:
        yield _unreachable(error, "see whether it runs, and whether the URL is right")


def _about_opened(choice: Choice) -> Iterator[Finding]:
    started = time.monotonic()
    store = opening.open_store(choice.store_url, why=choice.why)
    try:
        yield from _about_contents([store], started)
    finally:
        store.close()


def _about_contents(stores: Sequence[Store], started: float) -> Iterator[Finding]:
    store = stores[0]
    now, _ = store.read(())  # not every store is asked for this; `about_leases` proves that it answers
    leases = list(about_leases(stores, now))
    yield Finding("reachable", True, f"opened and read in {_milliseconds(started)} ms")
    yield _NO_CLOCK if store.capabilities.name == "git" else _clock(now)
    yield from leases


def _unreachable(error: LeaseholdError, advice: str) -> Finding:
    if isinstance(error, InvalidInput):
        return Finding("reachable", False, shown(str(error)), "correct the URL")
    return Finding("reachable", False, shown(str(error)), advice if isinstance(error, Unreachable) else "")


def _milliseconds(started: float) -> int:
    return round((time.monotonic() - started) * 1_000)


def _clock(now: int) -> Finding:
    apart = now - time.time_ns() // 1_000
    if abs(apart) <= CLOCK_APART:
        return Finding("clock", True, "the clock there agrees with this machine's")
    side = "ahead of" if apart > 0 else "behind"
    text = f"the clock there is {durations.in_seconds(abs(apart))} {side} this machine's"
    return Finding("clock", None, f"{text}; leases live by that one, only the times that are shown differ")


# ------------------------------------------------------------------------------------------ PostgreSQL and etcd


def _about_postgres(url: str) -> Iterator[Finding]:
    """Check a PostgreSQL database. Missing tables are not created."""
    started = time.monotonic()
    store = opening.postgres(url.partition(":")[2], is_examined=True)
    stores = [store]
    try:
        from leasehold.stores.postgres.checkup import look  # noqa: PLC0415 (only for a store of this kind)

        facts = look(store)
        if facts.schema:
            stores += map(store.lane, lanes_of(store))
            yield from _about_contents(stores, started)
            lacking = [each for lane in stores for each in look(lane).lacking]
            yield from _about_facts(facts._replace(lacking=tuple(lacking)))
            yield from _about_lanes(store)
        elif facts.may_create:
            yield Finding("reachable", None, "it answers; there are no tables yet: the first command creates them")
        else:
            yield Finding("reachable", False, "there are no tables yet, and this role may not create them", _GRANTS)
    finally:
        for each in stores:
            each.close()


def _about_lanes(store: NetworkStore) -> Iterator[Finding]:
    if store.layout.is_divided:
        yield Finding("lanes", True, f"its spaces are divided among {store.layout.lanes} lanes")


def _about_facts(facts: PostgresFacts) -> Iterator[Finding]:
    """Report what a PostgreSQL database allows: its schema, permissions, replication and notifications."""
    yield Finding("schema", True, f"version {facts.schema}")
    if facts.is_read_only:
        yield Finding(
            "permissions", False, "this is a standby: nothing can be written", "name the primary, or all hosts"
        )
    elif facts.lacking:
        yield Finding("permissions", False, shown(f"this role lacks {'; '.join(facts.lacking)}"), _GRANTS)
    else:
        yield Finding("permissions", True, "this role may do all that is needed")
    if not facts.is_synchronous:
        text = "the URL says synchronous=yes, and replication is not: nothing is written"
        yield Finding("replication", False, text, "see synchronous_standby_names and synchronous_commit")
    if facts.pause:
        left = durations.in_seconds(facts.pause)
        text = f"nothing new is granted for another {left}: the database was promoted or restored"
        advice = "what is held can be renewed and released; docs/how-to/postgresql.md says why"
        yield Finding("grants", None, text, advice)
    if facts.deaf:
        advice = (
            "correct listen=, or LEASEHOLD_LISTEN_URL; until then waiters at other servers are served within 1.2 s, "
            "not at once"
        )
        yield Finding("notifications", False, shown(facts.deaf), advice)


def _about_etcd(url: str) -> Iterator[Finding]:
    """Check an etcd."""
    started = time.monotonic()
    store = opening.etcd(url.partition(":")[2], is_examined=True)
    stores = [store]
    try:
        from leasehold.stores.etcd.checkup import look  # noqa: PLC0415 (only for a store of this kind)

        stores += map(store.lane, lanes_of(store))
        yield from _about_contents(stores, started)
        yield from _about_members(look(store))
        yield from _about_lanes(store)
    finally:
        for each in stores:
            each.close()


def _about_members(facts: EtcdFacts) -> Iterator[Finding]:
    """Report whether writing is permitted, and which members are unavailable."""
    if facts.refusal:
        yield Finding("permissions", False, shown(facts.refusal))
    else:
        yield Finding("permissions", True, "we may read and write there")
    for trouble in facts.troubles:
        yield Finding(
            "members", None, shown(trouble), "repair it, or remove it from the URL: the others are asked instead"
        )
    if not facts.troubles:
        yield Finding("members", True, f"{facts.members} of {facts.members} answer")
