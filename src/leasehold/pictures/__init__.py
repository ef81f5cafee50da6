"""Pictures and figures for people: leases over time, contention, the wait-for graph. No I/O, no rules."""
