"""What the tools answer, as types: their output schemas are made from these. The answers are made by ``wire``."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

Mode = Literal["exclusive", "shared", "slots"]


class Lease(TypedDict):
    """One grant."""

    id: str
    space: str
    resources: list[str]
    holder: str
    session: str | None
    mode: Mode
    slots: int
    fence: int
    ttl_seconds: float
    acquired_at: str
    expires_at: str
    expires_in_seconds: float
    as_of: str
    name: str | None
    reason: str | None
    context: Any


class Blocker(TypedDict):
    """Who or what stands in the way."""

    resource: str
    holder: str
    state: Literal["held", "waiting", "grace", "quarantined"]
    mode: Mode
    name: str | None
    reason: str | None
    since: str
    expires_at: str | None
    expires_in_seconds: float | None
    fence: int
    lease: str
    as_of: str
    yours: bool
    """Whether this call has proved that it is your own lease."""
    watched_since: NotRequired[str]
    recorded_until: NotRequired[str | None]


class Queue(TypedDict):
    """How many wait, and your place among them."""

    length: int
    position: int


class Refusal(TypedDict):
    """A no: `code` says which, `message` says why."""

    code: str
    message: str
    resources: NotRequired[list[str]]
    holders: NotRequired[list[Blocker]]
    queue: NotRequired[Queue]
    retry_after_seconds: NotRequired[float]
    cycle: NotRequired[list[str]]
    lease: NotRequired[str]
    reason: NotRequired[str]
    field: NotRequired[str | None]


class Answer(TypedDict):
    """What every tool answers: `ok`, the data of a yes or the error of a no, and what to do next."""

    ok: bool
    advice: str
    error: NotRequired[Refusal]


class Grant(TypedDict):
    """You have it, or you wait for it."""

    lease: NotRequired[Lease]
    token: NotRequired[str]
    fresh: NotRequired[bool]
    ticket: NotRequired[str]
    queue: NotRequired[Queue]
    holders: NotRequired[list[Lease]]


class Acquired(Answer):
    """The answer of acquire_lock and wait_for_lock."""

    data: NotRequired[Grant]


class Kept(TypedDict):
    """A lease with a full TTL again."""

    lease: Lease


class Renewed(Answer):
    """The answer of renew_lock."""

    data: NotRequired[Kept]


class Ended(TypedDict):
    """What became of a lease."""

    lease: str
    released: bool
    reason: str | None
    resources: list[str]


class Released(Answer):
    """The answer of release_lock and force_release_lock."""

    data: NotRequired[Ended]


class Waiting(TypedDict):
    """A place in a queue."""

    id: str
    resources: list[str]
    holder: str
    session: str | None
    mode: Mode
    position: int
    since: str
    waited_seconds: float
    until: str | None
    name: str | None
    reason: str | None


class Standing(TypedDict):
    """How a resource stands."""

    resource: str
    at: str
    free: bool
    leases: list[Lease]
    waiting: list[Waiting]
    closed: list[Blocker]


class Checked(Answer):
    """The answer of check_lock."""

    data: NotRequired[Standing]


class Leases(TypedDict):
    """Live leases, the oldest first."""

    leases: list[Lease]
    more: int


class Listed(Answer):
    """The answer of list_locks."""

    data: NotRequired[Leases]


class Event(TypedDict):
    """One thing that happened."""

    seq: int
    kind: str
    at: str
    space: str
    resources: list[str]
    holder: str | None
    session: str | None
    lease: str | None
    fence: int | None
    detail: dict[str, Any]


class Events(TypedDict):
    """What happened, the newest first."""

    events: list[Event]


class Told(Answer):
    """The answer of lock_history."""

    data: NotRequired[Events]
