"""The command prints what searching finds."""

import contextlib
import io
import unittest

from tickets.cli import main


def output(*argv: str) -> list[str]:
    """The lines that the command prints."""
    stdout = io.StringIO()
    with contextlib.redirect_stdout(stdout):
        main(argv)
    return stdout.getvalue().splitlines()


class SearchCommandTest(unittest.TestCase):
    def test_prints_a_line_for_each_ticket(self) -> None:
        lines = output("search", "sso")
        self.assertEqual([line.split()[0] for line in lines], ["KITE-139", "KITE-142", "KITE-144"])
