"""Searching in tickets."""

from tickets.models import Ticket


def search_tickets(tickets: list[Ticket], query: str) -> list[Ticket]:
    """Return the tickets that mention every word of the query, in their order."""
    words = query.lower().split()
    return [ticket for ticket in tickets if _mentions(ticket, words)]


def _mentions(ticket: Ticket, words: list[str]) -> bool:
    """Whether the title and the customer together hold all the words."""
    text = f"{ticket.title} {ticket.customer}".lower()
    return all(word in text for word in words)
