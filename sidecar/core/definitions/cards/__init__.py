"""Agent Definitions as values: card, digest, prompt, costs."""
