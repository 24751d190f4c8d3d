"""Models: adapters of the `ports.Model` seam, and what their tokens cost.

Nothing is imported here, so that choosing one adapter loads no other.
"""
