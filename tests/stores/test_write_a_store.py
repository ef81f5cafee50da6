"""The page "Write a store": generated from the contract, and its example keeps every promise."""

from __future__ import annotations

import ast
import inspect
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasehold.engine.engine import Engine
from leasehold.locks.local import EngineAnswers, ThreadDriver
from leasehold.locks.sync import Locks
from leasehold.requests.checks import Settings
from leasehold.stores import Capabilities, protocol
from leasehold.testing.conformance import Conformance, Connections
from tests.stores import file_store
from tests.stores.file_store import CAPABILITIES, FileStore

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "write-a-store.md"
INTRODUCTION = """\
# Write a store

This page shows how to keep leases in a database that Leasehold does not know: what a store must do, a complete example,
and the test suite that tells you when it is right. `python -m tests.stores.test_write_a_store` generates the page.

A store keeps **records** and decides nothing about who gets a lease. A record is a set of entries under one key. The
engine loads records, lets the rules decide, and hands the store a list of changes to commit at once. So a store has to
do three things well: exclude other transactions, or detect their changes when it commits; make a commit durable before
it returns; and tell a time that never runs backwards.

"""
CONTRACT = """\
## The contract

Subclass `Store` and `Transaction` from `leasehold.stores.protocol`. If each access waits for a network, subclass
`NetworkStore` and `NetworkTransaction` instead. A method marked *optional* has a default.

"""
EXAMPLE = """\
## An example

This store, `file_store.py`, keeps all records in a dict, with a JSON file behind it. It serves all processes of one
machine, and passes the whole conformance suite.

"""
TEST = """
## Test it

Run the conformance suite on your store. A promise that its capabilities exclude is skipped with that reason; every
other test has to pass.

"""
IMPORTS = """\
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from file_store import CAPABILITIES, FileStore

from leasehold.locks.local import ThreadDriver
from leasehold.engine.engine import Engine
from leasehold.locks.local import EngineAnswers
from leasehold.locks.sync import Locks
from leasehold.requests.checks import Settings
from leasehold.testing.conformance import Conformance, Connections
"""
SHOWN = ("Store", "Transaction", "NetworkStore", "NetworkTransaction", "Answering", "ObservingStore")


def page() -> str:
    """Return the page. `python -m tests.stores.test_write_a_store` writes it."""
    body = ast.parse(inspect.getsource(protocol)).body
    classes = {each.name: each for each in body if isinstance(each, ast.ClassDef)}
    (declared,) = ast.parse(inspect.getsource(Capabilities)).body
    contract = "".join(f"### {name}\n\n{_said(classes[name])}\n\n{_members(classes[name])}\n" for name in SHOWN)
    example = f"```python\n{inspect.getsource(file_store)}```\n"
    suite = f"```python\n{IMPORTS}\n\n{inspect.getsource(_connect)}\n\n{inspect.getsource(TestFileStore)}```\n"
    fields = f"### Capabilities\n\nThe declarations of your store.\n\n{_fields(declared)}\n"
    return INTRODUCTION + CONTRACT + contract + fields + EXAMPLE + example + TEST + suite


def _said(node: ast.ClassDef | ast.FunctionDef, indent: str = "") -> str:
    return (ast.get_docstring(node) or "").replace("\n", f"\n{indent}").replace(f"\n{indent}\n", "\n\n")


def _members(node: ast.ClassDef) -> str:
    """Return a list of the methods, each with its signature and what it does."""
    lines = []
    for each in node.body:
        if isinstance(each, ast.FunctionDef):
            marks = {ast.unparse(mark) for mark in each.decorator_list}
            returns = ast.unparse(each.returns) if each.returns is not None else "None"
            arguments = ast.unparse(each.args).removeprefix("self").removeprefix(", ")
            signature = f"{each.name}: {returns}" if "property" in marks else f"{each.name}({arguments}) -> {returns}"
            optional = "" if "abstractmethod" in marks else " *(optional)*"
            lines.append(f"- `{signature}`{optional}\n  {_said(each, '  ')}\n")
    return "".join(lines)


def _fields(node: ast.stmt) -> str:
    assert isinstance(node, ast.ClassDef)
    lines = []
    for each, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(each, ast.AnnAssign):
            said = ""
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                said = f": {following.value.value!s}"
            lines.append(f"- `{ast.unparse(each)}`{said}\n")
    return "".join(lines)


def test_the_page_is_generated_from_the_contract_and_the_example() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.stores.test_write_a_store"


def test_a_store_that_lacks_a_method_cannot_be_opened() -> None:
    class Half(protocol.Store):
        pass

    with pytest.raises(TypeError, match="loss_mark"):
        Half()  # type: ignore[abstract]


def _connect(path: Path, holder: str = "somebody", space: str = "default", settings: Settings | None = None) -> Locks:
    engine = Engine(FileStore(path))
    answers = EngineAnswers(engine, ThreadDriver(engine), settings or Settings())
    return Locks(answers, holder=holder, space=space)


class TestFileStore(Conformance):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Iterator[Connections]:
        with Connections(partial(_connect, tmp_path / "locks.json"), CAPABILITIES) as connect:
            yield connect


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
