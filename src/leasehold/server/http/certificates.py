"""The certificate of a server, loaded again when its files change: it is renewed more often than a server restarts."""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

log = logging.getLogger("leasehold.server")
CHECK_EVERY = 10.0
"""Seconds between two checks of the files."""


class Certificate:
    """The certificate that a context presents to new connections."""

    def __init__(self, context: ssl.SSLContext, cert: str, key: str) -> None:
        self._context = context
        self._files = (cert, key)
        self._seen = self._state()

    def reload(self) -> None:
        """Load the files again if they changed. Files that cannot be used, as while only one is new, are ignored."""
        state = self._state()
        if state == self._seen:
            return
        self._seen = state
        try:
            _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), *self._files)  # a failure would leave half of it behind
            _load(self._context, *self._files)
        except OSError as error:  # an SSLError is one, too
            log.warning("the changed certificate cannot be used, the previous one stays in use: %s", error)
        else:
            log.info("the changed certificate is in use")

    def _state(self) -> tuple[tuple[int, ...], ...]:
        return tuple(_state(Path(file)) for file in self._files)


def _state(file: Path) -> tuple[int, ...]:
    try:
        found = file.stat()
    except OSError:  # it is being replaced, or is gone: the previous one stays in use
        return ()
    return (found.st_mtime_ns, found.st_ino, found.st_size)


def _load(context: ssl.SSLContext, cert: str, key: str) -> None:
    context.load_cert_chain(cert, key, password="")  # or OpenSSL would ask a terminal for one, and block every request


@asynccontextmanager
async def renewed(context: ssl.SSLContext | None, cert: str | None, key: str | None) -> AsyncIterator[None]:
    """Reload the certificate while this lasts, if there is one."""
    if context is None or cert is None or key is None:
        yield
        return
    watching = asyncio.create_task(_watch(Certificate(context, cert, key)))
    try:
        yield
    finally:
        watching.cancel()


async def _watch(certificate: Certificate) -> None:
    while True:
        await asyncio.sleep(CHECK_EVERY)
        certificate.reload()
