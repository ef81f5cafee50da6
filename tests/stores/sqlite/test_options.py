"""How much history a `sqlite:` URL asks to keep, and what it may not ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.config import urls
from leasehold.domain.outcomes import Collected
from leasehold.errors import InvalidInput
from leasehold.locks import connect as opening
from leasehold.stores import HistoryQuery
from tests.kit.samples import commit, event

if TYPE_CHECKING:
    from pathlib import Path


def test_so_much_history_is_kept_as_the_url_says(tmp_path: Path) -> None:
    store = opening.open_store(f"sqlite://{tmp_path}/locks.db")
    now = store.read(())[0]
    commit(store, events=tuple(event(at=now) for _ in range(30)))
    assert store.prune() == 0
    store.close()
    store = opening.open_store(f"sqlite://{tmp_path}/locks.db?retention_days=1&retention_rows=10")
    assert store.prune() == 20
    assert len(store.history(HistoryQuery())) == 10
    store.close()
    assert {each.name for each in tmp_path.iterdir() if "?" in each.name} == set()


def test_gc_returns_how_much_was_deleted(tmp_path: Path) -> None:
    with leasehold.connect(f"sqlite://{tmp_path}/locks.db?retention_rows=2", holder="ada") as locks:
        for number in range(5):
            locks.acquire(f"r{number}", ttl=60)
        collected = locks.gc()
        assert isinstance(collected, Collected)
        assert collected.forgotten == 3


@pytest.mark.parametrize(
    "options",
    [
        *(
            "retention_rows=",
            "retention_rows=-1",
            "retention_rows=1e3",
            "retention_rows=²",
            "retention_rows=99999999999",
        ),
        *("retention_days=36501", "retention_days=1&retention_days=2", "rows=1", "retention_days=1&", "mode=memory"),
    ],
)
def test_anything_else_is_refused_and_nothing_created(tmp_path: Path, options: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        leasehold.connect(f"sqlite://{tmp_path}/locks.db?{options}")
    assert refused.value.field == "url"
    assert list(tmp_path.iterdir()) == []


def test_a_question_mark_in_a_folder_is_part_of_the_path(tmp_path: Path) -> None:
    folder = tmp_path / "what?a=b"
    folder.mkdir()
    leasehold.connect(f"sqlite://{folder}/locks.db").close()
    assert (folder / "locks.db").exists()


def test_a_link_is_followed_whatever_stands_behind_it(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    found = urls.resolve("sqlite:link.db?retention_days=7", str(tmp_path), {})
    assert found == f"sqlite://{tmp_path.resolve()}/real.db?retention_days=7"
