"""Every name of a span and its attributes: OpenTelemetry's GenAI conventions; ours begin with `dispatch.`."""

from typing import Final

INVOKE_WORKFLOW: Final = "invoke_workflow"
"""Operation of a dispatch: the fan-out as a whole."""

WORKFLOW: Final = "dispatch"
"""Second part of that span's name."""

WORKFLOW_NAME: Final = "gen_ai.workflow.name"
INVOKE_AGENT: Final = "invoke_agent"
"""Operation of an attempt of a sub-agent; the span is named by it and the agent."""

EXECUTE_TOOL: Final = "execute_tool"
"""Operation of a call of a data service; the span is named by it and the tool."""

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
PROVIDER_UNKNOWN: Final = "subagents"
"""Value where the model's name does not tell who provides it."""

AGENT_ID: Final = "gen_ai.agent.id"
"""The definition."""

AGENT_NAME: Final = "gen_ai.agent.name"
"""The slot."""

AGENT_VERSION: Final = "gen_ai.agent.version"
"""The digest of the definition."""

REQUEST_MODEL: Final = "gen_ai.request.model"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_INPUT_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
"""Of the input tokens, those that the provider read from its cache; absent where it does not say."""

CONVERSATION_ID: Final = "gen_ai.conversation.id"
"""The episode."""

TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
"""On an attempt: the model's call that it carries out."""

TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_TYPE_DATASTORE: Final = "datastore"
ERROR_TYPE: Final = "error.type"
TURN_ID: Final = "dispatch.turn.id"
DISPATCH_ID: Final = "dispatch.id"
CHILD_ID: Final = "dispatch.child.id"
CALLS: Final = "dispatch.calls"
"""How many calls ran."""

ATTEMPT: Final = "dispatch.child.attempt"
CACHE_META: Final = "dispatch.envelope.cache_meta"
"""What the data service says of its cache, as JSON. Source: PC2-D-29."""
