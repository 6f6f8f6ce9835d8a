"""What the orchestrator's model emitted."""

from dataclasses import dataclass

from sidecar.core.identifiers import CallId


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of a model response.

    Attributes:
        arguments_json: as the model wrote it; may be anything.
    """

    call_id: CallId
    tool_name: str
    arguments_json: str
