"""Refuse late writes: the other half of a lease, kept by the resource itself. It knows no store and no lease.

A lease cannot stop a holder that was paused beyond its TTL and then goes on. The resource can: every grant has a
larger fence than the ones before it, so each writer sends its fence along, and a fence that is smaller than the largest
one seen is refused with `StaleFence`. Fences of one store may be compared; those of two stores are unrelated.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.domain.timestamps import FOREVER
from leasehold.errors import InvalidInput, LeaseholdError, StaleFence

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "HEADER",
    "POSTGRESQL",
    "POSTGRESQL_COLUMN",
    "POSTGRESQL_FENCE",
    "POSTGRESQL_TRIGGER",
    "POSTGRESQL_UPDATE",
    "Guard",
    "check_header",
    "header",
]

# --------------------------------------------------------------------------------------------------- a file


class Guard:
    """A guard of one file that refuses a writer whose fence is older than one it has seen.

    The largest fence seen is kept beside the file, in `<file>.fence`, and processes queue at `<file>.fence.lock`. Do
    not delete them: the guard would forget.

    It does **not** stop writers that do not use it. And a writer that is paused in the middle of a
    `write` or an `admitted` block keeps the others waiting until it goes on or dies; it cannot be overtaken there,
    which is the point.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        self._fence = _beside(self.path, ".fence")

    @property
    def highest(self) -> int:
        """The largest fence seen; 0 before the first."""
        try:
            text = self._fence.read_text(encoding="ascii", errors="replace").strip()
        except FileNotFoundError:
            return 0
        if not _is_number(text):
            raise LeaseholdError(f"{self._fence} is damaged: it must hold the largest fence seen, as a number")
        return int(text)

    def check(self, fence: int) -> None:
        """Remember this fence; raises `StaleFence` if a larger one was seen.

        Another writer may come between this and what you do next: use `write`, or `admitted` for more than one step.
        """
        with self.admitted(fence):
            return

    def write(self, data: bytes | str, fence: int) -> None:
        """Replace the file, atomically and durably, unless a larger fence was seen. Text is written as UTF-8."""
        with self.admitted(fence):
            _replace(self.path, data.encode() if isinstance(data, str) else data)

    @contextmanager
    def admitted(self, fence: int) -> Iterator[None]:
        """A block that one writer at a time can enter; raises `StaleFence` if a larger fence was seen."""
        _check_fence(fence, "fence")
        with self._alone():
            highest = self.highest
            if fence < highest:
                raise StaleFence(fence, highest, str(self.path))
            # Before the change itself: a crash in between leaves the old content, but lets no old holder in.
            if fence > highest:
                _replace(self._fence, f"{fence}\n".encode())
            yield

    @contextmanager
    def _alone(self) -> Iterator[None]:
        # A file of its own, since the others are replaced: a lock on a file that is gone would exclude no writer.
        descriptor = os.open(_beside(self._fence, ".lock"), os.O_RDWR | os.O_CREAT | _SAFELY, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


_SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _replace(path: Path, data: bytes) -> None:
    """Write the file atomically and durably. Callers take turns."""
    new = _beside(path, ".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _SAFELY, 0o666), "wb") as file:
        if path.exists():
            os.fchmod(file.fileno(), path.stat().st_mode & 0o7777)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _check_fence(fence: object, field: str) -> int:
    if not isinstance(fence, int) or isinstance(fence, bool) or not 0 < fence <= FOREVER:
        raise InvalidInput(field, f"must be a lease's fence: a whole number from 1 to {FOREVER}")
    return fence


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(FOREVER))


# -------------------------------------------------------------------------------------------- over the network

HEADER = "Leasehold-Fence"
"""The header in which a request carries its fence. A server that refuses one answers 412 (Precondition Failed)."""


def header(fence: int) -> dict[str, str]:
    """Return the header to send along with a request that changes something."""
    return {HEADER: str(_check_fence(fence, "fence"))}


def check_header(value: str | None, highest: int) -> int:
    """Return the fence in a request's header, to remember as the largest seen. Raises `StaleFence` for an older one.

    Compare and remember in one transaction with the change itself, or another writer may come in between.
    """
    text = (value or "").strip()
    if not _is_number(text):
        raise InvalidInput(HEADER, "is needed: the fence of the lease that this is done under, as a number")
    fence = _check_fence(int(text), HEADER)
    if fence < highest:
        raise StaleFence(fence, highest, HEADER)
    return fence


# ------------------------------------------------------------------------------------------------- in PostgreSQL

POSTGRESQL_COLUMN = """\
ALTER TABLE deployment ADD COLUMN fence bigint NOT NULL DEFAULT 0;
"""
"""The column that a protected row needs: the largest fence it has seen."""

POSTGRESQL_UPDATE = """\
UPDATE deployment SET version = :version, fence = :fence WHERE id = :id AND fence <= :fence
"""
"""One statement that checks and writes. No row changed: the fence was stale (or there is no such row)."""

POSTGRESQL_FENCE = """\
SELECT set_config('leasehold.fence', CAST(:fence AS text), true)
"""
"""The first statement of each transaction where there is a trigger: it sets the fence until the transaction ends.

It is cast as settings are texts and a fence is a number: drivers send it as one.
"""

POSTGRESQL_TRIGGER = """\
CREATE OR REPLACE FUNCTION leasehold_fence() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    mine bigint := nullif(current_setting('leasehold.fence', true), '')::bigint;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        RAISE EXCEPTION 'TRUNCATE compares no fences: use DELETE' USING ERRCODE = 'check_violation';
    END IF;
    IF mine IS NULL OR mine < 1 THEN
        RAISE EXCEPTION 'no fence: begin with SELECT set_config(''leasehold.fence'', CAST(<fence> AS text), true)'
            USING ERRCODE = 'check_violation';
    END IF;
    IF TG_OP <> 'INSERT' AND mine < OLD.fence THEN
        RAISE EXCEPTION 'stale fence %: % was seen', mine, OLD.fence USING ERRCODE = 'check_violation';
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    NEW.fence := mine;
    RETURN NEW;
END $$;

CREATE TRIGGER leasehold_fence BEFORE INSERT OR UPDATE OR DELETE ON deployment
    FOR EACH ROW EXECUTE FUNCTION leasehold_fence();
CREATE TRIGGER leasehold_fence_truncate BEFORE TRUNCATE ON deployment
    FOR EACH STATEMENT EXECUTE FUNCTION leasehold_fence();
"""
"""A trigger that refuses any stale writer: each transaction sets its fence first, and every row is compared.

A deleted row loses the fence it has seen: mark rows as deleted instead if an old holder could create them again.
"""

POSTGRESQL = f"""\
-- Once: every protected row remembers the largest fence it has seen.
{POSTGRESQL_COLUMN}
-- Then either: every statement compares. Zero rows updated means that the fence is stale.
-- {POSTGRESQL_UPDATE}
-- Or: the table compares, for every writer. In each transaction, first of all:
-- {POSTGRESQL_FENCE}{POSTGRESQL_TRIGGER}"""
"""All of it as one text to copy: put your own table's name for `deployment`, once for each table."""
