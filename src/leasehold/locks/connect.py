"""From a URL to `Locks`: the only place that knows all stores."""

from __future__ import annotations

import os

from leasehold.config import identity, urls
from leasehold.config import settings as config
from leasehold.engine.batch import is_networked
from leasehold.engine.engine import Engine
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.locks.local import CallerDriver, EngineAnswers, ThreadDriver
from leasehold.locks.sync import Locks
from leasehold.requests import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from typing import TypeAlias

    from leasehold.config.settings import Choice
    from leasehold.locks.aio import AsyncAnswers, AsyncLocks
    from leasehold.locks.arguments import Defaults
    from leasehold.locks.hosted import Served
    from leasehold.locks.local import Driver
    from leasehold.requests.calls import Answers
    from leasehold.requests.checks import Settings
    from leasehold.stores.etcd import EtcdStore
    from leasehold.stores.postgres import PostgresStore
    from leasehold.stores.protocol import NetworkStore, Store

    Timeout: TypeAlias = float | str | timedelta


def connect(
    url: str | Choice | None = None,
    *,
    holder: str | None = None,
    space: str | None = None,
    settings: Settings | None = None,
    accept_restore: bool = False,
    api_key: str | None = None,
    threaded: bool = True,
    progress: Callable[[], None] | None = None,
    timeout: Timeout | None = None,
) -> Locks:
    """Open the locks that live at this URL: `sqlite:///var/lib/leasehold.db`, `http://locks.example:7420`.

    Defaults come from the environment (`LEASEHOLD_URL`, ...), the configuration files, or the defaults:
    see docs/reference/configuration.md.

    Args:
        url: where the locks live, or a `Choice` of `config.find`.
        holder: who asks; by default as configured, or a name made of user, host and process.
        space: the tenant that names live in.
        settings: what an installation may decide; see `checks.Settings`.
        accept_restore: go on with a database that was restored from a backup, with fences above all given out.
        api_key: what a server knows us by: a key or a session's ID.SECRET; `LEASEHOLD_API_KEY` by default.
        threaded: False: the caller drives the engine itself; for one caller at a time, as in a command line.
        progress: called again and again while an unthreaded caller waits in a queue.
        timeout: how long a call goes on while nobody answers, apart from what it waits in a queue: seconds, text such
            as `"10s"`, or a `timedelta`; `LEASEHOLD_CONNECT_TIMEOUT` by default, else about 4 s for a server that
            refuses connections and 30 s for a silent one. SQLite has nothing to connect to.
            See docs/reference/python.md.
    """
    choice = _chosen(url, timeout)
    who = _identity(choice, holder, space)
    answers: Answers
    if is_served(choice.url):
        from leasehold.client.sync import http_answers  # noqa: PLC0415 (only for those who have a server)

        answers = http_answers(choice.url, api_key, None if threaded else progress, choice.patience)
    else:
        store = open_store(choice.store_url, accept_restore=accept_restore, why=choice.why, is_one_shot=not threaded)
        rules = _rules(choice, settings)
        answers = _answers(
            store, lambda engine: ThreadDriver(engine) if threaded else CallerDriver(engine, progress), rules
        )
    return Locks(answers, threaded=threaded or is_served(choice.url), **who)


async def aconnect(
    url: str | Choice | None = None,
    *,
    holder: str | None = None,
    space: str | None = None,
    settings: Settings | None = None,
    accept_restore: bool = False,
    api_key: str | None = None,
    timeout: Timeout | None = None,  # noqa: ASYNC109 (of every later call, not of this one)
) -> AsyncLocks:
    """Open the locks that live at this URL for coroutines; see `connect`."""
    import asyncio  # noqa: PLC0415 (not for those who do without)

    from leasehold.locks.aio import AsyncLocks  # noqa: PLC0415
    from leasehold.locks.local import AsyncEngineAnswers  # noqa: PLC0415

    choice = _chosen(url, timeout)
    who = _identity(choice, holder, space)
    answers: AsyncAnswers
    if is_served(choice.url):
        from leasehold.client.aio import async_http_answers  # noqa: PLC0415 (only for those who have a server)

        answers = async_http_answers(choice.url, api_key, choice.patience)
    else:
        store = open_store(choice.store_url, accept_restore=accept_restore, why=choice.why)
        rules, loop = _rules(choice, settings), asyncio.get_running_loop()

        def answers_of(lane: Store) -> AsyncEngineAnswers:
            engine = Engine(lane)
            return AsyncEngineAnswers(engine, ThreadDriver(engine), rules, loop)

        answers = answers_of(store)
        if is_networked(store) and store.layout.is_divided:
            from leasehold.routing.answers import AsyncLaneAnswers, Lanes  # noqa: PLC0415 (only for divided stores)

            lanes: Lanes[AsyncAnswers] = Lanes(answers, lambda lane: answers_of(store.lane(lane)), store.layout.lanes)
            answers = AsyncLaneAnswers(lanes)
    return AsyncLocks(answers, **who)


