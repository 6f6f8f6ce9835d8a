"""Turns the parallel tool calls of any agent framework into one dispatch; docs/adapters.md shows how."""

from subagents_client.coalescing.coalescer import Coalescer
from subagents_client.coalescing.gathering import Gathering, Sender

__all__ = ["Coalescer", "Gathering", "Sender"]
