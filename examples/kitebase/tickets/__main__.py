"""Lets `python -m tickets` be the `kitebase` command."""

from tickets.cli import main

raise SystemExit(main())
