"""Drivers: the caller, a thread, or an event loop turns an engine."""
