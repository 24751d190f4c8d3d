"""Copies what tasks hand in to `products/<task>.json`, for people and scripts.

The journal holds the products themselves; these files may be deleted.
"""

from __future__ import annotations

from orchestrator.core.events import AttemptSucceeded, StoredEvent
from orchestrator.core.state import RunState
from orchestrator.ports import Observer
from orchestrator.state_folder import RunFolder


def product_files(folder: RunFolder) -> Observer:
    """An observer that writes each product to the run's folder, whole or not at all."""

    def observe(event: StoredEvent, _state: RunState) -> None:
        body = event.body
        if not isinstance(body, AttemptSucceeded) or body.product is None:
            return
        path = folder.product(body.task)
        aside = path.with_suffix(".part")
        aside.write_text(body.product.model_dump_json(indent=2) + "\n", encoding="utf-8")
        aside.replace(path)

    return observe
