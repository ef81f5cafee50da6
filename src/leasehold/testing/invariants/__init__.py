"""The invariants of every history, a file for each topic; `leasehold.testing.checker` runs them.

Nothing in here knows the rules: what is compatible, who comes first and when a lease is over is written a second
time, from the specification, so that a mistake in `leasehold.domain.rules` is not repeated here. Must do no I/O.
"""
