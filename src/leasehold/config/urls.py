"""URLs of stores and servers: in full, in one spelling to compare by, and as they may be shown. It opens nothing."""

# Pathlib costs a one-shot process more than all of this
# ruff: noqa: PTH118

from __future__ import annotations

import os

from leasehold.config import paths as places
from leasehold.domain import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_PORTS = {"http": "7420", "https": "443", "etcd": "2379", "postgresql": "5432"}
"""The default ports."""


def with_patience(url: str, seconds: float) -> str:
    """Return the URL with the store's own option for how long to try to reach it. SQLite has nothing to connect to."""
    scheme, question, query = url.partition("?")
    whole = -int(-seconds // 1)  # rounded up; `math` would be one more import of a one-shot command
    if scheme.startswith("git"):
        word = f"timeout={whole}s"
    elif scheme.startswith("postgres"):
        word = f"connect_timeout={max(2, whole)}"  # libpq takes 1 for 2
    elif scheme.startswith("etcd"):
        word = f"connect_timeout={seconds:g}s"
    else:
        return url
    own = any(each.startswith(word.partition("=")[0] + "=") for each in query.split("&"))
    return url if own else f"{url}{'&' if question else '?'}{word}"


def split_options(rest: str) -> tuple[str, str]:
    """Split a path from the `?name=value` behind it. A question mark in a folder's name belongs to the path."""
    path, mark, options = rest.rpartition("?")
    return (path, mark + options) if mark and "=" in options and "/" not in options else (rest, "")


def one_spelling(url: str) -> str:
    """Return one text for all spellings of a store's URL. It serves comparison and cannot be opened.

    Passwords and connection options are dropped. No name is resolved: two names of one machine stay different. A path
    must be absolute already (see `resolve`).
    """
    scheme, _, rest = url.partition(":")
    scheme = scheme.lower()
    if scheme in ("http", "https"):
        return ",".join(sorted(_one_server(each) for each in url.split(",")))
    path, options = split_options(rest)
    if scheme in ("sqlite", "git", "git+file"):
        remote = "".join(f"?{word}" for word in options[1:].split("&") if word.startswith("remote="))
        return f"{scheme}:{path.rstrip('/')}{remote}"  # a repository may have several remotes
    if scheme in ("postgres", "postgresql"):
        words = sorted(word for word in options[1:].split("&") if word and not word.startswith(("password=", "lanes=")))
        return _one_server(f"postgresql:{path}") + "".join(f"?{word}" for word in words)
    return _one_server(f"{scheme}:{path}")


def _one_server(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    scheme = scheme.lower()
    authority, slash, path = rest.rstrip("/").partition("/")
    user, at, hosts = authority.rpartition("@")
    port = f":{_PORTS[scheme]}" if scheme in _PORTS else ""
    named = ",".join(sorted(host.lower().removesuffix(port) for host in hosts.split(",")))
    return f"{scheme}://{user.partition(':')[0]}{at}{named}{slash}{path}"


def with_skew(url: str, skew: float | str) -> str:
    """Return the URL of a git remote with this `max_skew`; the last one in a URL counts."""
    return f"{url}{'&' if '?' in url else '?'}max_skew={skew}"


def resolve(url: str, directory: str, env: Mapping[str, str]) -> str:
    """Return the URL with an absolute path, resolved from this directory; `~/` is the user's home."""
    scheme, colon, rest = url.partition(":")
    if not scheme.islower():
        scheme = scheme.lower()
        url = scheme + colon + rest
    if scheme == "git" and colon:
        return _git_url(rest, directory, env)
    if scheme != "sqlite" or not colon or not rest.strip("/"):
        return url
    rest, options = split_options(rest)
    if rest.startswith("//"):
        path = "/" + rest.lstrip("/")
    elif rest.startswith("~/"):
        path = places.home(env) + rest[1:]
    else:
        path = os.path.join(directory, rest)
    return sqlite_url(path) + options


def _git_url(rest: str, directory: str, env: Mapping[str, str]) -> str:
    """Return the URL of the git directory that all worktrees and folders of a repository share."""
    place, mark, options = rest.partition("?")
    path = os.path.realpath(os.path.join(directory, places.home(env) + place[1:] if place.startswith("~/") else place))
    copy = places.working_copy(path, {})
    return f"git:{copy.common if copy is not None else path}{mark}{options}"


def sqlite_url(path: str) -> str:
    """Return the URL of a database file. Raises StoreUnsuitable if a link of another user leads elsewhere."""
    places.refuse_strange_link(path)
    return "sqlite://" + os.path.realpath(path)


_SECRET = ("pass", "pwd", "secret", "token", "client_key", "server_key", "api_key", "credential")
"""Parts of the names of secret options in a URL."""
_PATHS = ("sqlite", "git", "git+file")
"""Schemes whose URLs name a file, which may have any character in its name."""


def shown(url: str) -> str:
    """Return the URL without its passwords, and inert."""
    place, question, query = url.partition("?")
    scheme, mark, rest = place.partition("://")
    if not mark and scheme.partition(":")[0] not in _PATHS and ":" in url.rpartition("@")[0]:  # its scheme is missing
        user, _, host = url.rpartition("@")
        return f"{names.shown(user.partition(':')[0])}:***@{shown(host)}"
    authority, slash, path = rest.partition("/")
    _, colon, port = authority.partition(":")
    is_cut = colon and "@" not in authority and not port.isdigit()
    if is_cut and "@" in path + question + query:  # by a password that is not percent-encoded
        authority, slash, path, question, query = f"{rest}{question}{query}", "", "", "", ""
    user, at, host = authority.rpartition("@")
    words = "&".join(map(_word_shown, query.split("&")))
    if query and scheme.lower() in ("http", "https"):  # a server's URL has no options: this is something else
        words = "***"
    if not mark:  # no URL: perhaps libpq's key=value words
        scheme = " ".join(map(_word_shown, scheme.split(" ")))
    return names.shown(f"{scheme}{mark}{_user_shown(scheme, user)}{at}{host}{slash}{path}{question}{words}")


def _user_shown(scheme: str, user: str) -> str:
    """Return the user of a URL without the password. Over HTTP a user without a password is a token."""
    name, colon, _ = user.partition(":")
    if colon:
        return f"{name}:***"
    return "***" if name and scheme.lower().endswith(("http", "https")) else name


def _word_shown(word: str) -> str:
    name, _, value = word.partition("=")
    if name != "listen" and "%" not in name:
        return f"{name}=***" if any(each in name.lower() for each in _SECRET) else word
    from urllib.parse import unquote  # noqa: PLC0415 (rare)

    if name != "listen":
        return f"{name}=***"  # an encoded name may hide a secret
    plain = unquote(value)  # another URL, perhaps with a password
    return word if shown(plain) == names.shown(plain) else f"{name}={shown(plain)}"
