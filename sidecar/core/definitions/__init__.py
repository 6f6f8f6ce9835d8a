"""Agent Definitions, the registries they refer to, and the prompts they become (PC1)."""
