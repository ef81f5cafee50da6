"""JSON Schemas (2020-12) of shapes, from the table. Only what writes schemas imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from leasehold.wire.table import Shape, shape
from leasehold.wire.vocabulary import FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Schema: TypeAlias = dict[str, Any]
DEFS = "#/$defs/{}"
"""Where JSON Schemas keep their definitions; OpenAPI keeps them elsewhere."""
_KINDS: dict[str, Schema] = {
    "text": {"type": "string"},
    "time": {"type": "string", "format": "date-time", "pattern": "Z$"},
    "end": {"type": ["string", "null"], "format": "date-time"},
    "seconds": {"type": "number", "minimum": 0},
    "count": {"type": "integer", "minimum": 0},
    "number": {"type": "integer", "minimum": 1},
    "integer": {"type": "integer"},
    "fence": {"type": "integer", "minimum": 1, "maximum": 2**53 - 1},
    "flag": {"type": "boolean"},
    "true": {"const": True},
    "false": {"const": False},
    "any": {},
    "context": {},
    "object": {"type": "object"},
    "detail": {"type": "object"},
    "lease_id": {"type": "string", "pattern": "^l[0-9]+-[0-9a-f]{32}$"},
    "run_id": {"type": "string", "pattern": "^wf-[0-7][0-9A-HJKMNP-TV-Z]{25}$"},
}


def of_kind(kind: str, ref: str = DEFS) -> Schema:
    """Return the schema of a kind of field."""
    if kind in _KINDS:
        return dict(_KINDS[kind])
    if kind.endswith("[]"):
        return {"type": "array", "items": of_kind(kind[:-2], ref)}
    if kind.endswith("?"):
        return nullable(of_kind(kind[:-1], ref))
    if kind[0] == "=":
        return {"const": kind[1:]}
    return {"type": "string", "enum": kind.split("|")} if "|" in kind else {"$ref": ref.format(kind)}


def nullable(schema: Schema) -> Schema:
    """Return the schema that also allows null."""
    if "enum" in schema:
        return {"enum": [*schema["enum"], None]}
    if "type" in schema and schema["type"] != "array":
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]} if schema else schema


def described(schema: Schema, description: str, example: object) -> Schema:
    """Return the schema with a description and an example, where there are any."""
    words = {"description": description} if description else {}
    return {**schema, **words, **({} if example is None else {"examples": [example]})}


def of_shape(
    it: Shape, ref: str = DEFS, vocabulary: Mapping[str, tuple[str, object]] = FIELDS, *, is_closed: bool = False
) -> Schema:
    """Return the schema of a shape; a closed one allows no field that it does not name."""
    closed = {"additionalProperties": False} if is_closed else {}
    return {
        "type": "object",
        "description": it.says,
        "required": [field.name for field in it.fields if not field.when],
        "properties": {
            field.name: described(
                of_kind(field.kind, ref),
                *(vocabulary.get(f"{it.name}.{field.name}") or vocabulary.get(field.name, ("", None))),
            )
            for field in it.fields
        },
        **closed,
    }


def referred(kinds: Iterable[str], find: Callable[[str], Shape] = shape) -> list[str]:
    """Return the names of the shapes behind these kinds, and of all that they refer to, in order of the alphabet."""
    found: set[str] = set()
    todo = list(kinds)
    while todo:
        name = todo.pop().rstrip("[]?")
        if name[:1].isupper() and name not in found:
            found.add(name)
            todo += [field.kind for field in find(name).fields]
    return sorted(found)
