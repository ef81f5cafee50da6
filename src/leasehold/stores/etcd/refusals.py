"""What etcd's refusals mean, and what to do about them. Pure; a password is in no message."""

from __future__ import annotations

from leasehold.errors import StoreError, StoreUnsuitable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.stores.etcd.address import Address

PERMISSION_DENIED, OUT_OF_RANGE = 7, 11
FINAL = (3, 5, PERMISSION_DENIED, 8, 9, OUT_OF_RANGE, 12, 16)
"""gRPC's codes of what is over with the answer: invalid, not there, not allowed, no room, not so, not known, who?

After any other, what was asked for may still be carried out.
"""
_NO_USER = "user name is empty"
_NO_SPACE = "database space exceeded"
_FORGOTTEN = "has been compacted"


class Compacted(StoreError):
    """What was asked about is of a moment that etcd was told to forget meanwhile: ask about a later one."""


def explained(address: Address, status: int, said: str) -> StoreError:
    """The refusal as an error of Leasehold's own, with what etcd said in brackets."""
    if status == OUT_OF_RANGE and _FORGOTTEN in said:
        return Compacted(f"somebody had etcd forget what was being read; try again ({said})")
    if status == PERMISSION_DENIED:
        return StoreUnsuitable(
            f"etcd does not let {address.user or 'us'} do that: its role has to read and write all below "
            f"{address.prefix}: etcdctl role grant-permission ROLE --prefix=true readwrite {address.prefix} ({said})"
        )
    if _NO_USER in said:
        return StoreError(f"etcd wants to know who asks: write etcd://USER:PASSWORD@… ({said})")
    if _NO_SPACE in said:
        return StoreError(
            "etcd has used up its space: have it compacted and defragmented, then: etcdctl alarm disarm "
            f"(docs/etcd.md says how it does that by itself) ({said})"
        )
    return StoreError(f"etcd says: {said}")
