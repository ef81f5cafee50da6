"""Enforcement where work is done: in editors and in git. It asks `Locks`, and decides nothing about leases."""
