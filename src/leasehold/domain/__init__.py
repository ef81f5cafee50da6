"""Leases and who gets them: nouns, names, records, commands and rules. Pure: no clock, no I/O, no chance."""
