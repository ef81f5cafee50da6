"""The table of shapes: each JSON object that Leasehold writes, its fields listed once and in order.

From it come the encoder (``shapes``), the client's decoder, the published JSON schemas, OpenAPI, the output schemas of
the MCP tools and the TypeScript types. ``vocabulary`` has a description and an example for every field, apart from
here, so that a one-shot command does not load them.

A field is `(name, kind)`, `(name, kind, source)` or `(name, kind, source, when)`:

- `kind` names a type: `text`, `time` (RFC 3339), `end` (a time, or null for never), `seconds`, `count` (from 0),
  `number` (from 1), `integer`, `fence`, `flag`, `object`, `context` (JSON), `detail` (of an event), `lease_id`,
  `run_id`, words such as `held|timeout` or `=lost` alone, or the name of another shape. `[]` after it makes a list
  of it, `?` allows null.
- `source` is the attribute of the model (by default the one of the same name), or a function of the model and of the
  time of the answer, for a value that is computed and not read back by the client.
- `when` names the attribute without which the field is left out.
"""

from __future__ import annotations

from leasehold.domain.nouns import Noun
from leasehold.wire import answer_shapes, noun_shapes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    Source: TypeAlias = str | Callable[[Any, int], object]


class Field(Noun):
    """One field of a shape."""

    name: str
    kind: str
    source: Source
    when: str = ""


class Shape(Noun):
    """One JSON object."""

    name: str
    says: str
    fields: tuple[Field, ...]
    model: str
    """The module and the name of the noun that it shows, in ``domain``; `tuple` for a listing.

    None: its writer builds the JSON itself. By name, as a one-shot command that writes one of them imports no other."""


UNTOLD: dict[str, dict[str, object]] = {
    "sessions.Session": {"id": "session", "secret": ""},
    "api_keys.Key": {"secret": ""},
}
"""Attributes of nouns that are not in the JSON, with the value that a client gives them."""
NAMES = (*noun_shapes.SHAPES, *answer_shapes.SHAPES)
_made: dict[str, Shape] = {}


def shape(name: str) -> Shape:
    """Return the shape of this name."""
    found = _made.get(name)
    if found is None:
        says, model, rows = noun_shapes.SHAPES[name] if name in noun_shapes.SHAPES else answer_shapes.SHAPES[name]
        fields = tuple([Field(*(row if len(row) > 2 else (*row, row[0]))) for row in rows])
        found = _made[name] = Shape(name, says, fields, model)
    return found
