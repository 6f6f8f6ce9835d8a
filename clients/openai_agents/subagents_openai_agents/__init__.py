"""The dispatch sidecar under the OpenAI Agents SDK: sub-agents as function tools, one dispatch per model response."""

from subagents_openai_agents.tools import SubAgents

__all__ = ["SubAgents"]
