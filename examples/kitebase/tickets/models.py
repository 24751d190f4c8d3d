"""What a ticket is."""

from dataclasses import dataclass

STATUSES = ("open", "in_progress", "closed")


@dataclass(frozen=True)
class Ticket:
    """Something a customer asked for."""

    key: str
    title: str
    customer: str
    status: str
