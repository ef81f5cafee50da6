"""Which paths of the server belong to the page. The app gives each of them its way of telling what went wrong."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from leasehold.server.dashboard import login as signing
from leasehold.server.dashboard import views as looks
from leasehold.server.dashboard.files import Files

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from leasehold.server.api.app import App

    Endpoint = Callable[[Request], Awaitable[Response]]


def paths(app: App) -> dict[str, dict[str, Endpoint]]:
    """Each path, and what answers each method there."""
    files = Files()
    return {
        "/": {"GET": files.page},
        "/dashboard/session": {
            "GET": partial(signing.who_am_i, app),
            "POST": partial(signing.sign_in, app),
            "DELETE": partial(signing.sign_out, app),
        },
        "/dashboard/graph": {"GET": partial(looks.graph, app)},
        "/dashboard/runs": {"GET": partial(looks.runs, app)},
        "/dashboard/contention": {"GET": looks.Contention(app).answer},
        "/dashboard/closed": {"GET": partial(looks.closed, app)},
        "/dashboard/{name}": {"GET": files.part},
    }
