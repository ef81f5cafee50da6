"""The types of what the tools answer, for their output schemas: made from the table of shapes.

``wire.shapes`` encodes the answers. They leave out the principals and keys that only admins see.
"""

from __future__ import annotations

from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,  # pydantic wants this one before Python 3.12
)

from pydantic import Field
from typing_extensions import TypedDict

from leasehold.wire import table, vocabulary

_TYPES: dict[str, Any] = {
    **dict.fromkeys(("count", "number", "integer", "fence"), int),
    **dict.fromkeys(("any", "context"), Any),
    **dict.fromkeys(("object", "detail"), dict[str, Any]),
    "seconds": float,
    "flag": bool,
    "end": str | None,
}
"""By kind of field; any other plain kind is text."""


_LIST: Any = list
_ANNOTATED: Any = Annotated
_TYPED_DICT: Any = TypedDict
"""Type checkers know nothing of types that are made at run time."""


def _type(kind: str) -> Any:  # noqa: ANN401 (a type)
    if kind.endswith("[]"):
        return _LIST[_type(kind[:-2])]
    if kind.endswith("?"):
        return _type(kind[:-1]) | None
    if "|" in kind:
        return Literal[tuple(kind.split("|"))]
    return _typed(kind.removeprefix("Listed")) if kind[0].isupper() else _TYPES.get(kind, str)


@cache
def _typed(name: str) -> Any:  # noqa: ANN401 (a type)
    shape = table.shape(name)
    return _made(name, shape.says, [field for field in shape.fields if field.when != "principal"])


def _made(name: str, says: str, fields: list[table.Field]) -> Any:  # noqa: ANN401 (a type)
    types: dict[str, Any] = {}
    for field in fields:
        own = f"{name}.{field.name}"
        description, example = vocabulary.FIELDS[own if own in vocabulary.FIELDS else field.name]
        words = Field(description=description, examples=None if example is None else [example])
        told = _ANNOTATED[_type(field.kind), words]
        types[field.name] = NotRequired[told] if field.when else told
    return _named(name, says, types)


def _answer(name: str, data: Any, says: str) -> Any:  # noqa: ANN401 (types)
    return _named(name, says, {"ok": bool, "advice": str, "error": NotRequired[_REFUSAL], "data": NotRequired[data]})


def _named(name: str, says: str, types: dict[str, Any]) -> Any:  # noqa: ANN401 (types)
    made = _TYPED_DICT(name, types)
    made.__doc__ = says
    return made


def _maybe(shape: str, *names: str) -> list[table.Field]:
    """Return these fields of a shape, each of which may be left out."""
    return [field._replace(when=field.name) for field in table.shape(shape).fields if field.name in names]


_REFUSAL = _made(
    "Refusal",
    "A refusal: `code` says which, `message` says why.",
    [
        *table.shape("Refused").fields[:2],
        *_maybe("Held", "resources", "holders", "queue", "retry_after_seconds"),
        *(*_maybe("Deadlock", "cycle"), *_maybe("Lost", "lease", "reason"), *_maybe("Refused", "field")),
    ],
)
_GRANT = _made(
    "Grant",
    "The lease, or your place in the queue.",
    [
        *(*_maybe("Granted", "lease", "token", "fresh"), *_maybe("Ticket", "ticket", "queue")),
        table.Field("holders", "Lease[]", "holders", "holders"),
    ],
)
_LISTED = [*table.shape("Leases").fields, table.Field("more", "count", "more")]
if TYPE_CHECKING:
    from typing import TypeAlias

    Json: TypeAlias = dict[str, Any]
    Acquired: TypeAlias = Json
    Renewed: TypeAlias = Json
    Released: TypeAlias = Json
    Checked: TypeAlias = Json
    Listed: TypeAlias = Json
    Told: TypeAlias = Json
else:
    Acquired = _answer("Acquired", _GRANT, "The answer of acquire_lock and wait_for_lock.")
    Renewed = _answer("Renewed", _typed("Renewed"), "The answer of renew_lock.")
    Released = _answer("Released", _typed("Released"), "The answer of release_lock and force_release_lock.")
    Checked = _answer("Checked", _typed("Inspection"), "The answer of check_lock.")
    Listed = _answer("Listed", _made("Leases", "Live leases.", _LISTED), "The answer of list_locks.")
    Told = _answer("Told", _typed("Events"), "The answer of lock_history.")
