"""What every record of the core shares: immutable, closed, finite."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints


class Record(BaseModel):
    """A frozen value: unknown keys are refused, `nan` and `inf` are no numbers here.

    Docstrings under fields become their descriptions, so JSON schemas explain themselves.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        serialize_by_alias=True,
        validate_by_name=True,
        validate_by_alias=True,
    )


TaskId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
"""Name of a task: also part of refs, file names and branch names, hence the narrow alphabet."""

ObjectId = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
"""A full git object id: 40 hex digits, or 64 in a sha256 repository."""

Seconds = Annotated[float, Field(gt=0, le=7 * 24 * 3600)]
"""A time limit: positive, finite, at most a week."""

Usd = Annotated[float, Field(gt=0, le=1_000_000)]
"""A dollar limit: positive and finite."""

Count = Annotated[int, Field(gt=0, le=1_000_000_000)]
"""A limit that counts something: positive and finite."""
