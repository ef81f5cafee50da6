"""What people look at: runs, contention, the wait-for graph and the timeline as shapes. No I/O, no rules."""
