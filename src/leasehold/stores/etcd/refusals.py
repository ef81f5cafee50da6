"""Turn etcd's refusals into errors that say what to do. Pure; no message contains a password."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.errors import StoreError, StoreUnsuitable

if TYPE_CHECKING:
    from leasehold.stores.etcd.address import EtcdAddress

PERMISSION_DENIED, OUT_OF_RANGE = 7, 11
FINAL = (3, 5, PERMISSION_DENIED, 8, 9, OUT_OF_RANGE, 12, 16)
"""gRPC codes after which a call is certainly not carried out: invalid, not found, denied, exhausted, precondition,
out of range, unimplemented, unauthenticated. After any other code it may still be carried out."""
_NO_USER = "user name is empty"
_NO_SPACE = "database space exceeded"
_FORGOTTEN = "has been compacted"


class Compacted(StoreError):
    """The revision that a read refers to was compacted meanwhile: read again at a later one."""


def explained(address: EtcdAddress, status: int, said: str) -> StoreError:
    """Return the refusal as an error of Leasehold, with etcd's words in brackets."""
    if status == OUT_OF_RANGE and _FORGOTTEN in said:
        return Compacted(f"etcd compacted the revision that was being read; try again ({said})")
    if status == PERMISSION_DENIED:
        return StoreUnsuitable(
            f"etcd does not permit {address.user or 'us'} to do that: the role must read and write all keys below "
            f"{address.prefix} ({said}):\n"
            f"  etcdctl role grant-permission ROLE --prefix=true readwrite {address.prefix}"
        )
    if _NO_USER in said:
        return StoreError(f"etcd requires a user: write etcd://USER:PASSWORD@… ({said})")
    if _NO_SPACE in said:
        return StoreError(
            f"etcd has used up its space ({said}). Compact and defragment it (docs/how-to/etcd.md automates it):\n"
            "  etcdctl compact REVISION\n"
            "  etcdctl defrag\n"
            "  etcdctl alarm disarm"
        )
    return StoreError(f"etcd says: {said}")
