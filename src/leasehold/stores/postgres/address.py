"""Parse a `postgresql:` URL into libpq's parameters and Leasehold's own, which libpq must not see. Pure.

Messages name the host and the database; a password is never part of one.
"""

from __future__ import annotations

import os
import re
from hashlib import blake2b
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import ProgrammingError
from psycopg.pq import Conninfo

from leasehold.domain import durations
from leasehold.domain.nouns import Noun
from leasehold.errors import InvalidInput
from leasehold.stores.layout import CONTROL, lanes_option

if TYPE_CHECKING:
    from typing import Any

SCHEMA = "leasehold"
LISTEN_VARIABLE = "LEASEHOLD_LISTEN_URL"
OURS = ("schema", "lanes", "listen", "synchronous", "pause", "retention_days", "retention_rows")
"""Parameters of the URL's query that are Leasehold's own."""
_OWN = ", ".join(f"{name}=" for name in OURS)
DEFAULTS = {
    "application_name": "leasehold",
    "connect_timeout": "5",
    "target_session_attrs": "read-write",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
"""Defaults for what the URL leaves open: skip a standby, and notice a dead connection within seconds."""
NOT_UNDERSTOOD = "is not understood: write postgresql://USER@HOST:PORT/DATABASE (special characters as %XX)"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")


class PostgresAddress(Noun):
    """Where the database is, and on what terms it is used."""

    conninfo: str
    listen: str
    """For the one connection that listens: a proxy that pools transactions cannot carry it."""
    place: str
    """For messages."""
    schema: str
    salt: int
    """Keeps our advisory locks apart from those of others in the same database."""
    synchronous: bool
    pause: int | None
    retention_days: int
    retention_rows: int
    lanes: int | None = None
    """How many lanes the store is to have; None: as many as it has."""

    def of_lane(self, lane: int) -> PostgresAddress:
        """Return the address of a lane of this store."""
        if lane == CONTROL:
            return self
        schema = f"{self.schema}_{lane}"
        return self._replace(schema=schema, salt=_salt(schema))

    @property
    def shown(self) -> str:
        """The place with its schema, for messages."""
        return f"{self.place}, schema {self.schema}"

    @property
    def channel(self) -> str:
        """Channel by which the server of a promoted waiter is notified."""
        return f"leasehold_{self.schema}"


def parse(url: str) -> PostgresAddress:
    """Return the address behind a URL. Raises `InvalidInput` if it cannot be understood."""
    base, mark, query = url.partition("?")
    words = parse_qsl(query, keep_blank_values=True)
    ours = {name: value for name, value in words if name in OURS}
    theirs = [(name, value) for name, value in words if name not in OURS]
    _check_theirs(theirs)
    libpq = _libpq(base + (mark + urlencode(theirs, quote_via=quote) if theirs else ""), "url")
    listen = ours.get("listen") or os.environ.get(LISTEN_VARIABLE)
    schema = ours.get("schema", SCHEMA)
    if not _SCHEMA.fullmatch(schema):
        raise InvalidInput("url", "schema= must be 1 to 40 of a-z, 0-9 and _, and not begin with a digit")
    if schema.startswith("pg_") or schema == "information_schema":
        raise InvalidInput("url", f"schema={schema} is PostgreSQL's own: name another one, which is created if need be")
    return PostgresAddress(
        make_conninfo("", **libpq),
        make_conninfo("", **(libpq if listen is None else _libpq(listen, "listen"))),
        _place(libpq),
        schema,
        _salt(schema),
        _yes_or_no(ours.get("synchronous", "no")),
        _pause(ours.get("pause")),
        _number(ours, "retention_days", 30),
        _number(ours, "retention_rows", 1_000_000),
        lanes_option(ours.get("lanes")),
    )


def _salt(schema: str) -> int:
    return int.from_bytes(blake2b(f"leasehold {schema}".encode(), digest_size=8).digest(), signed=True)


def _check_theirs(words: list[tuple[str, str]]) -> None:
    known = {"ssl", *(option.keyword.decode() for option in Conninfo.get_defaults())}  # libpq accepts `ssl=true`
    for name, _ in words:
        if name not in known:
            if any("@" in word for each in words for word in each):  # it may be the rest of a password
                raise InvalidInput("url", NOT_UNDERSTOOD)
            raise InvalidInput("url", f"there is no {name}= in a postgresql: URL; of Leasehold's own there are {_OWN}")


def _libpq(url: str, field: str) -> dict[str, Any]:
    try:
        given = conninfo_to_dict(url)
    except ProgrammingError:
        # The message of libpq may quote the URL, and so the password.
        raise InvalidInput(field, NOT_UNDERSTOOD) from None
    if "user" not in given and "@" in str(
        given.get("dbname", "")
    ):  # dbname may contain the rest of a password with a /
        raise InvalidInput(field, NOT_UNDERSTOOD)
    return {**DEFAULTS, **given, "client_encoding": "UTF8"}  # the store encodes its values itself


def _place(libpq: dict[str, Any]) -> str:
    service = libpq.get("service") or os.environ.get("PGSERVICE")
    if service and not libpq.get("host"):
        return f"PostgreSQL of the service {service}"
    host = libpq.get("host") or libpq.get("hostaddr") or os.environ.get("PGHOST") or "the local socket"
    port = libpq.get("port") or os.environ.get("PGPORT") or "5432"
    name = libpq.get("dbname") or libpq.get("user") or os.environ.get("PGDATABASE") or "the default database"
    return f"PostgreSQL at {host} port {port}, database {name}"


def _yes_or_no(value: str) -> bool:
    if value not in ("yes", "no"):
        raise InvalidInput("url", "synchronous= must be yes or no")
    return value == "yes"


def _pause(value: str | None) -> int | None:
    if value is None:
        return None
    if value == "0":
        return 0
    try:
        return durations.parse(value)
    except durations.BadDuration as error:
        raise InvalidInput("url", f"pause= {error}") from None


def _number(ours: dict[str, str], name: str, default: int) -> int:
    value = ours.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit() and 1 <= int(value) <= 10**9):
        raise InvalidInput("url", f"{name}= must be a whole number from 1 to 1000000000")
    return int(value)
