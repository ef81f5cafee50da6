"""Parse an `etcd:` URL into members, credentials and prefix. Pure; no message contains a password."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote

from leasehold.domain import durations
from leasehold.domain.durations import is_digits
from leasehold.domain.nouns import Noun
from leasehold.domain.timestamps import SECOND
from leasehold.errors import InvalidInput
from leasehold.stores.layout import CONTROL, lanes_option

PORT = 2379
PREFIX = "leasehold/"
_WORDS = ("tls", "ca", "cert", "key", "keep_events", "connect_timeout", "lanes")


class EtcdAddress(Noun):
    """The members of an etcd cluster, how to connect to them, and the prefix of our keys."""

    members: tuple[tuple[str, int], ...]
    prefix: str
    user: str = ""
    password: str = ""
    tls: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    keep_events: int = 100_000
    connect_timeout: float | None = None
    """Seconds that connecting to a member may take; None for the default, which depends on their number."""
    lanes: int | None = None
    """How many lanes the store is to have; None: as many as it has."""

    def of_lane(self, lane: int) -> EtcdAddress:
        """Return the address of a lane of this store."""
        return self if lane == CONTROL else self._replace(prefix=f"{self.prefix}{lane}/")

    @property
    def place(self) -> str:
        """The members, for messages."""
        return ", ".join(f"{host}:{port}" for host, port in self.members)


def parse(url: str) -> EtcdAddress:
    """Parse `etcd://[user:password@]host[:port],…[/prefix][?tls=true&ca=FILE&cert=FILE&key=FILE]`."""
    rest = url.removeprefix("etcd:")
    if not rest.startswith("//"):
        raise InvalidInput("url", "must be like etcd://host:2379,host:2379")
    body, _, query = rest[2:].partition("?")
    hosts, _, prefix = body.partition("/")
    credentials, at, members = hosts.rpartition("@")
    user, _, password = credentials.partition(":")
    if at and not user:
        raise InvalidInput("url", "has an @ but no user before it")
    if not at and "@" in rest and not all(map(_is_member, members.split(","))):  # an unescaped @ or / in a password
        raise InvalidInput("url", "cannot be parsed: write special characters of a password as %XX")
    words = _words(query)
    return EtcdAddress(
        tuple(_member(each) for each in members.split(",")),
        (unquote(prefix).strip("/") + "/") if prefix.strip("/") else PREFIX,
        unquote(user),
        unquote(password),
        words.get("tls", "false") == "true" or "ca" in words or "cert" in words,
        words.get("ca"),
        words.get("cert"),
        words.get("key"),
        int(words.get("keep_events", "100000")),
        _seconds(words.get("connect_timeout")),
        lanes_option(words.get("lanes")),
    )


def _words(query: str) -> dict[str, str]:
    words = dict(parse_qsl(query, keep_blank_values=True))
    for word, value in words.items():
        if word not in _WORDS:
            raise InvalidInput("url", f"has the unknown option {word!r}; there are {', '.join(_WORDS)}")
        if word == "tls" and value not in ("true", "false"):
            raise InvalidInput("url", "tls must be true or false")
    if not is_digits(words.get("keep_events", "0")):
        raise InvalidInput("url", "keep_events must be a whole number")
    if ("cert" in words) != ("key" in words):
        raise InvalidInput("url", "cert and key go together")
    return words


def _member(text: str) -> tuple[str, int]:
    if not _is_member(text):
        raise InvalidInput("url", f"{text!r} is not a member such as host:2379")
    host, port = _host_and_port(text)
    return host.strip("[]"), int(port)


def _is_member(text: str) -> bool:
    host, port = _host_and_port(text)
    return bool(host) and is_digits(port) and 0 < int(port) < 65536


def _host_and_port(text: str) -> tuple[str, str]:
    host, colon, port = text.rpartition(":")
    return (text, str(PORT)) if not colon or port.endswith("]") else (host, port)


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return durations.parse(text) / SECOND
    except durations.BadDuration as error:
        raise InvalidInput("url", f"connect_timeout={text}: {error}") from None
