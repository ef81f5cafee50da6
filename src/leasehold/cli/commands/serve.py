"""serve: start the server. Only this module of the command line imports the server, which is an extra."""

from __future__ import annotations

from leasehold.cli.command_line import settle_down
from leasehold.cli.output import DONE
from leasehold.errors import InvalidInput, LeaseholdError

SECRET = "LEASEHOLD_WEBHOOK_SECRET"  # noqa: S105 (the name of a variable)
"""The variable with the secret that signs deliveries to the webhooks of the command line."""
SHORTEST = 0.01
"""The least --keep-open and --keep-place, in seconds."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.cli.context import Context
    from leasehold.config.settings import Choice


def serve(context: Context) -> int:
    """Serve until the process is signalled to stop."""
    values = context.values
    try:
        from leasehold.server.serve import ServeOptions  # noqa: PLC0415
        from leasehold.server.serve import serve as serve_on  # noqa: PLC0415
        from leasehold.server.webhooks.settings import configured, state_file  # noqa: PLC0415
    except ImportError as error:
        if error.name is not None and error.name.startswith("leasehold"):
            raise
        raise LeaseholdError(f"{error.name} is missing; install the server: pip install 'leasehold[server]'") from None
    port, rate = context.number("port"), context.number("rate")
    if not 0 <= port < 65536:
        raise InvalidInput("port", "must be 0 to 65535")
    if rate < 0:
        raise InvalidInput("rate", "must not be negative")
    if (values["tls_cert"] is None) != (values["tls_key"] is None):
        raise InvalidInput("tls_key", "--tls-key and --tls-cert go together")
    store = _store(values["store"], values["url"])
    settle_down()
    told = [{"url": url, "secret_env": SECRET, "allow_private": values["webhook_private"]} for url in values["webhook"]]
    hooks = configured([*store.settings.get("webhooks", []), *told])
    terms = ServeOptions(
        store,
        values["host"],
        port,
        values["tls_cert"],
        values["tls_key"],
        float(rate),
        _patience(context, "keep_open"),
        _patience(context, "keep_place"),
        hooks,
        values["webhook_state"] or (state_file(store.url) if hooks else ""),
        values["advertise"] or "",
        tuple(values["peer"]),
        log_format=values["log_format"],
        traces=_traces(values["traces"]),
        trace_ratio=_ratio(values["trace_ratio"]),
    )
    serve_on(terms, lambda url, is_open: _announce(context, url, is_open=is_open))
    return DONE


def _traces(where: str) -> str:
    if where in ("off", "otlp") or (where.partition(":")[2] and where.startswith("file:")):
        return where
    raise InvalidInput("traces", "must be off, otlp or file:PATH")


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise InvalidInput("trace_ratio", "must be a number from 0 to 1")
    return ratio


def _store(store: str | None, url: str | None) -> Choice:
    """Return the store to serve."""
    from leasehold.config.settings import find  # noqa: PLC0415
    from leasehold.config.urls import shown  # noqa: PLC0415

    if None not in (store, url) and store != url:
        raise InvalidInput("store", "--store and --url are the same: give one of them")
    found = find(store or url)
    if found.url.startswith(("http:", "https:")):
        raise InvalidInput(
            "store",
            f"{shown(found.url)} ({found.why}) is a server already; name a store, such as "
            "sqlite:///var/lib/leasehold.db or postgresql://leasehold@db.example/locks",
        )
    return found


def _patience(context: Context, name: str) -> float:
    seconds = context.seconds(name)
    if seconds < SHORTEST:
        raise InvalidInput(name, "must be at least 10ms, or clients would retry without a pause")
    return seconds


OPEN = """No keys: everyone who reaches this server is one principal, an admin. A holder's name proves nothing
here, only a lease's token or a session's secret does. Make the first key with:
  leasehold keys create NAME --role admin"""


def _announce(context: Context, url: str, *, is_open: bool) -> None:
    if context.out.json:
        from leasehold.wire.shapes import SCHEMA_VERSION  # noqa: PLC0415

        context.out.give({"schema_version": SCHEMA_VERSION, "ok": True, "data": {"url": url}})
    else:
        context.out.say(f"Serving {url}\n{OPEN}" if is_open else f"Serving {url}")
