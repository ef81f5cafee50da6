"""The frozen noun that every model type is made of; it must stay cheap to import.

``typing.NamedTuple`` costs 10 ms of a fresh interpreter's 10 ms start-up, because ``typing`` brings ``re`` and
``enum`` along, and ``collections.namedtuple`` compiles a constructor for each type, used or not. A one-shot
``leasehold acquire`` pays that on every call. So type checkers see the real ``NamedTuple``; at run time it is
the same thing, a tuple with named fields, whose constructor is compiled once it is made often (docs/adr/0004).
"""

# Type checkers see NamedTuple:
# ruff: noqa: ANN001, ANN401, ANN002, ANN003, ANN202, ANN204, ANN206

from __future__ import annotations

TYPE_CHECKING = False
SECRETS = frozenset(
    ("token", "tokens", "secret", "credential", "api_key", "authorization", "password", "conninfo", "listen", "headers")
)
"""Fields that no `repr` shows."""


def masked(noun: Any, /) -> str:
    """Return the `repr` of a noun or named tuple without its secrets."""
    told = ", ".join(f"{field}={_shown(field, value)}" for field, value in noun._asdict().items())
    return f"{type(noun).__name__}({told})"


def _shown(field: str, value: object) -> str:
    """Return the `repr` of a value of a field or of a mapping, without its secrets."""
    if field in SECRETS and value:
        return "'…'"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_shown(key, each)}' for key, each in value.items())}}}"
    if field == "session" and isinstance(value, str) and ("." in value or value.startswith("secret:")):
        return "'…'"  # a credential: ID.SECRET or secret:SECRET
    return repr(_place(value) if field == "url" and isinstance(value, str) else value)


def _place(url: str) -> str:
    """Return a URL without its user, password and options."""
    where, question, _ = url.partition("?")
    scheme, mark, rest = where.partition("://")
    _, at, host = rest.rpartition("@")
    return f"{scheme}{mark}{'…' * bool(at)}{at}{host}{question}{'…' * bool(question)}"


if TYPE_CHECKING:
    from typing import Any, Literal, Self, TypeVar, dataclass_transform
    from typing import NamedTuple as Noun

    T = TypeVar("T")

    @dataclass_transform(frozen_default=True)
    class OutcomeNoun:
        """An answer: a plain class to type checkers, so that `if` and `isinstance` narrow a union of them.

        It has a truth of its own, equals only another of its class, and is no sequence. Each subclass declares
        `__bool__`, as narrowly as it can: `Literal[False]` takes it out of the true branch.
        """

        def _replace(self, **changes: object) -> Self:
            """Return a copy with other values of these fields."""

    class Success(OutcomeNoun):
        """An answer that is always true."""

        def __bool__(self) -> Literal[True]: ...

    class Refusal(OutcomeNoun):
        """An answer that is always false."""

        def __bool__(self) -> Literal[False]: ...

    def new(kind: type[T], values: tuple[object, ...], /) -> T:
        """Return a noun of all its fields, in order. Takes half the time of its constructor, and checks no types."""
else:
    try:
        from _collections import _tuplegetter
    except ImportError:  # a Python whose named tuples are not written in C
        from operator import itemgetter

        def _tuplegetter(index, doc):
            return property(itemgetter(index), doc=doc)

    new = _new_tuple = tuple.__new__
    _equal = tuple.__eq__
    _getters = tuple(_tuplegetter(place, "a field") for place in range(64))  # more than any noun has

    def _constructor(noun):
        """Return the compiled constructor of a noun, which no other kind is as fast as."""
        fields = ", ".join(noun._fields)
        new = eval(  # noqa: S307 (the words are the fields of our own classes) # nosec B307
            f"lambda cls, {fields}: new_tuple(cls, ({fields},))", {"new_tuple": _new_tuple}
        )
        new.__defaults__ = tuple(noun._field_defaults.values())
        new.__name__, new.__qualname__ = "__new__", f"{noun.__qualname__}.__new__"
        return new

    _OFTEN = 32  # so many instances until the constructor is worth compiling
    _made = {}

    def _early_new(cls, *args, **kwargs):
        """Make the first instances of a noun: compiling its constructor costs more than all of those."""
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
            (base,) = bases
            if type(base) is type:
                noun = type.__new__(mcls, name, bases, body)
                noun._base = base
                return noun
            fields = tuple(body.get("__annotations__", ()))
            body["_field_defaults"] = {field: body[field] for field in fields if field in body}
            body.update(zip(fields, _getters[: len(fields)], strict=True))
            body["_fields"] = body["__match_args__"] = fields
            body["__new__"] = _early_new
            body["__slots__"] = ()
            # Not of this metaclass: to find that something is a noun of another kind would take twice as long.
            return type(name, (base._base,), body)

        def __instancecheck__(cls, thing):
            return isinstance(thing, cls._base)

        def __subclasscheck__(cls, kind):
            return issubclass(kind, cls._base)

    class _Tuple(tuple):
        """The base of every noun."""

        __slots__ = ()

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, /, **changes):
            new = _new_tuple(type(self), map(changes.pop, self._fields, tuple.__iter__(self)))
            if changes:
                raise TypeError(f"{type(self).__name__} has no field {', '.join(changes)}")
            return new

        def _asdict(self):
            return dict(zip(self._fields, tuple.__iter__(self), strict=True))

        __repr__ = masked

        def __getnewargs__(self):
            return tuple(tuple.__iter__(self))

    class _Outcome(_Tuple):
        """Still a tuple, because nothing else is made as quickly; but it neither equals nor behaves like one."""

        __slots__ = ()
        __hash__ = tuple.__hash__
        __iter__ = __contains__ = __reversed__ = None

        def __eq__(self, other):
            return type(self) is type(other) and _equal(self, other)

        def __ne__(self, other):
            return not (type(self) is type(other) and _equal(self, other))

    class _Success(_Outcome):
        __slots__ = ()

        def __bool__(self):
            return True

    class _Refusal(_Outcome):
        __slots__ = ()

        def __bool__(self):
            return False

    class Noun(_Tuple, metaclass=_NounType):
        """How the model's types are declared: ``class Point(Noun): x: int``."""

        __slots__ = ()

    class OutcomeNoun(_Outcome, metaclass=_NounType):
        """The base of outcomes that define their own truth value."""

        __slots__ = ()

    class Success(_Success, metaclass=_NounType):
        """The base of outcomes that are always true."""

        __slots__ = ()

    class Refusal(_Refusal, metaclass=_NounType):
        """The base of outcomes that are always false."""

        __slots__ = ()


__all__ = ["Noun", "OutcomeNoun", "Refusal", "Success", "masked", "new"]
