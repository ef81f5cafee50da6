"""Routing: which lane of a divided store answers a call, and how the answers of several lanes are joined."""
