"""The fault kit: faults, workloads under them, and checkers of what the clients saw. Published with the package.

In one process, on a virtual clock: `FaultyStore` makes any store fail by a seed (see `leasehold.testing.simulation`).
With real processes on loopback:

    python -m leasehold.testing.faults mixed --store sqlite --seconds 60
    python -m leasehold.testing.faults drills --store sqlite

=================  ================================================================================================
`proxy`            a TCP proxy that cuts, delays, drops replies, and accepts connections that nobody answers
`nginx`            a real nginx before a server, where it is installed
`namespaces`       hosts of their own, whose wires the kernel cuts; `apart` is what runs on them
`dials`, `armed`   clocks that are set or run at another rate, and disks that are full or fail their syncs
`sites`            a store with its servers and proxies, to be killed, stopped and cut off
`mishaps`          what is done to a site, and how it is undone
`recording`        histories: each call, and its reply or none, with times of one monotonic clock
`workloads`        what clients do, after Jepsen's lock workloads
`checkers`         what a history must satisfy
`flood`            a process that takes and releases as fast as it can; `flood_history` judges its answers
`linearizability`  a search for one order of tries, renewals and releases that explains all answers
`mixed`, `drills`  the runs: many clients and mixed faults; one fault many times
`page`             the charts and tables of docs/explanation/reliability.md, from the results of runs
=================  ================================================================================================
"""

from leasehold.testing.faults.faulty_store import (
    CALM,
    POLL,
    Crash,
    FaultyStore,
    FaultyTransaction,
    Luck,
    Weather,
)

__all__ = ["CALM", "POLL", "Crash", "FaultyStore", "FaultyTransaction", "Luck", "Weather"]
