"""Bugs that let a web page in, take a trailer for a header, or let one caller lock out the others."""

from __future__ import annotations

from tests.mutants.kinds import Mutant

ORIGIN = ("tests/surfaces/test_server_origin.py",)
ADMITTING = (
    Mutant(
        "a page of another port may ask an open server: Origin",
        "server/origin.py",
        '    return origin is None or origin.lower().partition("://")[1:] == ("://", host.lower())\n',
        '    return origin is None or is_loopback(_without_port(origin.partition("://")[2]))\n',
        (*ORIGIN, "-k", "nowhere or see_nothing"),
    ),
    Mutant(
        "a page of another port may ask an open server: Sec-Fetch-Site",
        "server/origin.py",
        "    return site is None or site in OWN_SITES\n",
        '    return site != "cross-site"\n',
        (*ORIGIN, "-k", "nowhere or see_nothing"),
    ),
    Mutant(
        "the quick way does not ask whose page it is",
        "server/hot.py",
        'for name in (b"host", b"origin", b"sec-fetch-site")))\n',
        'for name in (b"host", b"origin")))\n',
        (*ORIGIN, "-k", "nowhere"),
    ),
    Mutant(
        "a body that does not say what it is passes for JSON",
        "server/decoding.py",
        "    if kind.lower() != JSON:\n",
        "    if kind and kind.lower() != JSON:\n",
        (*ORIGIN, "-k", "does_not_say"),
    ),
    Mutant(
        "a trailer passes for a header",
        "server/protocol.py",
        "        if self._in_head:\n            super().on_header(name, value)\n",
        "        super().on_header(name, value)\n",
        (*ORIGIN, "-k", "trailer"),
    ),
)
