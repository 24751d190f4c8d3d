"""`python -m orchestrator` is the `orchestrate` command."""

from __future__ import annotations

from orchestrator.cli.entry import main

if __name__ == "__main__":
    main()
