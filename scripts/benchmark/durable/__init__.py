"""Frameworks that keep what they do, measured with the same turn: eight sub-agents that sleep 20 ms and answer with 1 KB."""
