"""Facts about an etcd cluster for `leasehold doctor`. It reads only, and leaves the judgement to the doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.domain.nouns import Noun
from leasehold.errors import StoreError
from leasehold.stores.etcd import messages
from leasehold.stores.etcd.health import member_trouble
from leasehold.stores.etcd.members import Members

if TYPE_CHECKING:
    from leasehold.stores.etcd import EtcdStore


class Facts(Noun):
    """The members' reports about themselves and about our user."""

    refusal: str
    """Why the user may not write; empty if the user may."""
    members: int
    troubles: tuple[str, ...]
    """Each member that does not answer or does not reach the others, with the reason."""


def look(store: EtcdStore) -> Facts:
    """Ask every member."""
    address = store.address
    tls, troubles = Members(address).tls("h2"), []
    for host, port in address.members:
        trouble, _ = member_trouble((host, port), tls, "", 0)
        if trouble:
            troubles.append(f"{host}:{port}: {trouble}")
    return Facts(_refusal(store), len(address.members), tuple(troubles))


def _refusal(store: EtcdStore) -> str:
    """Try a change under a condition that never holds: etcd checks the permission first, and writes nothing."""
    meta = store.names.meta
    try:
        store.txn([messages.unchanged(meta, -1)], [messages.put(meta, b"")], [messages.get(meta)])
    except StoreError as error:
        return str(error)
    return ""
