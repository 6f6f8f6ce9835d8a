"""What the orchestrator's model emitted."""

import msgspec

from sidecar.core.identifiers import CallId


class ToolCall(msgspec.Struct, frozen=True):
    """One tool call of a model response.

    Attributes:
        arguments_json: as the model wrote it; may be anything.
    """

    call_id: CallId
    tool_name: str
    arguments_json: str
