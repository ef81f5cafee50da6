"""What editors' hooks ask: may this agent change that now? Thin: from an editor's JSON to one verb and back.

On the way of every edit of an agent, as a process of its own: nothing is imported that a plain edit does not need.
"""
