"""The tool calls that the orchestrator's model emitted."""

import msgspec

from sidecar.core.dispatching.questions import Answering
from sidecar.core.identifiers import CallId


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """One tool call of a model response.

    Attributes:
        arguments_json: as the model wrote it; not validated.
        answering: the question that the call answers; None: it begins new work.
    """

    call_id: CallId
    tool_name: str
    arguments_json: str
    answering: Answering | None = None
