"""The examination of PostgreSQL and etcd: who may do what there, and what stands in the way. It changes nothing."""

from __future__ import annotations

import time

from leasehold.doctor.findings import Finding
from leasehold.domain import durations
from leasehold.domain.names import shown
from leasehold.locks import connect as opening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from leasehold.stores import Store
    from leasehold.stores.etcd.checkup import Facts as EtcdFacts
    from leasehold.stores.postgres.checkup import Facts

    About: TypeAlias = Callable[[Store, float], Iterator[Finding]]
    """What is told of each store, once it was opened; and since when that was tried."""

_GRANTS = "GRANT what docs/postgresql.md says to this role, or use another one"


def about_postgres(url: str, about_contents: About) -> Iterator[Finding]:
    """Everything about a database. Missing tables are not created."""
    started = time.monotonic()
    store = opening.postgres(url.partition(":")[2], is_examined=True)
    try:
        from leasehold.stores.postgres.checkup import look  # noqa: PLC0415 (only for a store of this kind)

        facts = look(store)
        if facts.schema:
            yield from about_contents(store, started)
            yield from _about_facts(facts)
        else:
            yield _about_missing_tables(facts)
    finally:
        store.close()


def _about_missing_tables(facts: Facts) -> Finding:
    if facts.may_create:
        return Finding("reachable", None, "it answers; there are no tables yet: the first command creates them")
    return Finding("reachable", False, "there are no tables yet, and this role may not create them", _GRANTS)


def _about_facts(facts: Facts) -> Iterator[Finding]:
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
        yield Finding("grants", None, text, "what is held can be renewed and released; docs/postgresql.md says why")
    if facts.deaf:
        advice = (
            "mend listen=, or LEASEHOLD_LISTEN_URL; until then others' waiters are served within 1.2 s, not at once"
        )
        yield Finding("notifications", False, shown(facts.deaf), advice)


def about_etcd(url: str, about_contents: About) -> Iterator[Finding]:
    """Everything about an etcd."""
    started = time.monotonic()
    store = opening.etcd(url.partition(":")[2])
    try:
        from leasehold.stores.etcd.checkup import look  # noqa: PLC0415 (only for a store of this kind)

        yield from about_contents(store, started)
        yield from _about_members(look(store))
    finally:
        store.close()


def _about_members(facts: EtcdFacts) -> Iterator[Finding]:
    """Whether something could be written, and which members cannot be counted on."""
    if facts.refusal:
        yield Finding("permissions", False, shown(facts.refusal))
    else:
        yield Finding("permissions", True, "we may read and write there")
    for trouble in facts.troubles:
        yield Finding(
            "members", None, shown(trouble), "mend it, or take it out of the URL: the others are asked instead"
        )
    if not facts.troubles:
        yield Finding("members", True, f"{facts.members} of {facts.members} answer")
