"""Webhooks: what happens, told to other people's servers, signed. It reads the history; it decides nothing.

``settings`` says who wants to be told what, ``addresses`` whom may be reached at all, ``posting`` makes one request,
``delivery`` goes through the history for each hook and remembers how far it got.
"""
