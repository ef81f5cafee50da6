"""Metrics, health, logs and the limits of the process, for operators of a server."""
