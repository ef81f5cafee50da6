"""The frozen noun that every model type is made of; it must stay cheap to import.

``typing.NamedTuple`` costs 10 ms of a fresh interpreter's 10 ms start-up, because ``typing`` brings ``re`` and
``enum`` along, and ``collections.namedtuple`` compiles a constructor for each type, used or not. A one-shot
``leasehold acquire`` pays that on every call. So type checkers see the real ``NamedTuple``; at run time it is
the same thing, a tuple with named fields, whose constructor is compiled once it is made often (docs/adr/0004).
"""

# Type checkers see NamedTuple:
# ruff: noqa: ANN001, ANN002, ANN003, ANN202, ANN204, ANN206

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as Noun
    from typing import TypeVar

    T = TypeVar("T")

    def new(kind: type[T], values: tuple[object, ...], /) -> T:
        """A noun of all of its fields, in their order. Half the time of its constructor; nobody checks their types."""
else:
    try:
        from _collections import _tuplegetter
    except ImportError:  # a Python whose named tuples are not written in C
        from operator import itemgetter

        def _tuplegetter(index, doc):
            return property(itemgetter(index), doc=doc)

    new = _new_tuple = tuple.__new__
    _getters = tuple(_tuplegetter(place, "a field") for place in range(64))  # more than any noun has

    def _constructor(noun):
        """What `noun(…)` runs: compiled, because nothing else is as fast."""
        fields = ", ".join(noun._fields)
        new = eval(  # noqa: S307 (the words are the fields of our own classes)
            f"lambda cls, {fields}: new_tuple(cls, ({fields},))", {"new_tuple": _new_tuple}
        )
        new.__defaults__ = tuple(noun._field_defaults.values())
        new.__name__, new.__qualname__ = "__new__", f"{noun.__qualname__}.__new__"
        return new

    _OFTEN = 32  # so many instances until the constructor is worth compiling
    _made = {}

    def _early_new(cls, *args, **kwargs):
        """Stands in for the constructor while only a few instances were made: compiling costs more than all those."""
        _made[cls] = made = _made.get(cls, 0) + 1
        fields = cls._fields
        if made < _OFTEN and not kwargs and len(args) == len(fields):
            return _new_tuple(cls, args)
        values = {**cls._field_defaults, **dict(zip(fields, args, strict=False)), **kwargs}
        is_right = len(args) <= len(fields) == len(values) and kwargs.keys().isdisjoint(fields[: len(args)])
        if made < _OFTEN and is_right:
            return _new_tuple(cls, map(values.__getitem__, fields))
        # The compiled one is quicker from here on; and it says best what is wrong with wrong arguments.
        cls.__new__ = staticmethod(new := _constructor(cls))
        return new(cls, *args, **kwargs)

    class _NounType(type):
        """Builds a tuple with named fields from the annotations of a class body."""

        def __new__(mcls, name, bases, body):
            if bases == (_Tuple,):
                return type.__new__(mcls, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            body["_field_defaults"] = {field: body[field] for field in fields if field in body}
            body.update(zip(fields, _getters[: len(fields)], strict=True))
            body["_fields"] = body["__match_args__"] = fields
            body["__new__"] = _early_new
            body["__slots__"] = ()
            # Not of this metaclass: to find that something is a noun of another kind would take twice as long.
            return type(name, (_Tuple,), body)

    class _Tuple(tuple):
        """What every noun inherits."""

        __slots__ = ()

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, /, **changes):
            new = _new_tuple(type(self), map(changes.pop, self._fields, self))
            if changes:
                raise TypeError(f"{type(self).__name__} has no field {', '.join(changes)}")
            return new

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            told = ", ".join(f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({told})"

        def __getnewargs__(self):
            return tuple(self)

    class Noun(_Tuple, metaclass=_NounType):
        """How the model's types are declared: ``class Point(Noun): x: int``."""

        __slots__ = ()


__all__ = ["Noun", "new"]
