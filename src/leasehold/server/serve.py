"""Start, listen, and end without losing anything that was acknowledged."""

from __future__ import annotations

import asyncio
import logging
import shlex
import signal
import socket
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn
import uvloop

from leasehold.config.settings import ARGUMENT
from leasehold.config.urls import shown
from leasehold.domain.nouns import Noun
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.locks.connect import open_served
from leasehold.server.access.origin import is_loopback
from leasehold.server.access.rates import RATE
from leasehold.server.api.app import App, asgi
from leasehold.server.api.waiting import GRACE, SLICE, Waits
from leasehold.server.http.certificates import renewed
from leasehold.server.http.protocol import protocol_for
from leasehold.server.ops import logs
from leasehold.server.ops.process import settle_in
from leasehold.server.webhooks.delivery import Webhooks
from leasehold.server.webhooks.positions import Places

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from leasehold.config.settings import Choice
    from leasehold.locks.hosted import Served
    from leasehold.server.webhooks.settings import Hook

log = logging.getLogger("leasehold.server")
LEAVING = 10
"""How long requests under way may take after the signal to stop, in seconds."""
BACKLOG = 16_384
KEEP_ALIVE = 75


class ServeOptions(Noun):
    """Where and how to serve."""

    store: Choice
    host: str = "127.0.0.1"
    port: int = 7420
    tls_cert: str | None = None
    tls_key: str | None = None
    rate: float = RATE
    keep_open: float = SLICE
    """How long one waiting request is kept open, in seconds; then it gets a ticket."""
    keep_place: float = GRACE
    """How long a place in the queue is kept for whoever has a ticket, in seconds."""
    webhooks: tuple[Hook, ...] = ()
    webhook_state: str = ""
    """The file that remembers what was sent."""


class Server(uvicorn.Server):
    """Tells everybody who waits before it waits for them."""

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._app = app

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """A signal ends the serving, and nothing else: what comes after it here must still run."""
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup: it outlives its terminal
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Who waits is told to come back, what is under way is finished."""
        log.info("stopping: who waits is told to come back")
        self._app.close()
        await super().shutdown(sockets)


def serve(terms: ServeOptions, announce: Callable[[str, bool], None]) -> None:
    """Serve until a signal says to stop.

    Call `announce` with the URL once requests are accepted, and with True if nobody has to show a key.
    """
    logs.begin()
    settle_in()
    uvloop.run(_serve(terms, announce))


async def _serve(terms: ServeOptions, announce: Callable[[str, bool], None]) -> None:
    served = await open_served(terms.store)
    try:
        loopback = is_loopback(terms.host)
        has_keys = bool(await asyncio.get_running_loop().run_in_executor(None, served.keys))
        if not loopback and not has_keys:
            raise InvalidInput(
                "host",
                f"{terms.host} can be reached by others, and this store has no keys yet: create one first with "
                f"`{_first_key(terms)}`, or listen on 127.0.0.1",
            )
        waits = Waits(served, at_most=terms.keep_open, grace=terms.keep_place)
        app = App(served, loopback=loopback, rate=terms.rate, waits=waits, ttl=terms.store.ttl)
        config = _config(terms, app)
        server = Server(config, app)
        listener = _listen(terms.host, terms.port)
        url = _url(terms, listener)
        log.info("serving", extra={"url": url})
        if not has_keys:
            log.warning("no keys: everybody who reaches this server is an admin")
        announce(url, not has_keys)
        async with told(served, terms, app), renewed(config.ssl, terms.tls_cert, terms.tls_key):
            await server.serve([listener])
        await app.agents.ended()
    finally:
        await served.close()
        log.info("stopped")


def _first_key(terms: ServeOptions) -> str:
    """The command that makes a key for this very store."""
    where = f" --url {shlex.quote(shown(terms.store.url))}" if terms.store.why == ARGUMENT else ""
    return f"leasehold keys create NAME --role admin{where}"


@asynccontextmanager
async def told(served: Served, terms: ServeOptions, app: App) -> AsyncIterator[None]:
    """While this lasts, webhooks are sent."""
    if not terms.webhooks:
        yield
        return
    hooks = Webhooks(served, terms.webhooks, Places(terms.webhook_state), app.metrics.webhook)
    await hooks.begin()
    try:
        yield
    finally:
        await hooks.close()


def _config(terms: ServeOptions, app: App) -> uvicorn.Config:
    config = uvicorn.Config(
        asgi(app),
        http=protocol_for(app),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=LEAVING,
        ssl_certfile=terms.tls_cert,
        ssl_keyfile=terms.tls_key,
    )
    try:
        config.load()
    except OSError as error:  # an SSLError is one, too
        raise InvalidInput("tls_cert", f"{terms.tls_cert} and {terms.tls_key} cannot be used: {error}") from None
    return config


def _listen(host: str, port: int) -> socket.socket:
    """Listening from here on: whoever connects after the URL was announced is served."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        raise LeaseholdError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None
    listener.setblocking(False)
    return listener


def _url(terms: ServeOptions, listener: socket.socket) -> str:
    scheme = "https" if terms.tls_cert else "http"
    host = f"[{terms.host}]" if ":" in terms.host else terms.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}"
