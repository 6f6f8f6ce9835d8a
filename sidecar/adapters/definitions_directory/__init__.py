"""Agent Definitions from a directory: `agent_config.yaml` and `prompts/components/`, read safely and watched."""
