"""Turns parallel tool calls of any framework into one dispatch."""