def _rules(choice: Choice, given: Settings | None) -> Settings:
    """Return the settings of locks that this process opens itself: two users of one database are two principals."""
    rules = choice.rules() if given is None else given
    return rules._replace(user=f"uid:{os.geteuid()}") if choice.url.startswith("sqlite:") else rules


async def open_served(
    url: str | Choice | None = None, *, settings: Settings | None = None, accept_restore: bool = False
) -> Served:
    """Return the locks of a server: the running event loop drives the engine, which sweeps even without requests."""
    import asyncio  # noqa: PLC0415 (not for those who do without)

    from leasehold.locks.hosted import Served  # noqa: PLC0415

    choice = _chosen(url)
    store = open_store(choice.store_url, accept_restore=accept_restore, why=choice.why)
    stores = [store, *_opened(store)] if is_networked(store) else [store]
    rules = choice.rules() if settings is None else settings
    return Served(stores, rules, asyncio.get_running_loop(), space=choice.space)


def divide(choice: Choice, lanes: int | None = None) -> tuple[int, int]:
    """Return how many lanes a store had, and has now; change their number if one is given."""
    from leasehold.stores.layout import LANES_MOST  # noqa: PLC0415 (rare)

    if is_served(choice.url):
        raise InvalidInput("url", "is that of a server: run this command where the store is, with --url")
    wanted = None if lanes is None else checks.number(lanes, "lanes", 1, LANES_MOST)
    scheme, _, rest = choice.store_url.partition(":")
    is_resumable = scheme == "etcd" and wanted is not None
    store = etcd(rest, may_be_closed=True) if is_resumable else open_store(choice.store_url, why=choice.why)
    try:
        before = store.layout.lanes if is_networked(store) else 1
        if wanted is None or wanted == before:
            return before, before
        if not is_networked(store):
            raise InvalidInput("lanes", f"must be 1: a store in {store.capabilities.name} is never divided")
        return store.divide(wanted), wanted
    finally:
        store.close()


def back_up(choice: Choice, file: str) -> int:
    """Copy an embedded store into a new file, while it is in use; return the size. Raises `InvalidInput` for others."""
    scheme, _, rest = choice.url.partition(":")
    if scheme != "sqlite":
        raise InvalidInput("url", f"a {scheme}: store is backed up with its own tools: see docs/how-to/backup.md")
    from leasehold.stores.sqlite.copying import copy  # noqa: PLC0415 (rare)

    return copy(sqlite_file(rest)[0], file)


def lanes_of(store: NetworkStore) -> range:
    """Return the numbers of the lanes that have spaces; none if the store is not divided."""
    return range(1, store.layout.lanes + 1) if store.layout.is_divided else range(0)


def _opened(control: NetworkStore) -> list[Store]:
    """Open these lanes of a store, or none of them if one cannot be opened."""
    opened: list[Store] = []
    try:
        for lane in lanes_of(control):
            opened.append(control.lane(lane))  # noqa: PERF401 (those that are open are closed if one fails)
    except BaseException:
        for store in (*opened, control):
            store.close()
        raise
    return opened


def _answers(store: Store, driver_of: Callable[[Engine], Driver], settings: Settings) -> Answers:
    """Return the answers of an engine on this store; of one on each lane if it is divided."""

    def answers_of(lane: Store) -> EngineAnswers:
        engine = Engine(lane)
        return EngineAnswers(engine, driver_of(engine), settings)

    answers = answers_of(store)
    if not is_networked(store) or not store.layout.is_divided:
        return answers
    from leasehold.routing.answers import LaneAnswers, Lanes  # noqa: PLC0415 (only for divided stores)

    return LaneAnswers(Lanes(answers, lambda lane: answers_of(store.lane(lane)), store.layout.lanes))


def is_served(url: str) -> bool:
    """Return True if this is the URL of a server."""
    return url.startswith(("http://", "https://"))


def is_by_role(url: str) -> bool:
    """Return True if the role of a key decides what this process may do: it gives a server a key, or a session."""
    if not is_served(url):
        return False
    from leasehold.client.messages import bases  # noqa: PLC0415 (only for those who have a server)

    return all(base.token is not None for base in bases(url))


def _chosen(url: str | Choice | None, timeout: Timeout | None = None) -> Choice:
    choice = url if isinstance(url, config.Choice) else config.find(url)
    if timeout is None:
        return choice
    if type(timeout) not in (int, float, str):
        from leasehold.locks import arguments  # noqa: PLC0415 (only for those who give one)

        return choice.with_patience(arguments.duration(timeout, "timeout"), "timeout")
    return choice.with_patience(timeout, "timeout")


def _identity(choice: Choice, holder: str | None, space: str | None) -> Defaults:
    """Return what a caller need not pass to each call."""
    return {
        "holder": (choice.holder or identity.of_process()) if holder is None else checks.text(holder, "holder", 256),
        "space": choice.space if space is None else checks.space(space),
        "ttl": choice.ttl,
        "host": identity.host(),
    }


