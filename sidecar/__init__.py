"""The dispatch sidecar: everything between a model's `ask_<id>` tool call and its result."""
