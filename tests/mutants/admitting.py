"""Bugs that let a web page in, take a trailer for a header, or let one caller lock out the others."""

from __future__ import annotations

from tests.mutants.kinds import Mutant

ORIGIN = ("tests/server/test_origin.py",)
ADMITTING = (
    Mutant(
        "a page of another port may ask an open server: Origin",
        "server/access/authentication.py",
        '    return origin is None or origin.lower().partition("://")[1:] == ("://", host.lower())\n',
        '    return origin is None or is_loopback(_without_port(origin.partition("://")[2]))\n',
        (*ORIGIN, "-k", "nowhere or see_nothing"),
    ),
    Mutant(
        "a page of another port may ask an open server: Sec-Fetch-Site",
        "server/access/authentication.py",
        "    return site is None or site in OWN_SITES\n",
        '    return site != "cross-site"\n',
        (*ORIGIN, "-k", "nowhere or see_nothing"),
    ),
    Mutant(
        "the quick parser does not check whose page it is",
        "server/http/quick.py",
        'for name in (b"host", b"origin", b"sec-fetch-site")))\n',
        'for name in (b"host", b"origin")))\n',
        (*ORIGIN, "-k", "nowhere"),
    ),
    Mutant(
        "a body that does not say what it is passes for JSON",
        "server/api/decoding.py",
        "    if kind.lower() != JSON:\n",
        "    if kind and kind.lower() != JSON:\n",
        (*ORIGIN, "-k", "does_not_say"),
    ),
    Mutant(
        "a trailer passes for a header",
        "server/http/protocol.py",
        "        if self._in_head:\n            super().on_header(name, value)\n",
        "        super().on_header(name, value)\n",
        (*ORIGIN, "-k", "trailer"),
    ),
    Mutant(
        "one principal's streams of events fill all the room there is",
        "server/access/shares.py",
        "        if own >= self._each and not self._drop_idle(who):\n            return False\n",
        "",
        ("tests/server/test_events.py", "-k", "takes_none_from_others"),
    ),
    Mutant(
        "one principal's streams of losses fill all the room there is",
        "server/api/losses.py",
        "Shares[LossStream](STREAMS_EACH, STREAMS_MOST,",
        "Shares[LossStream](STREAMS_MOST, STREAMS_MOST,",
        ("tests/server/test_events.py", "-k", "takes_none_from_others and losses"),
    ),
    Mutant(
        "the principal with most gives nothing up",
        "server/access/shares.py",
        "        if len(self._seats[greediest]) <= own + 1:\n",
        "        if greediest:\n",
        ("tests/server/test_events.py", "-k", "takes_none_from_others"),
    ),
    Mutant(
        "a session of MCP costs as much as one in use",
        "server/api/mcp_sessions.py",
        "receive, named, alone=True)\n",
        "receive, named)\n",
        ("tests/mcp/test_sessions.py", "-k", "next_to_nothing"),
    ),
    Mutant(
        "a session of MCP is open to every key",
        "server/api/mcp_sessions.py",
        "        if session is not None and session.owner == owner:\n",
        "        if session is not None:\n",
        ("tests/mcp/test_sessions.py", "-k", "own_key_only"),
    ),
)
