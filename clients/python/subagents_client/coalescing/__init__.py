"""Turns the parallel tool calls of any agent framework into one dispatch; docs/adapters.md shows how."""

from subagents_client.coalescing.call_batch import CallBatch, Sender, Settled
from subagents_client.coalescing.coalescer import Coalescer

__all__ = ["CallBatch", "Coalescer", "Sender", "Settled"]
