"""The statements of `queries.sql` by name, for one schema."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from psycopg import sql

SQL = Path(__file__).parent
SCHEMA_VERSION = 11
"""Of `schema.sql`, and of what is packed in it. Tables of another version are refused."""
_MARK = "-- name: "


class Queries:
    """`queries["load"]` is the text of that statement."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._texts = {name: self.in_schema(text) for name, text in _named().items()}
        self.called = {name: text.encode() for name, text in self._texts.items()}
        """The texts as bytes, for `RoundTrip`."""

    def in_schema(self, text: str) -> str:
        """Return the text with the schema filled in, quoted, because its name may be a keyword of PostgreSQL."""
        return text.replace("'{schema}'", f"'{self._schema}'").replace("{schema}", f'"{self._schema}"')

    def __getitem__(self, name: str) -> str:
        return self._texts[name]


@cache
def _named() -> dict[str, str]:
    texts: dict[str, str] = {}
    for part in (SQL / "queries.sql").read_text(encoding="utf-8").split(_MARK)[1:]:
        name, _, text = part.partition("\n")
        texts[name.strip()] = text.strip()
    return texts


def statement(text: str) -> sql.SQL:
    """Mark a text as trusted for psycopg: it is from these files, with the checked name of a schema."""
    return sql.SQL(text)
