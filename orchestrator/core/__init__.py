"""The pure core: plan, graph, events, machine. No clock, no I/O, no randomness.

May import the standard library, pydantic and networkx; nothing else, not even its neighbours.
"""
