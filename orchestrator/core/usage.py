"""What work cost: tokens by price bucket, dollars, seconds."""

from __future__ import annotations

from pydantic import Field

from orchestrator.core.base import Record


class Usage(Record):
    """An amount of model use. Adding two gives their sum, field by field."""

    input_tokens: int = Field(default=0, ge=0)
    """Prompt tokens billed at the full price, neither written to nor read from the cache."""
    cache_write_5m_tokens: int = Field(default=0, ge=0)
    """Prompt tokens written to the five-minute cache."""
    cache_write_1h_tokens: int = Field(default=0, ge=0)
    """Prompt tokens written to the one-hour cache."""
    cache_read_tokens: int = Field(default=0, ge=0)
    """Prompt tokens read from the cache."""
    output_tokens: int = Field(default=0, ge=0)
    """Tokens that the model wrote, thinking included."""
    calls: int = Field(default=0, ge=0)
    """Answered model calls."""
    usd: float = Field(default=0.0, ge=0)
    """Dollars by the price table."""
    seconds: float = Field(default=0.0, ge=0)
    """Wall-clock seconds spent working; the sum over parallel attempts exceeds the run's length."""

    @property
    def tokens(self) -> int:
        """All tokens, whatever their price."""
        return (
            self.input_tokens
            + self.cache_write_5m_tokens
            + self.cache_write_1h_tokens
            + self.cache_read_tokens
            + self.output_tokens
        )

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cache_write_5m_tokens=self.cache_write_5m_tokens + other.cache_write_5m_tokens,
            cache_write_1h_tokens=self.cache_write_1h_tokens + other.cache_write_1h_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            calls=self.calls + other.calls,
            usd=self.usd + other.usd,
            seconds=self.seconds + other.seconds,
        )
