"""Searching finds what it should and nothing else."""

import unittest

from tickets.data import TICKETS
from tickets.models import Ticket
from tickets.search import search_tickets


def keys(found: list[Ticket]) -> list[str]:
    return [ticket.key for ticket in found]


class SearchTicketsTest(unittest.TestCase):
    def test_every_word_must_be_there(self) -> None:
        self.assertEqual(keys(search_tickets(TICKETS, "sso bank")), ["KITE-139"])

    def test_case_does_not_matter(self) -> None:
        found = keys(search_tickets(TICKETS, "SSO"))
        self.assertEqual(found, ["KITE-139", "KITE-142", "KITE-144"])

    def test_no_match_is_an_empty_list(self) -> None:
        self.assertEqual(search_tickets(TICKETS, "fax machine"), [])
