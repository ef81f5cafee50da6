"""What callers must never be able to break anything with: values of every kind, and some of no kind at all."""

from __future__ import annotations

from typing import Never

from hypothesis import strategies as st


class Evil:
    """An object that explodes whatever is asked of it."""

    def _explode(self, *_: object) -> Never:
        raise ZeroDivisionError("evil")

    __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = _explode
    __str__ = __repr__ = __hash__ = __bool__ = __len__ = __iter__ = __contains__ = __getitem__ = _explode
    __int__ = __index__ = __float__ = __format__ = _explode


class EvilText(str):
    """Text that explodes when it is compared, measured, shown or cut."""

    __slots__ = ()

    def _explode(self, *_: object, **__: object) -> Never:
        raise ZeroDivisionError("evil")

    __eq__ = __ne__ = __lt__ = __gt__ = _explode
    __str__ = __repr__ = __hash__ = __len__ = __iter__ = __contains__ = __getitem__ = __format__ = _explode
    strip = lower = encode = partition = rpartition = startswith = replace = split = isprintable = _explode


class EvilNumber(int):
    """A number that explodes when it is compared or reckoned with."""

    __slots__ = ()

    def _explode(self, *_: object) -> Never:
        raise ZeroDivisionError("evil")

    __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = _explode
    __str__ = __repr__ = __hash__ = __bool__ = __mul__ = __add__ = __format__ = _explode


class EvilMapping(dict[str, object]):
    """A mapping that explodes when it is looked at."""

    def _explode(self, *_: object) -> Never:
        raise ZeroDivisionError("evil")

    __iter__ = __len__ = __getitem__ = items = keys = values = __repr__ = _explode


def circular() -> dict[str, object]:
    """A mapping that contains itself."""
    it: dict[str, object] = {}
    it["itself"] = it
    return it


def deep(levels: int = 100_000) -> list[object]:
    """A list in a list in a list."""
    it: list[object] = []
    for _ in range(levels):
        it = [it]
    return it


DEEP = deep()
CIRCULAR = circular()

ODD: tuple[object, ...] = (
    *(None, True, False, 0, -1, 2**53, -(2**63), 2**64, 10**5000, 0.0, -0.0, 1e308, 5e-324),
    *(float("nan"), float("inf"), float("-inf"), 1 + 2j),
    *("", " ", "\0", "\n", "\x1b[31m", "a\x7f", "\x85", "\u2028", "\ud800", "a\udfffb", "\ufeff", "\u202eevil"),
    *("x" * 513, "é" * 300, "x" * 100_000, " x", "x ", "l1-", f"l{2**53}-{'0' * 32}", f"l01-{'0' * 32}"),
    *("٣", "1e12", "abc", "-5", "0", "5m-", "1d2d", ".", "a.", ".a", "path:/etc", "path:..", "repo:", "://", "a://"),
    *(
        b"",
        b"bytes",
        bytearray(b"x"),
        memoryview(b"x"),
        object(),
        object,
        len,
        Ellipsis,
        NotImplemented,
        ZeroDivisionError(),
    ),
    *(
        [],
        (),
        {},
        set(),
        frozenset(),
        [None],
        [[]],
        ["a", 1],
        ["a"] * 65,
        {"a": b"x"},
        {1: 2},
        {("a",): 1},
        {None: set()},
    ),
    *(
        range(3),
        iter("a"),
        DEEP,
        CIRCULAR,
        [CIRCULAR],
        Evil(),
        [Evil()],
        {"a": Evil()},
        EvilText("evil"),
        [EvilText("e")],
    ),
    *(EvilNumber(7), {"a": EvilNumber(7)}, EvilMapping(a=1), {"a": EvilMapping(a=1)}, EvilText("exclusive")),
)

_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**20, max_value=10**400),
    st.floats(),
    st.text(st.characters(), max_size=20),
    st.text(st.characters(categories=["Cc", "Cs", "Zs", "Zl", "Cf"]), max_size=6),
    st.binary(max_size=20),
)

JUNK = st.one_of(
    st.sampled_from(range(len(ODD))).map(lambda place: ODD[place]),
    _leaves,
    st.recursive(
        _leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
        max_leaves=10,
    ),
)
