"""The hooks of editors: may this agent make this change? From an editor's JSON to one verb and back.

A hook is a process that delays every edit of an agent, so only modules that a plain edit needs are imported.
"""
