"""A noun is made like a named tuple, whether its constructor was compiled already or not."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from leasehold import noun
from leasehold.model import Put, Ref
from leasehold.noun import Noun

if TYPE_CHECKING:
    from collections.abc import Mapping

    Given = tuple[tuple[int, ...], Mapping[str, int]]


class Model(NamedTuple):
    """What it must be like."""

    x: int
    y: int = 3
    z: int = 4


RIGHT: list[Given] = [
    ((1,), {}),
    ((1, 2), {}),
    ((1, 2, 9), {}),
    ((), {"x": 1}),
    ((1,), {"z": 7}),
    ((), {"z": 7, "x": 1}),
    ((1, 2), {"z": 5}),
]
WRONG: list[Given] = [
    ((), {}),
    ((), {"y": 1}),
    ((1, 2, 3, 4), {}),
    ((1,), {"x": 2}),
    ((1, 2, 3), {"z": 3}),
    ((1,), {"q": 2}),
    ((1, 2, 3), {"q": 2}),
]


def fresh(made: int) -> Any:  # noqa: ANN401 (a class of its own each time, made so many times before)
    class Point(Noun):
        x: int
        y: int = 3
        z: int = 4

    for number in range(made):
        assert Point(number) == (number, 3, 4)
    return Point


@pytest.mark.parametrize("made", [0, 100])
@pytest.mark.parametrize(("args", "kwargs"), RIGHT)
def test_it_is_made_as_a_named_tuple_is(made: int, args: tuple[int, ...], kwargs: Mapping[str, int]) -> None:
    point = fresh(made)(*args, **kwargs)
    assert point == Model(*args, **kwargs)
    assert (point.x, point.y, point.z) == Model(*args, **kwargs)


@pytest.mark.parametrize("made", [0, 100])
@pytest.mark.parametrize(("args", "kwargs"), WRONG)
def test_wrong_arguments_are_refused_as_a_named_tuple_does(
    made: int, args: tuple[int, ...], kwargs: Mapping[str, int]
) -> None:
    with pytest.raises(TypeError) as expected:
        Model(*args, **kwargs)
    with pytest.raises(TypeError) as said:
        fresh(made)(*args, **kwargs)
    assert str(said.value).partition("__new__()")[2] == str(expected.value).partition("__new__()")[2]


def test_a_few_instances_compile_nothing_and_many_do(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    real = noun._constructor  # type: ignore[attr-defined] # not for type checkers

    def noticed(kind: object) -> object:
        compiled.append(kind)
        return real(kind)

    monkeypatch.setattr(noun, "_constructor", noticed)
    point = fresh(10)
    assert compiled == []
    for number in range(100):
        point(number)
    assert compiled == [point]


def test_it_survives_a_change_and_a_pickle() -> None:
    put = Put("na", Ref("x"))
    assert put._replace(key="nb") == Put("nb", Ref("x"))
    assert pickle.loads(pickle.dumps(put)) == put
