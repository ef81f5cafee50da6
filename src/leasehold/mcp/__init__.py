"""Locks as tools for agents, over the Model Context Protocol. Thin: a tool asks one verb and says what to do next.

The tools work for a `Party` (see ``parties``): the one client of a standard input, or a client that a server
has authenticated.
"""
