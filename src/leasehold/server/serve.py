"""Start a server, listen, and stop without losing anything that was acknowledged."""

from __future__ import annotations

import asyncio
import logging
import shlex
import signal
import socket
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import uvicorn
import uvloop

from leasehold.config.settings import ARGUMENT
from leasehold.config.urls import shown
from leasehold.domain.nouns import Noun
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.locks.connect import open_served
from leasehold.routing.links import checked_address, is_trusted
from leasehold.server.access.authentication import is_loopback
from leasehold.server.access.permissions import RATE
from leasehold.server.api.app import App, asgi
from leasehold.server.api.handing_on import HandingOn
from leasehold.server.api.long_polls import KEEP_OPEN, KEEP_PLACE, LongPolls
from leasehold.server.http.certificates import renewed
from leasehold.server.http.protocol import protocol_for
from leasehold.server.ops import logs
from leasehold.server.ops.process import tune
from leasehold.server.webhooks.delivery import Webhooks
from leasehold.server.webhooks.positions import Positions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from leasehold.config.settings import Choice
    from leasehold.locks.hosted import Served
    from leasehold.server.ops.spans import Spans
    from leasehold.server.webhooks.settings import Hook

log = logging.getLogger("leasehold.server")
STOP_SECONDS = 10
"""How long requests under way may take after the signal to stop."""
BACKLOG = 16_384
KEEP_ALIVE = 75
AUTO = "auto"
"""In place of an address to advertise: that at which it serves."""


class ServeOptions(Noun):
    """Where and how to serve."""

    store: Choice
    host: str = "127.0.0.1"
    port: int = 7420
    tls_cert: str | None = None
    tls_key: str | None = None
    rate: float = RATE
    keep_open: float = KEEP_OPEN
    """How long one waiting request is kept open, in seconds; then it gets a ticket."""
    keep_place: float = KEEP_PLACE
    """How long a place in the queue is kept for a client with a ticket, in seconds."""
    webhooks: tuple[Hook, ...] = ()
    webhook_state: str = ""
    """The file that records how far each webhook got."""
    advertise: str = ""
    """The address at which other servers of the store reach this one, or `auto` for its own; empty: it owns nothing."""
    peers: tuple[str, ...] = ()
    """The only servers to which requests are handed on; empty: those with https, and those on this machine."""
    traces: str = "off"
    """`off`, `otlp` or `file:PATH`."""
    trace_ratio: float = 0.01
    """Of the requests that come without a trace, so many begin one."""
    log_format: str = "json"
    """`json` or `text`."""


class HttpServer(uvicorn.Server):
    """Answers waiting clients before it waits for their connections to close."""

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._app = app

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Have a signal end the serving and nothing else: the rest of `_serve` must still run."""
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
        """Answer waiting clients, and finish what is under way."""
        log.info("stopping: waiting clients are asked to retry")
        self._app.close()
        await super().shutdown(sockets)


def serve(options: ServeOptions, announce: Callable[[str, bool], None]) -> None:
    """Serve until a signal says to stop.

    Call `announce` with the URL once requests are accepted, and with True if no key is needed.
    """
    logs.begin(options.log_format)
    tune()
    uvloop.run(_serve(options, announce))


async def _serve(options: ServeOptions, announce: Callable[[str, bool], None]) -> None:
    """Serve until a signal ends the process. Raise `InvalidInput` if others could reach a server without keys."""
    served = await open_served(options.store)
    try:
        _check_owning(served, options)
        loopback = is_loopback(options.host)
        has_keys = bool(await asyncio.get_running_loop().run_in_executor(None, served.keys))
        if not loopback and not has_keys:
            url = f" --url {shlex.quote(shown(options.store.url))}" if options.store.why == ARGUMENT else ""
            raise InvalidInput(
                "host",
                f"{options.host} can be reached from other machines, and this store has no keys yet. "
                f"Listen on 127.0.0.1, or create a key first:\nleasehold keys create NAME --role admin{url}",
            )
        polls = LongPolls(served, at_most=options.keep_open, grace=options.keep_place)
        may_force = "force-release" in options.store.agents_may
        app = App(
            served, loopback=loopback, rate=options.rate, polls=polls, ttl=options.store.ttl, agents_may_force=may_force
        )
        if options.traces != "off":
            app.dispatcher.spans = _spans(served, options)
        config = _config(options, app)
        server = HttpServer(config, app)
        listener = _listen(options.host, options.port)
        url = _url(options, listener)
        log.info("serving", extra={"url": url})
        if not has_keys:
            log.warning("no keys: every client that reaches this server is an admin")
        announce(url, not has_keys)
        async with (
            webhooks(served, options, app),
            renewed(config.ssl, options.tls_cert, options.tls_key),
            owning(served, options, app, url),
        ):
            await server.serve([listener])
        await app.agents.ended()
        if app.dispatcher.spans is not None:
            app.dispatcher.spans.close()
    finally:
        await served.close()
        log.info("stopped")


def _spans(served: Served, options: ServeOptions) -> Spans:
    try:
        from leasehold.server.ops.spans import Spans  # noqa: PLC0415 (an extra, and only where it is wanted)
    except ImportError as error:
        raise LeaseholdError(f"{error.name} is missing; install it: pip install 'leasehold[otel]'") from None
    return Spans(served, options.traces, options.trace_ratio)


@asynccontextmanager
async def webhooks(served: Served, options: ServeOptions, app: App) -> AsyncIterator[None]:
    """Send webhooks while this lasts."""
    if not options.webhooks:
        yield
        return
    hooks = Webhooks(
        served, options.webhooks, Positions(options.webhook_state), app.metrics.webhook, app.metrics.backlog
    )
    await hooks.begin()
    try:
        yield
    finally:
        await hooks.close()


def _check_owning(served: Served, options: ServeOptions) -> None:
    """Refuse options of ownership that cannot be right, before anything is served."""
    if not options.advertise:
        return
    if not served.is_shared:
        raise InvalidInput("advertise", "is for servers that share a store on PostgreSQL or etcd")
    if options.advertise != AUTO:
        checked_address(options.advertise, "advertise")
    elif not is_loopback(options.host):
        message = f"say how other servers reach this one: {options.host} is not a name of its own"
        raise InvalidInput("advertise", message)
    for peer in options.peers:
        checked_address(peer, "peer")


@asynccontextmanager
async def owning(served: Served, options: ServeOptions, app: App, url: str) -> AsyncIterator[None]:
    """Own lanes, and hand requests on to the owners of others, while this lasts."""
    if not options.advertise:
        yield
        return
    own = checked_address(url if options.advertise == AUTO else options.advertise, "advertise")
    ownership = served.ownership(own)
    trusts = partial(is_trusted, own=own, named=[checked_address(each, "peer") for each in options.peers])
    handing_on = HandingOn(served, ownership, trusts, app.dispatcher.decide_here, app.metrics)
    app.dispatcher.handing_on = handing_on
    beating = asyncio.get_running_loop().create_task(ownership.run())
    try:
        yield
    finally:
        beating.cancel()
        await ownership.close()
        await handing_on.end()


def _config(options: ServeOptions, app: App) -> uvicorn.Config:
    """Return uvicorn's configuration, with the certificate already loaded."""
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
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
    )
    try:
        config.load()
    except OSError as error:  # an SSLError is one, too
        raise InvalidInput("tls_cert", f"{options.tls_cert} and {options.tls_key} cannot be used: {error}") from None
    return config


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens already, so that clients can connect once the URL is announced."""
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


def _url(options: ServeOptions, listener: socket.socket) -> str:
    scheme = "https" if options.tls_cert else "http"
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}"
