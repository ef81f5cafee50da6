"""The answers that a server gives most often, ready to be encoded. What they say, ``wire`` says.

A struct is made and encoded in half the time of a dict.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from leasehold.domain.outcomes import Granted, Released
from leasehold.wire import shapes as wire


def _shape(name: str, fields: tuple[str, ...]) -> Any:  # noqa: ANN401 (a type that is made here)
    return msgspec.defstruct(name, [(field, Any) for field in fields], frozen=True, gc=False)


_LEASE: Final = _shape("Lease", wire.names("Lease"))
_GRANTED: Final = _shape("Granted", wire.names("Granted")[:3])
_RELEASED: Final = _shape("Released", wire.names("Released"))


def answer(outcome: object) -> object:
    """What a yes says, for an encoder."""
    if isinstance(outcome, Granted) and not outcome.unapplied:
        return _GRANTED(_LEASE(*wire.lease_values(outcome.lease)), outcome.token, outcome.fresh)
    if isinstance(outcome, Released):
        return _RELEASED(outcome.lease, outcome.released, outcome.reason, outcome.resources)
    return wire.answer(outcome)
