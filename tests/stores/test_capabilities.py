"""The table of stores in the documentation is what they declare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.stores.etcd import EtcdStore
from leasehold.stores.git import CAPABILITIES as GIT
from leasehold.stores.postgres import PostgresStore
from leasehold.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from leasehold.stores import Capabilities

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "stores.md"
HEAD = """\
| store | an acknowledged grant survives | first come, first served | history | a waiter elsewhere learns of its grant |
| --- | --- | --- | --- | --- |
"""
STORES = (SqliteStore.capabilities, PostgresStore.capabilities, EtcdStore.capabilities, GIT)


def row(store: Capabilities) -> str:
    order = "yes" if store.fifo else "best effort"
    history = "yes" if store.history else "no"
    return f"| `{store.name}` | {store.durable} | {order} | {history} | {store.wakeup} |\n"


def table() -> str:
    """What belongs into the page: `python -m tests.stores.test_capabilities` prints it."""
    return HEAD + "".join(map(row, STORES))


def test_the_documented_table_is_what_the_stores_declare() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")


if __name__ == "__main__":
    print(table(), end="")
