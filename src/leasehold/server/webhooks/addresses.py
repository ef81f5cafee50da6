"""Which addresses a webhook may reach: not this machine or a private network, unless its owner allows it.

A name is resolved once, every address is checked, and the connection goes to a checked address. So a name that resolves
differently a moment later changes nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import TypeAlias

from leasehold.errors import LeaseholdError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_EMBEDDING = (
    ipaddress.ip_network("64:ff9b::/96"),  # NAT64
    ipaddress.ip_network("::/96"),  # IPv4-compatible
)


class Forbidden(LeaseholdError):
    """A webhook may not be sent to this address."""

    code = "not_allowed"


async def resolve(host: str, port: int, *, allow_private: bool) -> list[str]:
    """Return the allowed addresses of this host. Raises `Forbidden` if none is allowed, `OSError` if none is known."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{host} is not a host name") from error
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    allowed = [address for address in addresses if allow_private or is_public(address)]
    if not allowed:
        raise Forbidden(f"{host} is {', '.join(addresses[:4])}, which is not public; allow_private would allow it")
    return allowed


def is_plainly_private(host: str) -> bool:
    """True if the name itself says that it is private: an address, or this machine's own name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return not is_public(host)


def is_public(address: str) -> bool:
    """True if this address is on the Internet, and not on this machine or in a private network."""
    try:
        meant = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return all(each.is_global and not (each.is_multicast or each.is_reserved) for each in _all_meanings(meant))


def _all_meanings(address: Address) -> list[Address]:
    """Return the address and the IPv4 addresses that are embedded in it."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    found: list[Address] = [] if any(address in network for network in _EMBEDDING) else [address]
    if not found:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found += address.teredo
    return found
