"""The shape of every tool's answer, for its output schema. ``wire.shapes`` encodes what is in it, as over HTTP."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    NotRequired,  # pydantic wants this one before Python 3.12
)

from typing_extensions import TypedDict

Json = dict[str, Any]

if TYPE_CHECKING:
    from typing import TypeAlias

    Answer: TypeAlias = Json
else:

    class Answer(TypedDict):
        """The answer of a tool. docs/reference/http.md describes its parts: eight tools must fit into a prompt."""

        ok: bool
        advice: str
        data: NotRequired[Json]
        error: NotRequired[Json]


def lean(schema: Any) -> Any:  # noqa: ANN401 (any JSON)
    """Return a JSON schema without what a model does not need: titles, and null for arguments that may be left out."""
    if isinstance(schema, list):
        return [lean(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: lean(each) for name, each in schema.items() if not (name == "title" and isinstance(each, str))}
    kinds = found.get("anyOf")
    if isinstance(kinds, list) and {"type": "null"} in kinds:
        rest = [each for each in kinds if each != {"type": "null"}]
        del found["anyOf"]
        found = {**found, **rest[0]} if len(rest) == 1 else {**found, "anyOf": rest}
    for name in [name for name, each in found.items() if (name, each) in _NOTHING]:
        del found[name]
    return found


_NOTHING: tuple[tuple[str, Any], ...] = (("default", None), ("additionalProperties", True))
