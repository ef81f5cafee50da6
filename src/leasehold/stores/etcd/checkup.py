"""Facts about an etcd for whoever examines it: read, never written, not judged."""

from __future__ import annotations

from leasehold.errors import StoreError
from leasehold.noun import Noun
from leasehold.stores.etcd import messages
from leasehold.stores.etcd.health import member_trouble
from leasehold.stores.etcd.members import Members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.stores.etcd import EtcdStore


class Facts(Noun):
    """What the members say of themselves, and of the user that asks."""

    refusal: str
    """Why nothing can be written; empty: it can."""
    members: int
    troubles: tuple[str, ...]
    """Each member that does not answer, or does not reach the others, and what is wrong with it."""


def look(store: EtcdStore) -> Facts:
    """The facts, as of now."""
    address = store.address
    tls, troubles = Members(address).tls("h2"), []
    for host, port in address.members:
        trouble, _ = member_trouble((host, port), tls, "", 0)
        if trouble:
            troubles.append(f"{host}:{port}: {trouble}")
    return Facts(_refusal(store), len(address.members), tuple(troubles))


def _refusal(store: EtcdStore) -> str:
    """What etcd says to a change that it is asked for on a condition that never holds: it checks first who may."""
    meta = store.names.meta
    try:
        store.txn([messages.unchanged(meta, -1)], [messages.put(meta, b"")], [messages.get(meta)])
    except StoreError as error:
        return str(error)
    return ""
