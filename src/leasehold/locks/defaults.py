"""Defaults of the verbs in Python: a call without a holder, a space or a TTL gets those of its `Locks`."""

from __future__ import annotations

from leasehold.requests.calls import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PLAIN = frozenset((int, float, str, type(None)))
_SPANS = ("ttl", "wait", "grace", "overlap", "since")
"""Arguments that are durations or times, in every verb that has them."""
_OF_A_LEASE = frozenset(("renew", "release", "update"))
_EVERYWHERE = frozenset(("list", "graph", "history", "sessions"))
"""These verbs cover every space and holder unless a call names one."""


class CallDefaults:
    """The holder, space and TTL that a call uses unless it names its own."""

    def __init__(self, *, holder: str, space: str, ttl: float | str = "30m") -> None:
        self.holder = holder
        self.space = space
        self.ttl = ttl
        """The TTL of a `lock` that names none."""

    def _call(self, verb: str, given: dict[str, Any]) -> Call:
        """Return the call of a verb, from the arguments of its signature."""
        del given["self"]
        if verb not in _EVERYWHERE:
            for field in ("holder", "space"):
                if field in given and given[field] is None:
                    given[field] = getattr(self, field)
        for field in _SPANS:
            if type(given.get(field)) not in _PLAIN:
                from leasehold.locks import arguments  # noqa: PLC0415 (most calls do without)

                arguments.convert(given, field)
        if verb in _OF_A_LEASE and type(given["lease"]) is not str:
            from leasehold.locks import arguments  # noqa: PLC0415 (most calls do without)

            arguments.proof(given)
        return Call(verb, given)
