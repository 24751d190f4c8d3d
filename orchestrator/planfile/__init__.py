"""Plan files: from a path to a checked plan, or to everything that is wrong with it; and back."""

from __future__ import annotations

from orchestrator.planfile.load import LoadedPlan, load_plan

__all__ = ["LoadedPlan", "load_plan"]