def open_store(url: str, *, accept_restore: bool = False, why: str = "", is_one_shot: bool = False) -> Store:
    """Open the store behind a URL; `why` says where the URL comes from, in case it is wrong.

    `is_one_shot`: this process makes a few calls and ends, so closing must be quick.
    """
    scheme, colon, rest = url.partition(":")
    if not colon or scheme not in _STORES:
        known = ", ".join(f"{name}:" for name in (*_STORES, "http", "https"))
        source = f" (from {why})" if why else ""
        raise InvalidInput(
            "url",
            f"{urls.shown(url)!r}{source} must begin with one of {known} (for example sqlite:///var/lib/leasehold.db)",
        )
    if scheme == "sqlite":
        return _sqlite(rest, accept_restore=accept_restore, is_one_shot=is_one_shot)
    return _STORES[scheme](rest, accept_restore=accept_restore)


def _sqlite(rest: str, *, accept_restore: bool, is_one_shot: bool = False) -> Store:
    from leasehold.stores.sqlite import SqliteStore  # noqa: PLC0415 (each store is imported when it is used)

    path, (days, rows, create) = sqlite_file(rest)
    return SqliteStore(
        path,
        accept_restore=accept_restore,
        retention_days=days,
        retention_rows=rows,
        is_one_shot=is_one_shot,
        creates_directory=bool(create),
    )


def sqlite_file(rest: str) -> tuple[str, tuple[int, int, int]]:
    """Return the file that a `sqlite:` URL means, from what is after the colon, and its options, checked."""
    path, options = sqlite_path(rest), urls.split_options(rest)[1]
    if not path.strip("/"):
        raise InvalidInput("url", "names no file: write sqlite:///absolute/path or sqlite:relative/path")
    if not path.isprintable() and any("\ud800" <= one <= "\udfff" for one in path):
        raise InvalidInput("url", f"{path!a} is not UTF-8, which SQLite needs: set LEASEHOLD_URL to a file elsewhere")
    if options in _PLAIN:
        return path, _PLAIN[options]
    from leasehold.stores.sqlite.url_options import parse  # noqa: PLC0415 (only where there are some)

    return path, parse(options)


def _git(scheme: str) -> Callable[..., Store]:
    def opened(rest: str, *, accept_restore: bool) -> Store:  # noqa: ARG001 (a remote is not restored behind our back)
        from leasehold.config.paths import state_home  # noqa: PLC0415
        from leasehold.stores.git import GitStore  # noqa: PLC0415
        from leasehold.stores.git.address import parse  # noqa: PLC0415

        return GitStore(parse(scheme, rest, state_home(os.environ)))

    return opened


def sqlite_path(rest: str) -> str:
    """Return the file that the part of a `sqlite:` URL after the colon means."""
    path, _ = urls.split_options(rest)
    return "/" + path.lstrip("/") if path.startswith("//") else path


def _postgres(rest: str, *, accept_restore: bool) -> Store:  # noqa: ARG001 (a restored one is noticed by itself)
    return postgres(rest)


def postgres(rest: str, *, is_examined: bool = False) -> PostgresStore:
    """Open the store that the part of a `postgresql:` URL after the colon means. `examined`: change nothing in it."""
    try:
        from leasehold.stores.postgres import PostgresStore  # noqa: PLC0415
    except ImportError as error:
        raise _missing(error, "postgres") from None
    return PostgresStore(f"postgresql:{rest}", is_examined=is_examined)


def _etcd(rest: str, *, accept_restore: bool) -> Store:  # noqa: ARG001 (a restored one is noticed by itself)
    return etcd(rest)


def etcd(rest: str, *, is_examined: bool = False, may_be_closed: bool = False) -> EtcdStore:
    """Open the store that the part of an `etcd:` URL after the colon means. `is_examined`: change nothing in it.

    `may_be_closed`: see `EtcdStore`.
    """
    try:
        from leasehold.stores.etcd import EtcdStore  # noqa: PLC0415
    except ImportError as error:
        raise _missing(error, "etcd") from None
    return EtcdStore(rest, is_examined=is_examined, may_be_closed=may_be_closed)


def _missing(error: ImportError, extra: str) -> Exception:
    """Say how to install a store's extra if one of its libraries is missing; any other error stays as it is."""
    if error.name is None or error.name.startswith("leasehold"):
        return error
    library = error.name.partition(".")[0]
    return LeaseholdError(f"{library} is missing; install the store:\n  pip install 'leasehold[{extra}]'")


_PLAIN = {"": (30, 1_000_000, 0), "?create=1": (30, 1_000_000, 1)}
"""The options that one-shot commands have, read without an import."""
_STORES: dict[str, Callable[..., Store]] = {
    "sqlite": _sqlite,
    "etcd": _etcd,
    "postgresql": _postgres,
    "postgres": _postgres,
    "git": _git("git"),
    "git+file": _git("git+file"),
    "git+ssh": _git("git+ssh"),
    "git+https": _git("git+https"),
    "git+http": _git("git+http"),
    "git+git": _git("git+git"),
}
