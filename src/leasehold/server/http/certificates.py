"""The certificate of a server, read again once its files change: they are renewed more often than a server restarts."""

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
LOOK_EVERY = 10.0
"""Seconds between two looks at the files."""


class Certificate:
    """What a context shows to those who connect from now on."""

    def __init__(self, context: ssl.SSLContext, cert: str, key: str) -> None:
        self._context = context
        self._files = (cert, key)
        self._seen = self._state()

    def look(self) -> None:
        """Read the files again if they changed. What cannot be used, as when only one of them is new, is passed by."""
        state = self._state()
        if state == self._seen:
            return
        self._seen = state
        try:
            _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), *self._files)  # a failure would leave half of it behind
            _load(self._context, *self._files)
        except OSError as error:  # an SSLError is one, too
            log.warning("the certificate has changed and cannot be used, the one before is still shown: %s", error)
        else:
            log.info("the certificate has changed, and is shown from now on")

    def _state(self) -> tuple[tuple[int, ...], ...]:
        return tuple(_state(Path(file)) for file in self._files)


def _state(file: Path) -> tuple[int, ...]:
    try:
        found = file.stat()
    except OSError:  # it is being replaced, or is gone: what is shown stays
        return ()
    return (found.st_mtime_ns, found.st_ino, found.st_size)


def _load(context: ssl.SSLContext, cert: str, key: str) -> None:
    context.load_cert_chain(cert, key, password="")  # or a terminal would be asked for one, while everybody waits


@asynccontextmanager
async def renewed(context: ssl.SSLContext | None, cert: str | None, key: str | None) -> AsyncIterator[None]:
    """While this lasts, the files are looked at, if there are any."""
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
        await asyncio.sleep(LOOK_EVERY)
        certificate.look()
