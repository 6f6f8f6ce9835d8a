"""Frameworks that keep what they do, measured with the same turn: eight sub-agents that sleep 20 ms, 1 KB of answer each."""
