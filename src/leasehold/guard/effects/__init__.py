"""The effects of a tool call: compare the working trees before and after it. It decides nothing about leases.

A hook that reads a command sees words; only the files show effects. ``trees`` finds the working trees that a call can
reach, ``picture`` records what in them differs from their last commit, ``comparing`` names the paths that changed, and
``calls`` tells which of several agents in one tree changed them.
"""
