"""The bodies and the queries of every route, as types that decode them: made from the list of verbs.

Types only: ranges and spellings are checked where every surface has them checked (``requests.checks``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from leasehold.requests import verbs

if TYPE_CHECKING:
    from leasehold.requests.verbs import Argument


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A body. An unknown field is refused."""


class Query(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The parameters of a GET. An unknown one is refused."""


_TYPES: dict[str, Any] = {
    "names": list[str] | str,
    "text": str,
    "text[]": list[str],
    "seconds": int | float,
    "integer": int,
    "flag": bool,
    "any": Any,
}
_BATCHED = ("acquire", "renew", "release")


def _field(argument: Argument) -> tuple[Any, ...]:
    """Return the name, type and default of an argument. `requests.checks` checks which words it may have."""
    kind: Any = list[_CALL] if argument.kind == "calls" else _TYPES.get(argument.kind.removesuffix("?"), str)
    if argument.kind.endswith("?"):
        kind |= None
    if argument.is_needed:
        return argument.name, kind
    return argument.name, kind, list(argument.default) if isinstance(argument.default, tuple) else argument.default


def type_name(verb: str) -> str:
    """Return the name of the type of a verb's body or query."""
    return "".join(word.capitalize() for word in verb.split("_"))


def _made(name: str) -> type[Body | Query]:
    verb = verbs.verb(name)
    made = msgspec.defstruct(
        type_name(name),
        [_field(each) for each in verb.sent],
        bases=(Query if verb.method == "GET" else Body,),
        module=__name__,
        namespace={"__doc__": verb.says},
        rename={each.name: each.spelled for each in verb.sent if each.name != each.spelled},
        kw_only=True,
    )
    return cast("type[Body | Query]", made)


def _call(name: str) -> type[Body]:
    """Return the type of a call in a batch, which names its verb."""
    body = TAKES[name]
    made = msgspec.defstruct(
        f"{body.__name__}Call",
        (),
        bases=(body,),
        module=__name__,
        namespace={"__doc__": body.__doc__},
        tag=name,
        tag_field="verb",
    )
    return cast("type[Body]", made)


TAKES: dict[str, type[Body | Query]] = {name: _made(name) for name in verbs.NAMES if name != "batch"}
"""By verb."""
CALLS: dict[type[Body], str] = {_call(name): name for name in _BATCHED}
"""The calls that a batch may hold, with their verbs."""
_acquire, _renew, _release = CALLS
_CALL: Any = _acquire | _renew | _release
TAKES["batch"] = _made("batch")
