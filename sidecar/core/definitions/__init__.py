"""Agent Definitions, the registries that they refer to, and their prompts (PC1)."""
