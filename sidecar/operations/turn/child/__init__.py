"""Runs one child: attempts, tool calls, reports."""
