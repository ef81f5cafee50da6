"""One request to a server, for plain code that has a route of its own. It retries nothing: that is its caller's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from leasehold.client.deciding import told
from leasehold.client.encoding import HttpRequest
from leasehold.client.messages import bases, content_of, render
from leasehold.client.sync import SyncConnection
from leasehold.client.unexpected import NoServer, explained
from leasehold.errors import Unreachable

if TYPE_CHECKING:
    from leasehold.client.messages import ServerAddress


def ask(
    url: str, method: str, path: str, body: dict[str, Any] | None, *, within: float, api_key: str | None = None
) -> tuple[int, Any]:
    """Status and JSON of the answer, from the first of the servers that can be reached. Raises `Unreachable`."""
    connection = _connected(bases(url, api_key))
    try:
        head, content = connection.exchange(render(HttpRequest(method, path, body), connection.base), within)
        try:
            return head.status, json.loads(content_of(head, content))
        except ValueError:
            raise NoServer(head.status, "its answer is not JSON", is_proxied=head.is_proxied) from None
    except OSError as error:
        raise Unreachable(f"no answer from the server: {told(connection.base.first, error)}") from error
    except NoServer as error:
        raise explained(error, connection.base) from None
    finally:
        connection.disconnect()


def _connected(servers: tuple[ServerAddress, ...]) -> SyncConnection:
    troubles = []
    for base in servers:
        try:
            return SyncConnection(base)
        except OSError as error:
            troubles.append(told(base.first, error))
    raise Unreachable(f"no server can be reached: {'; '.join(troubles)}")
