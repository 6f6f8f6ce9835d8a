"""Frameworks that keep what they do, measured with the same turn of eight sub-agents that sleep 20 ms."""
