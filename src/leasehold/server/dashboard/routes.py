"""The paths of the server that belong to the page."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from leasehold.server.dashboard import login, views
from leasehold.server.dashboard.figures import HistoryFigures
from leasehold.server.dashboard.files import PageFiles

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from leasehold.server.api.app import App

    Endpoint = Callable[[Request], Awaitable[Response]]


def paths(app: App) -> dict[str, dict[str, Endpoint]]:
    """Return the handlers, by path and method."""
    files, figures = PageFiles(), HistoryFigures(app)
    return {
        "/": {"GET": files.page},
        "/dashboard/session": {
            "GET": partial(login.who_am_i, app),
            "POST": partial(login.sign_in, app),
            "DELETE": partial(login.sign_out, app),
        },
        "/dashboard/graph": {"GET": partial(views.graph, app)},
        "/dashboard/runs": {"GET": partial(views.runs, app)},
        "/dashboard/contention": {"GET": figures.contention},
        "/dashboard/trends": {"GET": figures.trends},
        "/dashboard/pools": {"GET": partial(views.pools, app)},
        "/dashboard/closed": {"GET": partial(views.closed, app)},
        "/dashboard/{name}": {"GET": files.part},
    }
