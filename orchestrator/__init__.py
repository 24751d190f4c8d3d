"""A multi-agent orchestrator for coding work: a graph of tasks, real gates, one branch."""

from __future__ import annotations

__version__ = "0.1.0"
