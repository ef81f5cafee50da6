"""The lane of a space, of a lease's id and of a call. Pure.

Everybody must agree on it: two servers that looked for a space in different lanes would grant the same name twice. So
it depends on nothing but the name of the space and the number of lanes, which every turn confirms (docs/adr/0045).
"""

from __future__ import annotations

from leasehold.domain import keys
from leasehold.requests import checks
from leasehold.stores import SERVERS
from leasehold.stores.layout import CONTROL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from leasehold.domain.events import Event

SEVERAL = -1
"""In place of a lane: the call is for several lanes. See ``joining``."""
NUMBERED = 256
"""Shown numbers of events of one lane are so far apart; what is left over is the lane's number."""
OF_KEYS = frozenset(("keys", "create_key", "rotate_key", "revoke_key", "whoami"))
OF_A_LEASE = frozenset(("renew", "release", "update", "report_trespass", "extend"))
OF_ALL_SPACES = frozenset(("list", "plans", "graph", "sessions"))
"""Verbs whose `space` may be None, which means every space."""


def lane_of_space(space: str, lanes: int) -> int:
    """Return the lane that has everything of this space."""
    return CONTROL if space == SERVERS else keys.lane_with(keys.byte_of_space(space), lanes)


def lane_of_id(id_: str, lanes: int) -> int:
    """Return the lane that has the lease with this id."""
    return keys.lane_with(keys.byte_of_id(id_), lanes)


def lane_of_call(verb: str, arguments: Mapping[str, Any], lanes: int) -> int:
    """Return the lane that answers a call, or `SEVERAL`. Raises `InvalidInput` for a wrong space or id."""
    if verb in OF_A_LEASE:
        return lane_of_id(checks.lease_id(arguments["lease"], may_be_plan=verb == "release"), lanes)
    if verb in OF_KEYS:
        return CONTROL
    if verb in ("gc", "history"):
        return SEVERAL
    if verb == "force_release" and keys.is_lease_id(arguments["target"]):
        return lane_of_id(arguments["target"], lanes)
    space = arguments["space"]
    if space is None and verb in OF_ALL_SPACES:
        return SEVERAL
    return lane_of_space(checks.space(space), lanes)


def every_lane(lanes: int) -> range:
    """Return the numbers of all lanes; the control lane is the first."""
    return range(CONTROL, lanes + 1)


def numbered(event: Event, lane: int) -> Event:
    """Return an event of a lane with a number that no other lane gives."""
    return event._replace(seq=event.seq * NUMBERED + lane)


def place_of(seq: int) -> tuple[int, int]:
    """Return the lane of the event with this number, and its number there."""
    return seq % NUMBERED, seq // NUMBERED
