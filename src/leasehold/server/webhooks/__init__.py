"""Webhooks: signed events, sent to other servers. They are read from the history; this decides nothing about leases.

``settings`` has the receivers and their kinds of events, ``addresses`` those that may be reached, ``posting`` makes one
request, ``delivery`` goes through the history for each hook, and ``positions`` saves how far it got.
"""
