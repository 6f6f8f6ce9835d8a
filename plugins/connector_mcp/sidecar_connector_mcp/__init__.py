"""Connector `mcp`: calls tools of MCP servers as data services, each pinned to the definition that was reviewed."""
