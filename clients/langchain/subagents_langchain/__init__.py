"""The dispatch sidecar for LangChain: a surface as tools, and a reference orchestrator on `create_agent`.

Use `tools_of` in an agent of your own, `SidecarMiddleware` in your own call of `create_agent`, or `Orchestrator` as a
complete agent.
"""

from subagents_langchain.acknowledging.filtering import StatementFilter
from subagents_langchain.acknowledging.notes import BUILT_IN, ENGLISH, MissingNote, Phrases
from subagents_langchain.acknowledging.statements import rendered_text
from subagents_langchain.compaction import Compaction
from subagents_langchain.costs import Costs, ExtraCall, Price, Purpose
from subagents_langchain.history import (
    InvalidHistory,
    broken_rules,
    narration_of_earlier_turns,
    validate_history,
    with_open_calls_answered,
)
from subagents_langchain.middleware import SidecarMiddleware
from subagents_langchain.open_turn import ForeignTurn, OpenTurn, SidecarState
from subagents_langchain.orchestrator import Answer, Orchestrator
from subagents_langchain.outcomes.artifacts import artifact_of, outcome_in
from subagents_langchain.outcomes.missing import Missing, MissingKind, missing_calls_in
from subagents_langchain.prompts import ModelCall
from subagents_langchain.rules import Compacted, CompactionRules, OrchestratorRules
from subagents_langchain.tools import AskSubAgent, tools_of
from subagents_langchain.turn import ActiveTurn, Preamble, StatusLine, TurnEvent, active_turn

__all__ = [
    "BUILT_IN",
    "ENGLISH",
    "ActiveTurn",
    "Answer",
    "AskSubAgent",
    "Compacted",
    "Compaction",
    "CompactionRules",
    "Costs",
    "ExtraCall",
    "ForeignTurn",
    "InvalidHistory",
    "Missing",
    "MissingKind",
    "MissingNote",
    "ModelCall",
    "OpenTurn",
    "Orchestrator",
    "OrchestratorRules",
    "Phrases",
    "Preamble",
    "Price",
    "Purpose",
    "SidecarMiddleware",
    "SidecarState",
    "StatementFilter",
    "StatusLine",
    "TurnEvent",
    "active_turn",
    "artifact_of",
    "broken_rules",
    "missing_calls_in",
    "narration_of_earlier_turns",
    "outcome_in",
    "rendered_text",
    "tools_of",
    "validate_history",
    "with_open_calls_answered",
]
