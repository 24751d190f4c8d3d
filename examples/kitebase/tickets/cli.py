"""The `kitebase` command."""

import argparse
from collections.abc import Sequence

from tickets.data import TICKETS
from tickets.search import search_tickets


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    parser = argparse.ArgumentParser(prog="kitebase", description="Find support tickets.")
    commands = parser.add_subparsers(required=True)
    search = commands.add_parser("search", help="print the tickets that have all the words")
    search.add_argument("query", help="words of the title or the customer")
    args = parser.parse_args(argv)

    found = search_tickets(TICKETS, args.query)
    for ticket in found:
        print(f"{ticket.key}  {ticket.status:<11}  {ticket.title} ({ticket.customer})")
    if not found:
        print("No tickets found.")
    return 0
