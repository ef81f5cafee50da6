"""What the documentation says of stores is what they declare, and what they are asked for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.stores.etcd import EtcdStore
from leasehold.stores.git import CAPABILITIES as GIT
from leasehold.stores.postgres import PostgresStore
from leasehold.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from leasehold.stores import Capabilities

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "stores.md"
PACKAGE = ROOT / "src" / "leasehold"
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


def test_what_a_store_may_have_besides_is_told_to_whoever_writes_one() -> None:
    """It is asked for by its name: no type says what there is, and a store that spells it otherwise goes unheard."""
    asked = set()
    for name in ("batch.py", "engine.py", "served.py"):
        text = (PACKAGE / name).read_text()
        asked |= set(re.findall(r'(?:has|get)attr\((?:store|transaction|self\.transaction), "(\w+)"', text))
    assert {"committing", "foresee", "ready", "tell_hints", "others"} <= asked
    told = (PACKAGE / "stores" / "__init__.py").read_text()
    assert not [name for name in asked if f"`{name}" not in told]


if __name__ == "__main__":
    print(table(), end="")
