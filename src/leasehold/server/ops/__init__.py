"""Metrics, health, logs and the limits of the process: what operators of a server need."""
