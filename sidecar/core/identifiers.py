"""Ids as types, and the two shapes an id may have.

Definition-side ids (definitions, slots, tools, prompt blocks, models) are written by people and end up in tool names,
file paths and flag names. Run-side ids (turn, episode, dispatch, call) are made by the caller's code.
"""

import re
from typing import Final, NewType

from subagents_errors import FieldProblem

DefinitionId = NewType("DefinitionId", str)
Slot = NewType("Slot", str)
"""The id an orchestrator lists in `sub_agents`; its tool is `ask_<slot>`."""
Vertical = NewType("Vertical", str)
ToolId = NewType("ToolId", str)
ModelId = NewType("ModelId", str)
BlockId = NewType("BlockId", str)
Digest = NewType("Digest", str)
"""`sha256:` and 64 lower-case hex digits."""
Commit = NewType("Commit", str)

TurnId = NewType("TurnId", str)
EpisodeId = NewType("EpisodeId", str)
DispatchId = NewType("DispatchId", str)
CallId = NewType("CallId", str)
ChildId = NewType("ChildId", str)
AttemptId = NewType("AttemptId", str)
Principal = NewType("Principal", str)
"""The user on whose behalf a turn runs. Compared byte for byte, never normalised."""
InstanceId = NewType("InstanceId", str)
"""One running sidecar; a restart gets a new id."""

TOOL_PREFIX: Final = "ask_"

DEFINITION_SIDE: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}\Z")
"""60 characters, because model providers allow tool names of 64 and `ask_` takes four."""
RUN_SIDE: Final = re.compile(r"[\x21-\x7e]{1,128}\Z")


def tool_name_of(slot: Slot) -> str:
    """Return the name of the tool that asks the sub-agent in `slot`. Source: PC2-FR-2a, TN-40."""
    return TOOL_PREFIX + slot


def problem_with_run_side_id(field: str, value: str) -> FieldProblem | None:
    """Return the problem of a turn, episode, dispatch or call id, or None if it is well-formed."""
    if RUN_SIDE.match(value):
        return None
    if not value:
        return FieldProblem(field, "is empty; give 1 to 128 printable ASCII characters without spaces")
    return FieldProblem(field, "must be 1 to 128 printable ASCII characters without spaces")
