"""The former names of the modules of nouns, until all imports are moved."""

# ruff: noqa: I001, PLC0414

from __future__ import annotations

from leasehold.domain.api_keys import Key as Key
from leasehold.domain.api_keys import KeyCreated as KeyCreated
from leasehold.domain.api_keys import KeyRotated as KeyRotated
from leasehold.domain.api_keys import KeyRevoked as KeyRevoked
from leasehold.domain.api_keys import Whoami as Whoami
from leasehold.domain.entries import EXCLUSIVE as EXCLUSIVE
from leasehold.domain.entries import SHARED as SHARED
from leasehold.domain.entries import SLOTS as SLOTS
from leasehold.domain.entries import INTENT_EXCLUSIVE as INTENT_EXCLUSIVE
from leasehold.domain.entries import INTENT_SHARED as INTENT_SHARED
from leasehold.domain.entries import MODE_NAMES as MODE_NAMES
from leasehold.domain.entries import Claim as Claim
from leasehold.domain.entries import Alternative as Alternative
from leasehold.domain.entries import LeaseRequest as LeaseRequest
from leasehold.domain.entries import Hold as Hold
from leasehold.domain.entries import Waiter as Waiter
from leasehold.domain.entries import End as End
from leasehold.domain.entries import Ref as Ref
from leasehold.domain.entries import Poll as Poll
from leasehold.domain.entries import Request as Request
from leasehold.domain.entries import Presence as Presence
from leasehold.domain.entries import Receipt as Receipt
from leasehold.domain.entries import Record as Record
from leasehold.domain.entries import EMPTY as EMPTY
from leasehold.domain.entries import Put as Put
from leasehold.domain.entries import Drop as Drop
from leasehold.domain.events import Event as Event
from leasehold.domain.events import LOSS_KINDS as LOSS_KINDS
from leasehold.domain.graph import Agent as Agent
from leasehold.domain.graph import Edge as Edge
from leasehold.domain.graph import Graph as Graph
from leasehold.domain.leases import Lease as Lease
from leasehold.domain.leases import Blocker as Blocker
from leasehold.domain.leases import Queue as Queue
from leasehold.domain.leases import Waiting as Waiting
from leasehold.domain.leases import Inspection as Inspection
from leasehold.domain.outcomes import Granted as Granted
from leasehold.domain.outcomes import Held as Held
from leasehold.domain.outcomes import TimedOut as TimedOut
from leasehold.domain.outcomes import Deadlock as Deadlock
from leasehold.domain.outcomes import Queued as Queued
from leasehold.domain.outcomes import Renewed as Renewed
from leasehold.domain.outcomes import Updated as Updated
from leasehold.domain.outcomes import Lost as Lost
from leasehold.domain.outcomes import Released as Released
from leasehold.domain.outcomes import Cancelled as Cancelled
from leasehold.domain.outcomes import Cleared as Cleared
from leasehold.domain.outcomes import Collected as Collected
from leasehold.domain.outcomes import Refused as Refused
from leasehold.domain.outcomes import Done as Done
from leasehold.domain.sessions import Session as Session
from leasehold.domain.sessions import SessionStarted as SessionStarted
from leasehold.domain.sessions import SessionRenewed as SessionRenewed
from leasehold.domain.sessions import SessionEnded as SessionEnded
from leasehold.domain.timestamps import SECOND as SECOND
from leasehold.domain.timestamps import FOREVER as FOREVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.domain.entries import Entry as Entry
    from leasehold.domain.entries import Note as Note
    from leasehold.domain.outcomes import Acquired as Acquired
    from leasehold.domain.outcomes import Outcome as Outcome
