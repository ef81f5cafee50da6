"""A flow with acquire and release as steps of their own, which may run in different processes.

    python flow.py

The id of the lock is kept in the context of the flow between the steps, as a flow engine would keep it. This is the
interface of FireFlow's lock service; moving needs a changed line or two.
"""

from __future__ import annotations

from leasehold.flow import SyncFlowLockService, sync_flow_lock

Context = dict[str, object]


def acquire(context: Context) -> None:
    """Step 1: raise TimeoutError if the lock cannot be had within ten seconds."""
    sync_flow_lock(context).acquire("customer-42", 60_000, 10_000)


def charge(context: Context) -> None:
    """Step 2: the critical section."""
    context["charged"] = "customer-42"


def release(context: Context) -> None:
    """Step 3: False if the lock had expired meanwhile."""
    context["in time"] = sync_flow_lock(context).release("customer-42")


def main() -> None:
    """Run the steps in order."""
    with SyncFlowLockService.connect() as service:
        context: Context = {"services": {"flowLock": service}}
        for step in (acquire, charge, release):
            step(context)
            print(step.__name__, "done")
        assert context["in time"], "the lock expired before the flow ended: give it a longer TTL"


if __name__ == "__main__":
    main()
