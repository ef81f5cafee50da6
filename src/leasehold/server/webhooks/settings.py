"""Settings of webhooks: from tables of a configuration file, or options of `serve`, to checked hooks."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from leasehold.config import paths as places
from leasehold.config import urls
from leasehold.domain.nouns import Noun
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.requests import checks
from leasehold.server.webhooks.addresses import is_plainly_private

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KINDS = ("granted", "expired", "forced", "deadlock", "trespass")
"""Kinds of events that can be sent."""
FIELDS = ("url", "secret", "secret_env", "kinds", "space", "allow_private")
HOOKS_MOST = 20
SECRET_LEAST = 16
_BASE64 = "whsec_"


class Hook(Noun):
    """One receiver."""

    url: str
    secret: bytes
    kinds: tuple[str, ...] = KINDS
    space: str | None = None
    """Only events of this space; None: of every space."""
    allow_private: bool = False
    """True if the receiver may be on this machine or in a private network."""

    @property
    def shown(self) -> str:
        """The URL for logs and metrics, without path and query, which may contain a secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def id(self) -> str:
        """The key of its position in the history."""
        return hashlib.sha256(f"{self.url}\0{self.space or ''}".encode()).hexdigest()[:16]


def configured(tables: Sequence[Mapping[str, Any]], env: Mapping[str, str] | None = None) -> tuple[Hook, ...]:
    """Return the hooks of these tables. Raises `InvalidInput` for a wrong one."""
    env = os.environ if env is None else env
    if len(tables) > HOOKS_MOST:
        raise InvalidInput("webhooks", f"there are more than {HOOKS_MOST}")
    hooks = tuple(_hook(table, number, env) for number, table in enumerate(tables, 1))
    if len({hook.id for hook in hooks}) < len(hooks):
        raise InvalidInput("webhooks", "two of them have the same url and space")
    return hooks


def state_file(store: str) -> str:
    """Return the file of the positions: beside a database file, else in the user's state directory.

    Options and password of the URL are not part of its name: they may change while the store stays the same.
    """
    scheme, _, rest = store.partition("://")
    if scheme == "sqlite":
        return _kept(Path(f"{urls.split_options(rest)[0]}-webhooks.json"), Path(f"{rest}-webhooks.json"))
    directory = Path(places.state_home(os.environ))
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"{directory}, where the positions of webhooks would be saved, cannot be created: {error.strerror}"
        raise LeaseholdError(f"{why}; name a file with --webhook-state") from error
    by_place, by_url = places.digest(urls.one_spelling(store)), places.digest(store)
    return _kept(directory / f"webhooks-{by_place[:16]}.json", directory / f"webhooks-{by_url[:16]}.json")


def _kept(file: Path, before: Path) -> str:
    """Return this file, after renaming one that has its previous name."""
    if before != file and before.exists() and not file.exists():
        try:
            before.replace(file)
        except OSError as error:
            raise LeaseholdError(f"{before} cannot become {file}: {error.strerror}") from error
    return str(file)


def _hook(table: Mapping[str, Any], number: int, env: Mapping[str, str]) -> Hook:
    try:
        _refuse_unknown(table)
        space = table.get("space")
        allow_private = checks.flag(table.get("allow_private", False), "allow_private")
        return Hook(
            check_url(table.get("url"), allow_private=allow_private),
            _secret(table, env),
            _kinds(table.get("kinds", list(KINDS))),
            None if space is None else checks.space(space),
            allow_private,
        )
    except InvalidInput as error:
        raise InvalidInput("webhooks", f"number {number}: {error.field}: {error.message}") from None


def _refuse_unknown(table: Mapping[str, Any]) -> None:
    for field in table:
        if field not in FIELDS:
            raise InvalidInput(str(field), f"is not known; there are {', '.join(FIELDS)}")


def check_url(url: object, *, allow_private: bool) -> str:
    """Return a URL that can be posted to. Its host name is resolved when an event is sent."""
    text = checks.text(url, "url", 2_048)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise InvalidInput("url", "must be https://HOST[:PORT]/PATH") from None
    is_plain = text.isascii() and text.isprintable() and " " not in text
    if not is_plain or parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InvalidInput("url", "must be https://HOST[:PORT]/PATH, in ASCII and without blanks")
    if parts.username is not None or parts.fragment:
        raise InvalidInput("url", "must hold neither a user nor a fragment; the receiver checks the signature")
    if is_plainly_private(parts.hostname) and not allow_private:
        raise InvalidInput("url", "is not on the Internet, which allow_private (or --webhook-private) would allow")
    return text


def _secret(table: Mapping[str, Any], env: Mapping[str, str]) -> bytes:
    if ("secret" in table) == ("secret_env" in table):
        raise InvalidInput("secret", "give either secret, or secret_env: the variable that has it")
    if "secret" in table:
        return check_secret(table["secret"])
    variable = checks.text(table["secret_env"], "secret_env", 256)
    if not env.get(variable):
        raise InvalidInput("secret_env", f"{variable} is not set")
    return check_secret(env[variable])


def check_secret(given: object) -> bytes:
    """Return the key of the signature: the text as it is, or decoded after `whsec_`."""
    text = checks.text(given, "secret", 1_024)
    try:
        secret = base64.b64decode(text[len(_BASE64) :], validate=True) if text.startswith(_BASE64) else text.encode()
    except binascii.Error:
        raise InvalidInput("secret", "after whsec_ there must be base64") from None
    if len(secret) < SECRET_LEAST:
        raise InvalidInput("secret", f"must have at least {SECRET_LEAST} bytes")
    return secret


def _kinds(given: object) -> tuple[str, ...]:
    if not isinstance(given, list) or not given or any(kind not in KINDS for kind in given):
        raise InvalidInput("kinds", f"must be a list of {', '.join(KINDS)}")
    return tuple(dict.fromkeys(given))
